"""Table source: reads the rows of a user's table as messages, in one sequence or in partitions.

Rows are read in an order in which no row can appear at an earlier position later. How that order is
achieved, and the format of positions, depends on the engine: see `postgres_rows` and `sqlite_rows`.
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
    """An app, which opens its store on first use."""

    @property
    def ow(self) -> Onceward:
        """Return the open store."""


#: The database of a table.
StoreLike = Onceward | Store | HasStore


class TableSource:
    """The rows of one table, in commit order.

    On PostgreSQL the table needs a column with the id of the transaction that inserted the row, and
    an index. On SQLite it needs an `INTEGER PRIMARY KEY AUTOINCREMENT`. Without these, reading
    raises SourceRefused with the statements to run.
    """

    def __init__(  # noqa: PLR0913 - names of a table and its columns
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
        """Set the table, in the store of the cursors or in another one.

        Args:
            store: An open store, or an app, whose store is opened when the table is first read.
            table: The name of the table; on PostgreSQL optionally `schema.table`.
            columns: The columns of a message. Default: all columns but `xid_column`.
            where: Values by column; only rows with these values are read. The values must not
                change: a row that is updated to match later is not read. Needs an index that
                begins with these columns.
            id_column: A unique column; on SQLite the AUTOINCREMENT primary key.
            xid_column: PostgreSQL only: the id of the transaction that inserted the row.
            time_column: The creation time of a row, for the lag.

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
        """Return the number of rows after `after`, up to and including `up_to`; None is start."""
        return self._table_rows.reader.count(after, up_to)

    def lag(self, after: str | None) -> Lag:
        """Return the number of rows after a position, None beyond 100,000, and what blocks them."""
        return self._table_rows.reader.lag(after)

    def watching(self, wake: Wake) -> AbstractContextManager[None]:
        """Call `wake` when rows may have been added, while the block runs.

        On SQLite every commit is detected. On PostgreSQL the writer must publish the table's name
        through `Wakeups`.
        """
        return self._table_rows.watching(wake)


class TablePartitions:
    """Rows of one table, partitioned by the values of a column; rows with NULL are not read."""

    def __init__(self, store: StoreLike, table: str, *, by: str, **options: Any) -> None:  # noqa: ANN401 - see there
        """Set the table and the column; `options` are those of `TableSource`."""
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
        """Return a source of the rows with this value."""
        found = TableSource.__new__(TableSource)
        found._table_rows = self._table_rows.filtered(self._by, key)  # noqa: SLF001 - same module
        return found

    def active(self, marker: str | None) -> ActivePartitions:
        """Return the values in rows that were added since a marker; without one, all values."""
        return self._table_rows.reader.keys(self._by, marker)

    def watching(self, wake: Wake) -> AbstractContextManager[None]:
        """Call `wake` when rows may have been added, while the block runs."""
        return self._table_rows.watching(wake)


class Table:
    """A table in a store that is set later, such as the app's: `Table("leads", key="id")`."""

    def __init__(
        self,
        table: str,
        *,
        key: str = "id",
        by: str | None = None,
        **options: Any,  # noqa: ANN401 - see there
    ) -> None:
        """Set the table, its key and its partition column; `options` are those of `TableSource`."""
        self._by = by
        self._options = {"table": table, "id_column": key, **options}
        self.on(_NoStore())  # Validates the names now, not when a worker starts.

    def on(self, store: StoreLike) -> TableSource | TablePartitions:
        """Return the source in this store."""
        if self._by is None:
            return TableSource(store, **self._options)
        return TablePartitions(store, by=self._by, **self._options)


class _NoStore:
    """A stand-in for a store that is never used."""

    @property
    def ow(self) -> Onceward:
        raise NotImplementedError


class _TableRows:
    """A selection of rows in a store that is opened on first use."""

    def __init__(self, store_like: StoreLike, selection: Selection) -> None:
        self._store_like = store_like
        self._selection = selection

    @cached_property
    def store(self) -> Store:
        store_like = self._store_like
        if not isinstance(store_like, Onceward) and hasattr(store_like, "ow"):
            store_like = store_like.ow
        return store_like.store if isinstance(store_like, Onceward) else store_like

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
        on_hint = _on_table_wakeup(self.reader, self._selection.table, wake)
        return Wakeups.of(self.store).subscribed(on_hint)


def _on_table_wakeup(rows: RowReader, table: str, wake: Wake) -> Callable[[str | None], None]:
    """Return a callback for hints: calls `wake` unless the hint is about another table."""
    seen = _head(rows)

    def on_hint(topic: str | None) -> None:
        nonlocal seen
        if topic not in (None, ANY_TOPIC, table):
            return
        before, seen = seen, _head(rows)
        if topic == table or seen is None or seen != before:
            wake()

    return on_hint


def _head(rows: RowReader) -> str | None:
    """Return a value that changes when rows are added; None if it is unknown."""
    with suppress(OncewardError):
        return rows.head()
    return None
