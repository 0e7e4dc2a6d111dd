"""Queries: one statement a file, twins by name, each with a promise."""

import re
from pathlib import Path

STORES = Path(__file__).parents[3] / "src" / "onceward" / "stores"
#: What only one engine needs, and why.
ALONE = {
    "lock_migrations": "SQLite has one writer at a time anyway",
    "outcome_lock": "the same",
    "table_holder": "the same",
    "memory_words_changes": "PostgreSQL's index of words is never in layers",
    "memory_words_merge": "the same",
}
FILES = sorted([*STORES.glob("sqlite/*.sql"), *STORES.glob("postgres/*.sql")])


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def test_every_query_has_a_twin() -> None:
    """Both engines answer to the same names."""
    sqlite, postgres = ({p.stem for p in STORES.glob(f"{e}/*.sql")} for e in ("sqlite", "postgres"))
    assert sqlite ^ postgres == set(ALONE)


def without_comments(text: str) -> str:
    return re.sub(r"--[^\n]*", "", text)


def test_a_query_says_what_it_promises() -> None:
    """The first line is a comment, there is one statement, and no line ends in a blank."""
    texts = {name(path): path.read_text() for path in FILES}
    assert not [path for path, text in texts.items() if not re.match(r"-- [A-Z].*[.:;]\n", text)]
    assert not [path for path, text in texts.items() if ";" in without_comments(text)]
    assert not [path for path, text in texts.items() if re.search(r"(?m)[ \t]+$", text)]


def test_postgres_asks_one_function_for_the_time() -> None:
    """Tests move time by replacing onceward_now; now() is when the transaction began."""
    others = re.compile(r"\bnow\s*\(|clock_timestamp|current_timestamp|localtimestamp")
    queries = [path for path in FILES if path.parent.name == "postgres"]
    found = {
        path.stem for path in queries if others.search(without_comments(path.read_text().lower()))
    }
    assert found <= {"create_migrations"}
