"""PostgreSQL read plan: check that a table can be read without loss, and build the SQL for it.

Computed once per table and filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from onceward.stores import Row, Store
from onceward.workers.sources.row_selection import (
    Selection,
    column_list,
    first_missing_column,
    group_indexes,
    missing_column,
    missing_table,
    quoted,
    unreadable_partition_key,
    unreadable_table,
)

_XID_TYPE: Final = "xid8"
_DEFAULT: Final = "pg_current_xact_id()"
#: Types whose values are selected without a cast.
_NUMBER_TYPES: Final = ("bool", "int2", "int4", "int8", "oid", "float4", "float8")
_TEXT_TYPES: Final = ("text", "varchar", "bpchar", "name", "char", "bytea")
_NATIVE_TYPES: Final = frozenset((*_NUMBER_TYPES, *_TEXT_TYPES))
_JSON_TYPES: Final = frozenset(("json", "jsonb"))
#: Types in which equal values have the same text, unlike 1.0 and 1.00, or 0 and -0.
_EXACT_TYPES: Final = frozenset(
    ("bool", "int2", "int4", "int8", "text", "varchar", "bpchar", "name", "uuid")
)
_ENUM_CATEGORY: Final = "E"
#: Formats of times and dates. Infinity, which has no such format, is selected as text.
_TIME_FORMATS: Final = {
    "timestamptz": "to_char({0} at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')",
    "timestamp": "to_char({0}, 'YYYY-MM-DD\"T\"HH24:MI:SS.US')",
    "date": "to_char({0}, 'YYYY-MM-DD')",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class PostgresPlan:
    """SQL fragments that read one table, which has the alias `t` in all of them."""

    table: str
    xid: str
    id: str
    id_type: str
    #: The field names of a message, and the expressions of their values.
    names: tuple[str, ...]
    values: str
    #: Indexes of the values that are JSON texts.
    json_values: tuple[int, ...]
    #: The creation time of a row.
    time: str
    #: Columns of the selection's filters, and their values, in the order of the index.
    filters: tuple[str, ...]
    filter_values: tuple[str, ...]


def make_plan(store: Store, selection: Selection, by: str | None = None) -> PostgresPlan:
    """Inspect a table; SourceRefused, with the statements to run, if rows could be missed.

    `by` is the partition column, if partitions are to be discovered.
    """
    table = table_name(selection.table)
    columns = {row[0]: row for row in store.read("table_columns", table=table)}
    if not columns:
        raise missing_table(selection)
    unknown = first_missing_column(selection, columns, (by,) if by else ())
    if unknown is not None:
        raise missing_column(selection, unknown)
    if by:
        _check_partition_column(store, selection, columns[by])
    indexes = group_indexes(store.read("table_indexes", table=table))
    filters = _check_columns_and_indexes(selection, columns, indexes, by)
    names = selection.columns or tuple(name for name in columns if name != selection.xid_column)
    time_column = selection.time_column
    return PostgresPlan(
        table=table,
        xid=f"t.{quoted(selection.xid_column)}",
        id=f"t.{quoted(selection.id_column)}",
        id_type=columns[selection.id_column][1],
        names=names,
        values=", ".join(_value(columns[name]) for name in names),
        json_values=tuple(n for n, name in enumerate(names) if _is_json(columns[name])),
        time=_value(columns[time_column]) if time_column else "null",
        filters=tuple(f"t.{quoted(name)}" for name in filters),
        filter_values=tuple(
            f"cast(:w{selection.filters.index(name)} as {columns[name][1]})" for name in filters
        ),
    )


def table_name(name: str) -> str:
    """Return a table's name as a quoted SQL identifier, with its schema if it has one."""
    return ".".join(quoted(part) for part in name.split(".", 1))


def _check_partition_column(store: Store, selection: Selection, column: Row) -> None:
    """Reject a partition column in which equal values may have different texts.

    Each text would be a partition, and each of these partitions would have the same rows.
    """
    name, _, kind, category, *_ = column
    if kind not in _EXACT_TYPES and category != _ENUM_CATEGORY:
        problem = f"{name!r} is {kind}, in which equal values may have different texts"
        raise unreadable_partition_key(selection, problem)
    table = table_name(selection.table)
    for collation, is_exact in store.read("table_collations", table=table, column=name):
        if not is_exact:
            problem = (
                f"{name!r} has the collation {collation!r}, in which different texts are equal"
            )
            raise unreadable_partition_key(selection, problem)


def _check_columns_and_indexes(
    selection: Selection,
    columns: dict[str, Row],
    indexes: list[tuple[str, bool, list[str | None]]],
    by: str | None,
) -> list[str]:
    """Raise SourceRefused with all missing columns, constraints and indexes of a table.

    Return the filter columns in the order of the index.
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
    usable = [names for _, _, names in indexes if _can_search(names, selection.filters, ordered)]
    missing = [] if usable else [[*selection.filters, *ordered]]
    # Rows that were added since a marker are found by their transaction id.
    if by and not any(_can_search(names, (), [xid]) for _, _, names in indexes):
        missing.append([xid, by])
    for names in missing:
        problems.append(f"it has no index on ({', '.join(names)})")
        statements.append(f"CREATE INDEX ON {table} ({column_list(names)})")
    if problems:
        # A column of another type may hold user data, so only an operator may drop it.
        is_safe = xid not in columns or columns[xid][2] == _XID_TYPE
        fix = None if is_safe else _fix_by_hand(xid, statements)
        raise unreadable_table(selection, ", ".join(problems), statements, fix=fix)
    return [name for name in usable[0][: len(selection.filters)] if name is not None]


def _fix_by_hand(xid: str, statements: Sequence[str]) -> str:
    return (
        "pass xid_column= with a name that the table does not use; or, if the data in column "
        f"{xid!r} is not needed, run: {'; '.join(statements)};"
    )


def _column_problems(table: str, xid: str, column: Row | None) -> tuple[list[str], list[str]]:
    name = quoted(xid)
    if column is None:
        added = f"ALTER TABLE {table} ADD COLUMN {name} xid8 NOT NULL DEFAULT {_DEFAULT}"
        return [f"it has no column {xid!r} for the id of the inserting transaction"], [added]
    _, _, kind, _, not_null, default = column
    if kind != _XID_TYPE:
        return [f"column {xid!r} has the type {kind}, not xid8"], [
            f"ALTER TABLE {table} DROP COLUMN {name}"
        ]
    problems, statements = [], []
    if default != _DEFAULT:
        problems.append(f"{xid!r} does not default to the id of the inserting transaction")
        statements.append(f"ALTER TABLE {table} ALTER COLUMN {name} SET DEFAULT {_DEFAULT}")
    if not not_null:
        problems.append(f"{xid!r} may be null")
        statements.append(f"UPDATE {table} SET {name} = DEFAULT WHERE {name} IS NULL")  # noqa: S608 - printed
        statements.append(f"ALTER TABLE {table} ALTER COLUMN {name} SET NOT NULL")
    return problems, statements


def _can_search(names: list[str | None], equal: Sequence[str], ordered: list[str]) -> bool:
    """Return whether an index begins with these columns; those in `equal` in any order."""
    count = len(equal)
    has_prefix = set(names[:count]) == set(equal)
    return has_prefix and names[count : count + len(ordered)] == ordered


def _value(column: Row) -> str:
    """Return the expression that selects a column in a format that every driver can load."""
    name, kind = f"t.{quoted(column[0])}", column[2]
    if kind in _NATIVE_TYPES:
        return name
    if kind in _TIME_FORMATS:
        formatted = _TIME_FORMATS[kind].format(name)
        return f"case when isfinite({name}) then {formatted} else {name}::text end"
    return f"to_json({name})::text" if _is_compound(column) else f"{name}::text"


def _is_json(column: Row) -> bool:
    return column[2] in _JSON_TYPES or _is_compound(column)


def _is_compound(column: Row) -> bool:
    """Return whether a column is an array or a composite type."""
    return column[3] in ("A", "C")
