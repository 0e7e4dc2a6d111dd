"""Row selection: describe which rows of a user's table are messages, the same for both engines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, Protocol

from onceward.errors import InvalidArgument, SourceRefused
from onceward.stores import Row
from onceward.workers.source_protocol import ActivePartitions, Item, Lag

#: A value that a column must have.
Value = str | int | bool
#: `lag` counts at most this many rows, and reports an unknown number beyond.
LAG_ROWS_MAX: Final = 100_000
XID_COLUMN: Final = "onceward_xid"
_NAME: Final = re.compile(r"[^\0]{1,200}", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """A selection of rows of one table."""

    #: The table's name; on PostgreSQL `schema.table` if it is not on the search path.
    table: str
    id_column: str
    #: The columns of a message; None: all but `xid_column`.
    columns: tuple[str, ...] | None
    #: Filters: columns, and the value that each must have.
    where: tuple[tuple[str, Value], ...]
    #: PostgreSQL only: the column with the id of the transaction that inserted the row.
    xid_column: str
    #: The creation time of a row, for the lag.
    time_column: str | None

    def filtered(self, column: str, value: Value) -> Selection:
        """Return this selection with one more filter."""
        return replace(self, where=(*self.where, (column, value)))

    @property
    def filters(self) -> tuple[str, ...]:
        """Return the columns of the filters."""
        return tuple(column for column, _ in self.where)


class RowReader(Protocol):
    """Reads the rows of a selection; each engine implements it."""

    def check(self, by: str | None = None) -> None:
        """Raise SourceRefused, with what to run, if the table cannot be read without loss.

        With `by`, also if the table cannot be partitioned by this column.
        """

    def page(self, after: str | None, limit: int) -> Sequence[Item]:
        """Return rows after a position."""

    def count(self, after: str | None, up_to: str | None) -> int:
        """Return the number of rows after one position, up to and including another."""

    def lag(self, after: str | None) -> Lag:
        """Return the number of rows after a position, and the age of the oldest."""

    def head(self) -> str | None:
        """Return a value that changes when rows are added; None if the engine has none."""

    def filtered(self, column: str, value: Value) -> RowReader:
        """Return a reader with one more filter."""

    def keys(self, column: str, marker: str | None) -> ActivePartitions:
        """Return the values of a column in rows that were added since a marker."""


def make_selection(  # noqa: PLR0913 - the arguments of a table source
    table: str,
    *,
    id_column: str = "id",
    columns: Iterable[str] | None = None,
    where: Mapping[str, Value] | None = None,
    xid_column: str = XID_COLUMN,
    time_column: str | None = None,
) -> Selection:
    """Validate the arguments of a table source, and return its selection."""
    for field, name in (("table", table), ("id_column", id_column), ("xid_column", xid_column)):
        check_name(field, name)
    if time_column is not None:
        check_name("time_column", time_column)
    for name in columns or ():
        check_name("columns", name)
    for name, value in (where or {}).items():
        check_name("where", name)
        if not isinstance(value, (str, int)):
            message = f"where: {name!r:.60} must be compared with a string or an integer"
            message += f", not {value!r:.60}"
            fix = "leave it out, and check this condition in the handler"
            raise InvalidArgument(message, fix=fix, field="where")
    return Selection(
        table=table,
        id_column=id_column,
        columns=None if columns is None else tuple(columns),
        where=tuple((where or {}).items()),
        xid_column=xid_column,
        time_column=time_column,
    )


def quoted(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def column_list(names: Iterable[str]) -> str:
    """Return names as an SQL column list."""
    return ", ".join(quoted(name) for name in names)


def group_indexes(rows: Iterable[Row]) -> list[tuple[str, bool, list[str | None]]]:
    """Return name, uniqueness and columns of each index, from the rows of `table_indexes`."""
    grouped = groupby(rows, key=lambda row: (row[0], bool(row[1])))
    return [(name, unique, [row[2] for row in found]) for (name, unique), found in grouped]


def missing_table(selection: Selection) -> SourceRefused:
    """Return the error for a table that does not exist."""
    message = f"table {selection.table!r} does not exist under exactly this name"
    fix = "correct the name, or create the table"
    return SourceRefused(message, fix=fix, table=selection.table)


def missing_column(selection: Selection, name: str) -> SourceRefused:
    """Return the error for a column that does not exist."""
    message = f"table {selection.table!r} has no column {name!r}"
    fix = "correct the name, or add the column"
    return SourceRefused(message, fix=fix, table=selection.table)


def unreadable_table(
    selection: Selection, problem: str, statements: Sequence[str], *, fix: str | None = None
) -> SourceRefused:
    """Return the error for a table that cannot be read without loss, with the statements to run.

    Where a person has to decide, `fix` says what to do, and no command runs a statement.
    """
    message = f"table {selection.table!r} cannot be read without loss: {problem}"
    advice = fix or f"run: {'; '.join(statements)};"
    error = SourceRefused(message, fix=advice, table=selection.table)
    error.statements = () if fix else tuple(statements)
    return error


def unreadable_partition_key(selection: Selection, problem: str) -> SourceRefused:
    """Return the error for a column that cannot define partitions."""
    message = (
        f"table {selection.table!r} cannot be partitioned without reading rows twice: {problem}"
    )
    fix = "partition by a column of integers, or of text that is compared byte by byte"
    return SourceRefused(message, fix=fix, table=selection.table)


def first_missing_column(
    selection: Selection, known: Iterable[str], extra: Iterable[str] = ()
) -> str | None:
    """Return the first column of a selection that the table does not have."""
    optional = (selection.time_column,) if selection.time_column else ()
    wanted = (selection.id_column, *(selection.columns or ()), *selection.filters, *optional)
    found = set(known)
    return next((name for name in (*wanted, *extra) if name not in found), None)


def check_name(field: str, name: object) -> None:
    """Raise InvalidArgument for a text that cannot be a name in a database."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        message = f"{field}: must be a name of 1 to 200 characters, not {name!r:.60}"
        raise InvalidArgument(message, fix="pass the name as the database has it", field=field)
