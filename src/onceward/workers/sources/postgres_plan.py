"""PostgresPlan: a PostgreSQL table, looked at once: can it be read without loss, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from onceward.stores import Row, Store
from onceward.workers.sources.row_selection import (
    Selection,
    column_list,
    first_missing_column,
    indexes_of,
    quoted,
    unreadable_partition_key,
    unreadable_table,
)

_XID_TYPE: Final = "xid8"
_DEFAULT: Final = "pg_current_xact_id()"
#: Kinds of types whose values come as they are.
_NUMBERS: Final = ("bool", "int2", "int4", "int8", "oid", "float4", "float8")
_NATIVE: Final = frozenset((*_NUMBERS, "text", "varchar", "bpchar", "name", "char", "bytea"))
_NESTED: Final = frozenset(("json", "jsonb"))
#: Kinds of types in which equal values have the same text. Not so 1.0 and 1.00, nor 0 and -0.
_KEYS: Final = frozenset(
    ("bool", "int2", "int4", "int8", "text", "varchar", "bpchar", "name", "uuid")
)
_ENUM: Final = "E"
#: Kinds of types that are moments or days. Infinity, which has no such form, stays a word.
_TIMES: Final = {
    "timestamptz": "to_char({0} at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')",
    "timestamp": "to_char({0}, 'YYYY-MM-DD\"T\"HH24:MI:SS.US')",
    "date": "to_char({0}, 'YYYY-MM-DD')",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class PostgresPlan:
    """The parts of the statements that read a table; `t` is the table in all of them."""

    table: str
    xid: str
    id: str
    id_type: str
    #: The names of what a message holds, and the values.
    names: tuple[str, ...]
    values: str
    #: Which of the values are JSON already.
    nested: tuple[int, ...]
    #: When a row came to be.
    moment: str
    #: Columns that must have a value, and the values, in the order of the index.
    filters: tuple[str, ...]
    wanted: tuple[str, ...]


def plan(store: Store, selection: Selection, by: str | None = None) -> PostgresPlan:
    """Look at a table; SourceRefused, with what to run, if rows could be missed.

    `by` is the column that makes partitions of it, when those are to be found.
    """
    table = table_name(selection.table)
    columns = {row[0]: row for row in store.read("table_columns", table=table)}
    if not columns:
        raise unreadable_table(selection, "there is none of exactly this name", [])
    unknown = first_missing_column(selection, columns, (by,) if by else ())
    if unknown is not None:
        raise unreadable_table(selection, f"it has no column {unknown!r}", [])
    if by:
        _check_key(store, selection, columns[by])
    filters = _check(selection, columns, indexes_of(store.read("table_indexes", table=table)), by)
    names = selection.columns or tuple(name for name in columns if name != selection.xid_column)
    time_column = selection.time_column
    return PostgresPlan(
        table=table,
        xid=f"t.{quoted(selection.xid_column)}",
        id=f"t.{quoted(selection.id_column)}",
        id_type=columns[selection.id_column][1],
        names=names,
        values=", ".join(_value(columns[name]) for name in names),
        nested=tuple(n for n, name in enumerate(names) if _is_nested(columns[name])),
        moment=_value(columns[time_column]) if time_column else "null",
        filters=tuple(f"t.{quoted(name)}" for name in filters),
        wanted=tuple(
            f"cast(:w{selection.filters.index(name)} as {columns[name][1]})" for name in filters
        ),
    )


def table_name(name: str) -> str:
    """Return a table's name as SQL takes it, with its schema if it has one."""
    return ".".join(quoted(part) for part in name.split(".", 1))


def _check_key(store: Store, selection: Selection, column: Row) -> None:
    """Refuse partitions by a column in which one value has several spellings.

    Each spelling would be a partition, and each of these would have all the rows.
    """
    name, _, kind, category, *_ = column
    if kind not in _KEYS and category != _ENUM:
        problem = f"{name!r} is {kind}, in which equal values may have different texts"
        raise unreadable_partition_key(selection, problem)
    table = table_name(selection.table)
    for collation, is_exact in store.read("table_collations", table=table, column=name):
        if not is_exact:
            problem = (
                f"{name!r} has the collation {collation!r}, to which different texts are equal"
            )
            raise unreadable_partition_key(selection, problem)


def _check(
    selection: Selection,
    columns: dict[str, Row],
    indexes: list[tuple[str, bool, list[str | None]]],
    by: str | None,
) -> list[str]:
    """Refuse a table that lacks what keeps rows from being missed, naming all of it at once.

    Return the columns of the filters as the index has them.
    """
    table, xid = table_name(selection.table), selection.xid_column
    problems, statements = _column_problems(table, xid, columns.get(xid))
    own = {selection.id_column, xid, *selection.filters}
    id_name = quoted(selection.id_column)
    if not any(unique and set(names) <= own for _, unique, names in indexes):
        problems.append(f"{selection.id_column!r} is not unique")
        statements.append(f"CREATE UNIQUE INDEX ON {table} ({id_name})")
    if not columns[selection.id_column][4]:
        problems.append(f"{selection.id_column!r} may be null")
        statements.append(f"ALTER TABLE {table} ALTER COLUMN {id_name} SET NOT NULL")
    ordered = [*([by] if by else []), xid, selection.id_column]
    serving = [names for _, _, names in indexes if _serves(names, selection.filters, ordered)]
    lacking = [] if serving else [[*selection.filters, *ordered]]
    # What came since a marker is found by its transaction.
    if by and not any(_serves(names, (), [xid]) for _, _, names in indexes):
        lacking.append([xid, by])
    for names in lacking:
        problems.append(f"it has no index on ({', '.join(names)})")
        statements.append(f"CREATE INDEX ON {table} ({column_list(names)})")
    if problems:
        # A column of another type may hold something of the user's: to drop it is not for us.
        is_safe = xid not in columns or columns[xid][2] == _XID_TYPE
        raise unreadable_table(selection, ", ".join(problems), statements, is_safe=is_safe)
    return [name for name in serving[0][: len(selection.filters)] if name is not None]


def _column_problems(table: str, xid: str, column: Row | None) -> tuple[list[str], list[str]]:
    name = quoted(xid)
    if column is None:
        added = f"ALTER TABLE {table} ADD COLUMN {name} xid8 NOT NULL DEFAULT {_DEFAULT}"
        return [f"it has no column {xid!r}, which says in which transaction a row came"], [added]
    _, _, kind, _, not_null, default = column
    if kind != _XID_TYPE:
        return [f"{xid!r} is {kind}, not xid8"], [f"ALTER TABLE {table} DROP COLUMN {name}"]
    problems, statements = [], []
    if default != _DEFAULT:
        problems.append(f"{xid!r} is not filled with the transaction of its row")
        statements.append(f"ALTER TABLE {table} ALTER COLUMN {name} SET DEFAULT {_DEFAULT}")
    if not not_null:
        problems.append(f"{xid!r} may be null")
        statements.append(f"UPDATE {table} SET {name} = DEFAULT WHERE {name} IS NULL")  # noqa: S608 - printed
        statements.append(f"ALTER TABLE {table} ALTER COLUMN {name} SET NOT NULL")
    return problems, statements


def _serves(names: list[str | None], equal: Sequence[str], ordered: list[str]) -> bool:
    """Say whether an index finds a range; columns with one value each may be in any order."""
    count = len(equal)
    is_led = set(names[:count]) == set(equal)
    return is_led and names[count : count + len(ordered)] == ordered


def _value(column: Row) -> str:
    """Return the expression that gives a column in a form that every driver can load."""
    name, kind = f"t.{quoted(column[0])}", column[2]
    if kind in _NATIVE:
        return name
    if kind in _TIMES:
        return f"case when isfinite({name}) then {_TIMES[kind].format(name)} else {name}::text end"
    return f"to_json({name})::text" if _is_compound(column) else f"{name}::text"


def _is_nested(column: Row) -> bool:
    return column[2] in _NESTED or _is_compound(column)


def _is_compound(column: Row) -> bool:
    """Say whether it is an array or a row."""
    return column[3] in ("A", "C")
