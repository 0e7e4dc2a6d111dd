"""The schema: the initial one and its migrations as one text, so that a reader sees it whole.

`ONCEWARD_WRITE_SCHEMA=1 make test ARGS=tests/conformance/test_schema.py` rewrites the files.
"""

import os
import re
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from onceward.stores import migrate, open_store, status
from onceward.testing.postgres import PostgresServer, program

ROOT = Path(__file__).parents[2]
STORES = ROOT / "src" / "onceward" / "stores"
REFERENCE = ROOT / "docs" / "reference"
HEAD = "-- Everything the migrations make, in one place, to be read.\n"


def sqlite_schema(path: Path) -> str:
    connection = sqlite3.connect(path)
    rows = connection.execute(
        "select sql from sqlite_master where sql is not null and name not like 'sqlite_%' "
        # What an index of words keeps its words in is made with it.
        "and tbl_name not in (select name from pragma_table_list where type = 'shadow') "
        "order by rowid"
    ).fetchall()
    connection.close()
    return "".join(f"\n{sql};\n" for (sql,) in rows)


def postgres_schema(url: str) -> str:
    command = [str(program("pg_dump")), "--schema-only", "--no-owner", "--no-privileges", url]
    dumped = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    kept = re.sub(
        r"^(?:--.*|SET .*|SELECT pg_catalog.*|\\\S+ .*)\n", "", dumped, flags=re.MULTILINE
    )
    return "\n" + re.sub(r"\n{3,}", "\n\n", kept).strip() + "\n"


def written(engine: str) -> str:
    return (REFERENCE / f"schema-{engine}.sql").read_text()


def check(engine: str, found: str) -> None:
    if os.environ.get("ONCEWARD_WRITE_SCHEMA"):
        (REFERENCE / f"schema-{engine}.sql").write_text(HEAD + found)
    assert written(engine) == HEAD + found


def test_sqlite_migrations_sum_to_the_schema(tmp_path: Path) -> None:
    """A migrated file has exactly what the schema says, and the schema alone makes the same."""
    store = open_store(f"sqlite:///{tmp_path / 'migrated.db'}")
    migrate(store)
    store.close()
    check("sqlite", sqlite_schema(tmp_path / "migrated.db"))
    made = sqlite3.connect(tmp_path / "made.db")
    made.executescript(written("sqlite"))
    made.close()
    assert sqlite_schema(tmp_path / "made.db") == sqlite_schema(tmp_path / "migrated.db")


def test_postgres_migrations_sum_to_the_schema(postgres_server: PostgresServer) -> None:
    """A migrated database has exactly what the schema says, and the schema alone makes the same."""
    migrated = postgres_server.database("onceward_template")
    check("postgres", postgres_schema(migrated))
    made = postgres_server.new_database("made_from_schema", like="template0")
    with psycopg.connect(made, autocommit=True) as connection:
        connection.execute(written("postgres").encode())
    assert postgres_schema(made) == postgres_schema(migrated)


def test_reading_the_migrations_creates_nothing_in_sqlite(tmp_path: Path) -> None:
    """A file without our tables has none of them after its migrations were read."""
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute("create table mine (number integer)")
    other.close()
    before = sqlite_schema(path)
    with closing(open_store(f"sqlite:///{path}")) as store:
        assert store.applied() == {}
        assert status(store).pending
    assert sqlite_schema(path) == before


def test_reading_the_migrations_creates_nothing_in_postgres(
    postgres_server: PostgresServer,
) -> None:
    """A database without our tables has none of them after its migrations were read."""
    url = postgres_server.new_database("without_tables", like="template0")
    before = postgres_schema(url)
    with closing(open_store(url)) as store:
        assert store.applied() == {}
        assert status(store).pending
    assert postgres_schema(url) == before


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_migrations_are_numbered_without_gaps(engine: str) -> None:
    """Both engines have the same migrations by number and name, and nothing else is there."""
    files = {path.name for path in (STORES / "schema").iterdir()}
    later = sorted(name for name in files if name.endswith(f".{engine}.sql"))
    assert [int(name[:4]) for name in later] == list(range(2, len(later) + 2))
    other = "postgres" if engine == "sqlite" else "sqlite"
    expected = {
        name.replace(f".{engine}.", f".{each}.") for name in later for each in (engine, other)
    }
    assert files == {"sqlite.sql", "postgres.sql", *expected}
