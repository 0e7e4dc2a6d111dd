"""Make the reference of tables: every table and view of both engines, column by column.

What a column is for, the page says, and keeps.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Final

from docs.make.regions import UNSAID, Maker, code, kept_table
from docs.make.source import ROOT

_SCHEMAS: Final = ROOT / "docs" / "reference"
_TABLE: Final = re.compile(r"^CREATE TABLE public\.(\w+) \(\n(.*?)^\);", re.MULTILINE | re.DOTALL)
#: What stands in capitals is a constraint, or the expression of a column that is computed.
_COLUMN: Final = re.compile(r"^    \"?([a-z]\w*)\"? (.+?),?$", re.MULTILINE)
_TYPE: Final = re.compile(r" (?:DEFAULT|NOT NULL|GENERATED|COLLATE)\b.*")
_VIEW: Final = re.compile(r"^CREATE VIEW (?:public\.)?(\w+) as\b", re.MULTILINE | re.IGNORECASE)
#: A shorter name for what pg_dump spells out.
_SHORT: Final = {"timestamp with time zone": "timestamptz", "double precision": "double"}

#: Columns by table, each with its type; a `?` behind it means that it may be null.
Columns = dict[str, dict[str, str]]


def regions() -> Mapping[str, Maker]:
    """Return what is made on the page of tables: a section for each."""
    sqlite, postgres = of_sqlite(), of_postgres()
    names = sorted({*sqlite, *postgres})
    made: dict[str, Maker] = {"views": _views}
    return made | {
        name: lambda old, name=name: _section(
            old, name, sqlite.get(name, {}), postgres.get(name, {})
        )
        for name in names
    }


def _schema(engine: str) -> str:
    return (_SCHEMAS / f"schema-{engine}.sql").read_text(encoding="utf-8")


def of_sqlite() -> Columns:
    """Return the tables of a file, as SQLite itself describes them."""
    database = sqlite3.connect(":memory:")
    database.executescript(_schema("sqlite"))
    rows = database.execute(
        'select t.name, c.name, c.type, c."notnull" or c.pk'
        " from pragma_table_list as t, pragma_table_xinfo(t.name) as c"
        " where t.schema = 'main' and t.type in ('table', 'virtual') and t.name not like 'sqlite_%'"
        " and c.name not in (t.name, 'rank') order by t.name, c.cid"
    ).fetchall()
    database.close()
    found: Columns = {}
    for table, column, kind, is_there in rows:
        shown = str(kind).lower() or "any"
        found.setdefault(str(table), {})[str(column)] = shown + ("" if is_there else "?")
    return found


def of_postgres() -> Columns:
    """Return the tables of a database, as they are written down."""
    return {table: dict(_columns(body)) for table, body in _TABLE.findall(_schema("postgres"))}


def _columns(body: str) -> Iterator[tuple[str, str]]:
    for name, rest in _COLUMN.findall(body):
        kind = _TYPE.sub("", rest)
        yield name, _SHORT.get(kind, kind) + ("" if "NOT NULL" in rest else "?")


def _views(old: str) -> str:
    sqlite, postgres = (_VIEW.findall(_schema(each)) for each in ("sqlite", "postgres"))
    rows: list[list[str | None]] = [
        [code(each), "yes" if each in sqlite else "", "yes" if each in postgres else "", None]
        for each in sorted({*sqlite, *postgres})
    ]
    return kept_table(old, ["view", "SQLite", "PostgreSQL", "meaning"], rows)


def _section(old: str, name: str, sqlite: Mapping[str, str], postgres: Mapping[str, str]) -> str:
    about = re.search(r"^## .*\n\n([^|\n].*?)\n\n", old.lstrip(), re.DOTALL)
    parts = [f"## {code(name)}", about[1] if about else UNSAID]
    rows: list[list[str | None]] = [
        [code(column), sqlite.get(column, ""), postgres.get(column, ""), None]
        for column in {**sqlite, **postgres}
    ]
    parts.append(kept_table(old, ["column", "SQLite", "PostgreSQL", "meaning"], rows))
    return "\n\n".join(parts)
