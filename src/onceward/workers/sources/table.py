"""TableSource: the rows of a table of the user's, each one a message, in one line or in many.

The rows must be in an order in which none can appear too late. How that is reached differs by
engine, and so do positions; see `postgres_rows` and `sqlite_rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from typing import Any, Protocol

from onceward.client import Onceward
from onceward.errors import OncewardError
from onceward.stores import Store
from onceward.workers.source_protocol import ActivePartitions, Item, Lag, Wake
from onceward.workers.sources.row_selection import (
    XID_COLUMN,
    RowReader,
    Selection,
    Value,
    check_name,
    make_selection,
)
from onceward.workers.wakeups import ANY_TOPIC, Wakeups


class HasStore(Protocol):
    """An app, which opens its store when it is needed."""

    @property
    def ow(self) -> Onceward:
        """Return the open store."""


#: Where a table is.
StoreLike = Onceward | Store | HasStore


class TableSource:
    """Rows of one table, in the order of their commits.

    On PostgreSQL the table needs a column for the transaction of a row, and an index; on SQLite an
    `INTEGER PRIMARY KEY AUTOINCREMENT`. Without it the source refuses to run, and says what to do.
    """

    def __init__(  # noqa: PLR0913 - what a table has names for
        self,
        store: StoreLike,
        table: str,
        *,
        columns: Iterable[str] | None = None,
        where: Mapping[str, Value] | None = None,
        id_column: str = "id",
        xid_column: str = XID_COLUMN,
        time_column: str | None = None,
    ) -> None:
        """Name the table, in the store that keeps the cursors or in another one.

        Args:
            store: An open store, or the app; its store is opened when the table is first read.
            table: Its name; on PostgreSQL `schema.table` too.
            columns: What a message holds; all columns but `xid_column` if left out.
            where: Columns and the value each must have, and keep: a row that comes to fit later is
                not read. Needs an index that begins with them.
            id_column: What tells rows apart; on SQLite the one that is AUTOINCREMENT.
            xid_column: PostgreSQL only: the transaction that added the row.
            time_column: When a row came to be, for the lag.

        """
        selection = make_selection(
            table,
            columns=columns,
            where=where,
            id_column=id_column,
            xid_column=xid_column,
            time_column=time_column,
        )
        self._table_rows = _TableRows(store, selection)

    def check(self) -> None:
        """Raise SourceRefused, with what to run, if the table cannot be read without loss."""
        self._table_rows.reader.check()

    def apply(self, statement: str) -> None:
        """Run a statement that `check` asked for, in a transaction of its own."""
        self._table_rows.apply(statement)

    def read(self, after: str | None, limit: int) -> Sequence[Item]:
        """Return rows after a position, as JSON objects."""
        return self._table_rows.reader.page(after, limit)

    def count(self, after: str | None, up_to: str | None) -> int:
        """Return how many rows lie behind `after`, up to and with `up_to`; None is the start."""
        return self._table_rows.reader.count(after, up_to)

    def lag(self, after: str | None) -> Lag:
        """Return how many rows are left, None beyond 100,000, and what holds them back."""
        return self._table_rows.reader.lag(after)

    def watching(self, wake: Wake) -> AbstractContextManager[None]:
        """Call `wake` when rows may have been added, while the block runs.

        On SQLite commits are noticed; on PostgreSQL the writer sends the table's name to `Wakeups`.
        """
        return self._table_rows.watching(wake)


class TablePartitions:
    """Rows of one table, in a line of its own for every value of a column; without one in none."""

    def __init__(self, store: StoreLike, table: str, *, by: str, **options: Any) -> None:  # noqa: ANN401 - see there
        """Name the table and the column; `options` are those of `TableSource`."""
        check_name("by", by)
        self._by = by
        self._table_rows = _TableRows(store, make_selection(table, **options))

    def check(self) -> None:
        """Raise SourceRefused, with what to run, if the table cannot be read without loss."""
        self._table_rows.reader.check(self._by)

    def apply(self, statement: str) -> None:
        """Run a statement that `check` asked for, in a transaction of its own."""
        self._table_rows.apply(statement)

    def source(self, key: str) -> TableSource:
        """Return the rows that have this value."""
        found = TableSource.__new__(TableSource)
        found._table_rows = self._table_rows.filtered(self._by, key)  # noqa: SLF001 - made here, of the same
        return found

    def active(self, marker: str | None) -> ActivePartitions:
        """Return the values in rows that came since a marker; all there are without one."""
        return self._table_rows.reader.keys(self._by, marker)

    def watching(self, wake: Wake) -> AbstractContextManager[None]:
        """Call `wake` when rows may have been added, while the block runs."""
        return self._table_rows.watching(wake)


class Table:
    """A table in a store that is named later, such as the app's: `Table("leads", key="id")`."""

    def __init__(
        self,
        table: str,
        *,
        key: str = "id",
        by: str | None = None,
        **options: Any,  # noqa: ANN401 - see there
    ) -> None:
        """Name the table and its key, and `by` for partitions; `options` are `TableSource`'s."""
        self._by = by
        self._options = {"table": table, "id_column": key, **options}
        self.on(_NoStore())  # An invalid table name is reported here, not when work begins.

    def on(self, store: StoreLike) -> TableSource | TablePartitions:
        """Return the source in this store."""
        if self._by is None:
            return TableSource(store, **self._options)
        return TablePartitions(store, by=self._by, **self._options)


class _NoStore:
    """A place that is never read from."""

    @property
    def ow(self) -> Onceward:
        raise NotImplementedError


class _TableRows:
    """A selection in a store that is opened when it is first needed."""

    def __init__(self, place: StoreLike, selection: Selection) -> None:
        self._store_like = place
        self._selection = selection

    @cached_property
    def store(self) -> Store:
        place = self._store_like
        if not isinstance(place, Onceward) and hasattr(place, "ow"):
            place = place.ow
        return place.store if isinstance(place, Onceward) else place

    @cached_property
    def reader(self) -> RowReader:
        if self.store.engine == "postgres":
            from onceward.workers.sources.postgres_rows import PostgresRows  # noqa: PLC0415 - one

            return PostgresRows(self.store, self._selection)
        from onceward.workers.sources.sqlite_rows import SqliteRows  # noqa: PLC0415 - of them

        return SqliteRows(self.store, self._selection)

    def apply(self, statement: str) -> None:
        with self.store.transaction() as tx:
            tx.execute(statement)

    def filtered(self, column: str, value: Value) -> _TableRows:
        found = _TableRows(self._store_like, self._selection)
        found.store, found.reader = self.store, self.reader.filtered(column, value)
        return found

    def watching(self, wake: Wake) -> AbstractContextManager[None]:
        heard = _on_table_wakeup(self.reader, self._selection.table, wake)
        return Wakeups.of(self.store).subscribed(heard)


def _on_table_wakeup(rows: RowReader, table: str, wake: Wake) -> Callable[[str | None], None]:
    """Return what to do at a hint: wake, unless it is about something else."""
    seen = _head(rows)

    def heard(topic: str | None) -> None:
        nonlocal seen
        if topic not in (None, ANY_TOPIC, table):
            return
        before, seen = seen, _head(rows)
        if topic == table or seen is None or seen != before:
            wake()

    return heard


def _head(rows: RowReader) -> str | None:
    """Return what changes when rows are added, or None: any hint may be about this table."""
    with suppress(OncewardError):
        return rows.head()
    return None
