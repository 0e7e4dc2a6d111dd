"""SqlitePlan: an SQLite table, looked at once: can it be read without loss, and how."""

from __future__ import annotations

import re
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

#: The keyword, not in strings, quoted names and comments.
_AUTOINCREMENT: Final = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | `[^`]*` | \[[^\]]*\] | --[^\n]* | /\*.*?\*/
      | \b(?P<found>autoincrement)\b""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
#: Columns declared so hold whole numbers or text: equal values have the same text, and it is exact.
_IS_KEY: Final = re.compile(r"int|char|clob|text|bool|uuid", re.IGNORECASE)
#: Only byte by byte are these all different.
_LIKE: Final = ("a", "A", "a ")


@dataclass(frozen=True, kw_only=True, slots=True)
class SqlitePlan:
    """The parts of the statements that read a table; `t` is the table in all of them."""

    id: str
    #: The table, and the table by the index that leads to the rows, if the id alone does not.
    table: str
    source: str
    #: The names of what a message holds, and the values.
    names: tuple[str, ...]
    values: tuple[str, ...]
    #: Which of the values are JSON, and which true or false, as their columns are declared.
    nested: tuple[int, ...]
    truths: tuple[int, ...]
    #: When a row came to be.
    moment: str
    #: The rows that are wanted, before any bounds.
    filters: tuple[str, ...]


def plan(store: Store, selection: Selection, by: str | None = None) -> SqlitePlan:
    """Look at a table; SourceRefused, with what to run, if rows could be missed.

    `by` is the column that makes partitions of it, when those are to be found.
    """
    columns = {row[0]: row for row in store.read("table_columns", table=selection.table)}
    if not columns:
        raise unreadable_table(selection, "there is none of this name", [])
    unknown = first_missing_column(selection, columns, (by,) if by else ())
    if unknown is not None:
        raise unreadable_table(selection, f"it has no column {unknown!r}", [])
    _check_id(selection, columns[selection.id_column])
    if by:
        _check_key(store, selection, columns[by])
    table = f"{quoted(selection.table)} as t"
    names = selection.columns or tuple(columns)
    return SqlitePlan(
        id=f"t.{quoted(selection.id_column)}",
        table=table,
        source=_by_index(store, selection, table, by),
        names=names,
        values=tuple(f"t.{quoted(name)}" for name in names),
        nested=_declared(columns, names, "json"),
        truths=_declared(columns, names, "bool"),
        moment=f"t.{quoted(selection.time_column)}" if selection.time_column else "null",
        filters=tuple(f"t.{quoted(name)} = :w{n}" for n, name in enumerate(selection.filters)),
    )


def _check_key(store: Store, selection: Selection, column: Row) -> None:
    """Refuse partitions by a column in which one value has several spellings, or none of its own.

    Each spelling would be a partition, and each of these would have all the rows.
    """
    name, declared, *_ = column
    if not _IS_KEY.search(declared):
        problem = (
            f"{name!r} is declared {declared or 'without a type'}, in which equal values may have "
            "different texts, and 5 and '5' need not be the same"
        )
        raise unreadable_partition_key(selection, problem)
    # A union compares by the collation of its first column, which nothing else tells.
    table, texts = quoted(selection.table), " ".join(f"union select '{each}'" for each in _LIKE)
    sql = f"select count(*) from (select {quoted(name)} from {table} where 0 {texts})"  # noqa: S608 - quoted
    is_exact = store.select(sql, {})[0][0] == len(_LIKE)
    # One that the user made is recognised by its index alone.
    found = store.read("table_collations", table=selection.table, column=name)
    if not is_exact or (found and not any(exact for _, exact in found)):
        which = ", ".join(collation for collation, exact in found if not exact)
        problem = f"{name!r} has a collation ({which}) to which different texts are equal"
        raise unreadable_partition_key(selection, problem)


def _check_id(selection: Selection, column: Row) -> None:
    """Refuse ids that are given again after the newest rows were deleted."""
    name, _, _, _, _, declared = column
    if any(found["found"] for found in _AUTOINCREMENT.finditer(declared or "")):
        return
    problem = (
        f"{name!r} is not INTEGER PRIMARY KEY AUTOINCREMENT, so the id of a row that was deleted "
        "may be given again, below a position that was reached"
    )
    made = f"CREATE TABLE … ({quoted(name)} INTEGER PRIMARY KEY AUTOINCREMENT, …)"
    raise unreadable_table(
        selection, problem, [made, "INSERT INTO … SELECT …", "rename it"], is_safe=False
    )


def _by_index(store: Store, selection: Selection, table: str, by: str | None) -> str:
    """Return the table with the index that leads to a range of the rows that are wanted."""
    filters = [*selection.filters, *([by] if by else [])]
    if not filters:
        return table
    count, id_column = len(filters), selection.id_column
    for name, _, names in indexes_of(store.read("table_indexes", table=selection.table)):
        # Within equal values an index is in the order of ids, which it need not name.
        is_led = set(names[:count]) == set(filters) and by in (None, names[count - 1])
        if is_led and names[count:] in ([], [id_column]):
            return f"{table} indexed by {quoted(name)}"
    name = quoted("_".join((selection.table, *filters)))
    made = f"CREATE INDEX {name} ON {quoted(selection.table)} ({column_list(filters)})"
    raise unreadable_table(selection, f"it has no index on ({', '.join(filters)})", [made])


def _declared(columns: dict[str, Row], names: tuple[str, ...], kind: str) -> tuple[int, ...]:
    return tuple(n for n, name in enumerate(names) if columns[name][1].lower().startswith(kind))
