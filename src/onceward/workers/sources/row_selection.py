"""Row selection: which rows of a table are messages, and what each engine needs for them."""

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
#: Rows that `lag` counts at the most; when there are more it says that only a full read could tell.
LAG_ROWS_MAX: Final = 100_000
XID_COLUMN: Final = "onceward_xid"
_PLAIN: Final = re.compile(r"[^\0]{1,200}", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """Rows of one table."""

    #: Its name; on PostgreSQL with a schema before a dot, if it is not on the search path.
    table: str
    id_column: str
    #: What a message holds; None is every column but the one that is ours.
    columns: tuple[str, ...] | None
    #: Columns, and the value that each must have.
    where: tuple[tuple[str, Value], ...]
    #: PostgreSQL only: the column that holds the transaction which added the row.
    xid_column: str
    #: Says how old a row is, for the lag.
    time_column: str | None

    def filtered(self, column: str, value: Value) -> Selection:
        """Return those of its rows that have a value in a column."""
        return replace(self, where=(*self.where, (column, value)))

    @property
    def filters(self) -> tuple[str, ...]:
        """Return the columns that must have a value."""
        return tuple(column for column, _ in self.where)


class RowReader(Protocol):
    """How an engine reads the rows of a selection."""

    def check(self, by: str | None = None) -> None:
        """Raise SourceRefused, with what to run, if the table cannot be read without loss.

        With `by`, also when the partitions by this column could not be found.
        """

    def page(self, after: str | None, limit: int) -> Sequence[Item]:
        """Return rows after a position."""

    def count(self, after: str | None, up_to: str | None) -> int:
        """Return how many rows lie between two positions."""

    def lag(self, after: str | None) -> Lag:
        """Return how much is left."""

    def head(self) -> str | None:
        """Return something that is another one when rows were added; None if that is no help."""

    def filtered(self, column: str, value: Value) -> RowReader:
        """Return a reader of those rows that have a value in a column."""

    def keys(self, column: str, marker: str | None) -> ActivePartitions:
        """Return the values of a column in rows that came since a marker."""


def make_selection(  # noqa: PLR0913 - what a table source takes
    table: str,
    *,
    id_column: str = "id",
    columns: Iterable[str] | None = None,
    where: Mapping[str, Value] | None = None,
    xid_column: str = XID_COLUMN,
    time_column: str | None = None,
) -> Selection:
    """Return a selection, if all of it can be one."""
    for field, name in (("table", table), ("id_column", id_column), ("xid_column", xid_column)):
        check_name(field, name)
    if time_column is not None:
        check_name("time_column", time_column)
    for name in columns or ():
        check_name("columns", name)
    for name, value in (where or {}).items():
        check_name("where", name)
        if not isinstance(value, (str, int)):
            message = f"where: {name!r:.60} must be a text or a whole number, not {value!r:.60}"
            raise InvalidArgument(message, fix="filter the rest in the handler", field="where")
    return Selection(
        table=table,
        id_column=id_column,
        columns=None if columns is None else tuple(columns),
        where=tuple((where or {}).items()),
        xid_column=xid_column,
        time_column=time_column,
    )


def quoted(name: str) -> str:
    """Return a name as SQL takes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def column_list(names: Iterable[str]) -> str:
    """Return names as they stand in an index."""
    return ", ".join(quoted(name) for name in names)


def indexes_of(rows: Iterable[Row]) -> list[tuple[str, bool, list[str | None]]]:
    """Return name, uniqueness and columns of each index, from the rows of `table_indexes`."""
    grouped = groupby(rows, key=lambda row: (row[0], bool(row[1])))
    return [(name, unique, [row[2] for row in found]) for (name, unique), found in grouped]


def unreadable_table(
    selection: Selection, problem: str, statements: Sequence[str], *, is_safe: bool = True
) -> SourceRefused:
    """Return the error for a table that would lose messages, with what to run.

    Statements that are not safe are shown, and left to a person.
    """
    message = f"table {selection.table!r} cannot be read without loss: {problem}"
    fix = f"run: {'; '.join(statements)};" if statements else "name another table or column"
    error = SourceRefused(message, fix=fix, table=selection.table)
    error.statements = tuple(statements) if is_safe else ()
    return error


def unreadable_partition_key(selection: Selection, problem: str) -> SourceRefused:
    """Return the error for a column that makes no partitions."""
    message = f"table {selection.table!r} cannot be read once, in partitions: {problem}"
    fix = "partition by a column of whole numbers, or of text that is compared byte by byte"
    return SourceRefused(message, fix=fix, table=selection.table)


def first_missing_column(
    selection: Selection, known: Iterable[str], extra: Iterable[str] = ()
) -> str | None:
    """Return the first column that is asked for and not there."""
    optional = (selection.time_column,) if selection.time_column else ()
    wanted = (selection.id_column, *(selection.columns or ()), *selection.filters, *optional)
    found = set(known)
    return next((name for name in (*wanted, *extra) if name not in found), None)


def check_name(field: str, name: object) -> None:
    """Refuse what cannot be the name of anything in a database."""
    if not isinstance(name, str) or not _PLAIN.fullmatch(name):
        message = f"{field}: must be a name of 1 to 200 characters, not {name!r:.60}"
        raise InvalidArgument(message, fix="pass the name as the database has it", field=field)
