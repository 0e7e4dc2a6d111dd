"""SQLite read plan: check that a table can be read without loss, and build the SQL that reads it.

Computed once per table and filter.
"""

from __future__ import annotations

import re
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

#: Finds the keyword outside of strings, quoted names and comments.
_AUTOINCREMENT: Final = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | `[^`]*` | \[[^\]]*\] | --[^\n]* | /\*.*?\*/
      | \b(?P<found>autoincrement)\b""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
#: Declared types of integers and texts: equal values have the same text.
_EXACT_TYPE: Final = re.compile(r"int|char|clob|text|bool|uuid", re.IGNORECASE)
#: These differ from each other only when compared byte by byte.
_COLLATION_SAMPLES: Final = ("a", "A", "a ")


@dataclass(frozen=True, kw_only=True, slots=True)
class SqlitePlan:
    """SQL fragments that read one table, which has the alias `t` in all of them."""

    id: str
    #: The table, and the table with the index to use if the selection has filters.
    table: str
    source: str
    #: The field names of a message, and the expressions of their values.
    names: tuple[str, ...]
    values: tuple[str, ...]
    #: Indexes of the values whose columns are declared as JSON or boolean.
    json_values: tuple[int, ...]
    booleans: tuple[int, ...]
    #: The creation time of a row.
    time: str
    #: Conditions of the selection's filters.
    filters: tuple[str, ...]


def make_plan(store: Store, selection: Selection, by: str | None = None) -> SqlitePlan:
    """Inspect a table; SourceRefused, with the statements to run, if rows could be missed.

    `by` is the partition column, if partitions are to be discovered.
    """
    columns = {row[0]: row for row in store.read("table_columns", table=selection.table)}
    if not columns:
        raise missing_table(selection)
    unknown = first_missing_column(selection, columns, (by,) if by else ())
    if unknown is not None:
        raise missing_column(selection, unknown)
    _check_id(selection, columns[selection.id_column])
    if by:
        _check_partition_column(store, selection, columns[by])
    table = f"{quoted(selection.table)} as t"
    names = selection.columns or tuple(columns)
    return SqlitePlan(
        id=f"t.{quoted(selection.id_column)}",
        table=table,
        source=_indexed_table(store, selection, table, by),
        names=names,
        values=tuple(f"t.{quoted(name)}" for name in names),
        json_values=_indexes_of_type(columns, names, "json"),
        booleans=_indexes_of_type(columns, names, "bool"),
        time=f"t.{quoted(selection.time_column)}" if selection.time_column else "null",
        filters=tuple(f"t.{quoted(name)} = :w{n}" for n, name in enumerate(selection.filters)),
    )


def _check_partition_column(store: Store, selection: Selection, column: Row) -> None:
    """Reject a partition column in which equal values may have different texts.

    Each text would be a partition, and each of these partitions would have the same rows.
    """
    name, declared, *_ = column
    if not _EXACT_TYPE.search(declared):
        problem = (
            f"{name!r} is declared {declared or 'without a type'}, in which equal values may have "
            "different texts, and 5 may differ from '5'"
        )
        raise unreadable_partition_key(selection, problem)
    # A union compares by the collation of its first column, which SQLite reports nowhere else.
    samples = " ".join(f"union select '{each}'" for each in _COLLATION_SAMPLES)
    first = f"select {quoted(name)} from {quoted(selection.table)} where 0"  # noqa: S608 - quoted
    sql = f"select count(*) from ({first} {samples})"  # noqa: S608 - quoted
    is_exact = store.select(sql, {})[0][0] == len(_COLLATION_SAMPLES)
    # A user-defined collation is only visible in an index.
    found = store.read("table_collations", table=selection.table, column=name)
    if not is_exact or (found and not any(exact for _, exact in found)):
        names = ", ".join(collation for collation, exact in found if not exact)
        problem = f"{name!r} has a collation ({names}) in which different texts are equal"
        raise unreadable_partition_key(selection, problem)


def _check_id(selection: Selection, column: Row) -> None:
    """Reject a column whose ids may be reused after the newest rows were deleted."""
    name, _, _, _, _, declared = column
    if any(found["found"] for found in _AUTOINCREMENT.finditer(declared or "")):
        return
    problem = (
        f"{name!r} is not INTEGER PRIMARY KEY AUTOINCREMENT, so the id of a deleted row may be "
        "reused, before a position that was already read"
    )
    fix = (
        f"create a table with {quoted(name)} INTEGER PRIMARY KEY AUTOINCREMENT, copy the rows "
        f"into it, and rename it to {quoted(selection.table)} in place of the old one"
    )
    raise unreadable_table(selection, problem, [], fix=fix)


def _indexed_table(store: Store, selection: Selection, table: str, by: str | None) -> str:
    """Return the table with the index that finds the selected rows in order of ids."""
    filters = [*selection.filters, *([by] if by else [])]
    if not filters:
        return table
    count, id_column = len(filters), selection.id_column
    for name, _, names in group_indexes(store.read("table_indexes", table=selection.table)):
        # Among equal values an SQLite index is in the order of ids, even if it does not list ids.
        has_prefix = set(names[:count]) == set(filters) and by in (None, names[count - 1])
        if has_prefix and names[count:] in ([], [id_column]):
            return f"{table} indexed by {quoted(name)}"
    name = quoted("_".join((selection.table, *filters)))
    statement = f"CREATE INDEX {name} ON {quoted(selection.table)} ({column_list(filters)})"
    raise unreadable_table(selection, f"it has no index on ({', '.join(filters)})", [statement])


def _indexes_of_type(columns: dict[str, Row], names: tuple[str, ...], kind: str) -> tuple[int, ...]:
    return tuple(n for n, name in enumerate(names) if columns[name][1].lower().startswith(kind))
