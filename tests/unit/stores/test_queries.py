"""Queries: one statement a file, twins by name, each with a promise."""

import re
from pathlib import Path

import pytest

STORES = Path(__file__).parents[3] / "src" / "onceward" / "stores"
#: What only one engine needs, and why.
ALONE = {
    "lock_migrations": "SQLite has one writer at a time anyway",
    "outcome_lock": "the same",
    "table_holder": "the same",
}
FILES = sorted([*STORES.glob("sqlite/*.sql"), *STORES.glob("postgres/*.sql")])


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def test_every_query_has_a_twin() -> None:
    """Both engines answer to the same names."""
    sqlite, postgres = ({p.stem for p in STORES.glob(f"{e}/*.sql")} for e in ("sqlite", "postgres"))
    assert sqlite ^ postgres == set(ALONE)


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_query_says_what_it_promises(path: Path) -> None:
    """The first line is a comment, and there is one statement."""
    text = path.read_text()
    assert re.match(r"-- [A-Z].*[.:;]\n", text), text.splitlines()[0]
    assert ";" not in re.sub(r"--[^\n]*", "", text), "one statement, without a semicolon"
    assert not re.search(r"[ \t]+$", text, re.MULTILINE)


@pytest.mark.parametrize("path", [p for p in FILES if p.parent.name == "postgres"], ids=name)
def test_postgres_asks_one_function_for_the_time(path: Path) -> None:
    """Tests move time by replacing onceward_now; now() is when the transaction began."""
    sql = re.sub(r"--[^\n]*", "", path.read_text().lower())
    allowed = {"create_migrations"}
    others = re.search(r"\bnow\s*\(|clock_timestamp|current_timestamp|localtimestamp", sql)
    assert path.stem in allowed or not others
