"""Queries: one statement a file, for both engines or twins by name, each with a promise."""

import re
from pathlib import Path

import pytest

from onceward.stores.queries import Engine, queries

STORES = Path(__file__).parents[3] / "src" / "onceward" / "stores"
#: What only one engine needs, and why.
ALONE = {
    "lock_migrations": "SQLite has one writer at a time anyway",
    "outcome_lock": "the same",
    "table_holder": "the same",
    "memory_words_changes": "PostgreSQL's index of words is never in layers",
    "memory_words_empty": "the same",
    "memory_words_fill": "the same",
    "memory_words_gone": "the same",
    "memory_words_keep": "the same",
    "memory_words_kept_drop": "the same",
    "memory_words_merge": "the same",
    "memory_words_recount": "the same",
    "memory_words_problems": "there it is a part of the document, and cannot differ from it",
}
FILES = sorted(
    path
    for place in ("both", "sqlite", "sqlite/pieces", "postgres", "postgres/pieces")
    for path in STORES.glob(f"{place}/*.sql")
)


def name(path: Path) -> str:
    return path.relative_to(STORES).as_posix()


def test_every_query_is_for_both_or_has_a_twin() -> None:
    """Both engines answer to the same names, and what they understand alike stands once."""
    both, sqlite, postgres = (
        {path.stem: path.read_text() for path in STORES.glob(f"{place}/*.sql")}
        for place in ("both", "sqlite", "postgres")
    )
    assert sqlite.keys() ^ postgres.keys() == set(ALONE)
    assert not both.keys() & (sqlite.keys() | postgres.keys())
    assert not [each for each in sqlite if sqlite[each] == postgres.get(each)]


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_piece_serves_several_queries(engine: Engine) -> None:
    """What only one needs stands in that one; and none is left in braces."""
    pieces = [path.stem for path in STORES.glob(f"{engine}/pieces/*.sql")]
    texts = [path.read_text() for path in STORES.glob(f"{engine}/*.sql")]
    assert pieces
    for piece in pieces:
        assert sum(f"{{{{ {piece} }}}}" in text for text in texts) >= 2, piece
    assert not [name for name, text in queries(engine).items() if "{{" in text]


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
    queries = [path for path in FILES if not name(path).startswith("sqlite/")]
    found = {
        path.stem for path in queries if others.search(without_comments(path.read_text().lower()))
    }
    assert found <= {"create_migrations"}
