"""Queries: named blocks in one file per package, and the errors of a file that breaks a rule."""

import re
from pathlib import Path

import pytest

from onceward.stores.queries import ENGINES, Engine, InvalidQueries, catalog, parsed, queries

QUERIES = Path(__file__).parents[3] / "src" / "onceward" / "stores" / "queries"
#: What only one engine needs, and why.
ALONE = {
    "lock_migrations": "SQLite has one writer at a time",
    "outcome_lock": "SQLite has one writer at a time",
    "table_holder": "SQLite has one writer at a time",
    "memory_words_changes": "PostgreSQL's word index needs no merging",
    "memory_words_empty": "PostgreSQL's word index needs no rebuilding",
    "memory_words_fill": "PostgreSQL's word index needs no rebuilding",
    "memory_words_gone": "PostgreSQL's word index needs no rebuilding",
    "memory_words_keep": "PostgreSQL's word index needs no rebuilding",
    "memory_words_kept_drop": "PostgreSQL's word index needs no rebuilding",
    "memory_words_merge": "PostgreSQL's word index needs no merging",
    "memory_words_recount": "PostgreSQL's word index needs no rebuilding",
    "memory_words_problems": "PostgreSQL stores the words in the document itself",
}


def without_comments(text: str) -> str:
    return re.sub(r"--[^\n]*", "", text)


def test_there_are_few_files() -> None:
    """A package has one file, and lines end where a reader's window does."""
    texts = {path.name: path.read_text() for path in QUERIES.glob("*.sql")}
    assert len(texts) <= 16
    lines = [(name, line) for name, text in texts.items() for line in text.splitlines()]
    assert not [(name, line) for name, line in lines if len(line) > 120 or line != line.rstrip()]


def test_both_engines_answer_to_the_same_names() -> None:
    """Only the listed queries exist for one engine alone."""
    sqlite, postgres = (queries(engine) for engine in ENGINES)
    assert sqlite.keys() ^ postgres.keys() == set(ALONE)


def test_a_variant_differs() -> None:
    """A query whose engines have the same text stands once."""
    blocks = catalog().queries.values()
    assert not [
        block.name
        for block in blocks
        if not block.is_shared
        and len({" ".join(text.split()) for text in block.texts.values()}) < 2
        if block.name not in ALONE
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_text_is_one_whole_statement(engine: Engine) -> None:
    """No fragment is left in braces, no comment stands first, no second statement follows."""
    for name, text in queries(engine).items():
        assert "{{" not in text, name
        assert not text.startswith("--"), name
        assert ";" not in without_comments(text), name


def test_a_block_says_what_it_promises() -> None:
    """The comment below the name is a sentence."""
    blocks = [*catalog().queries.values(), *catalog().fragments.values()]
    assert not [b.name for b in blocks if not re.fullmatch(r"(?s)[A-Z].*[.:]", b.comment)]


def test_postgres_asks_one_function_for_the_time() -> None:
    """Tests move time by replacing onceward_now; now() is when the transaction began."""
    others = re.compile(r"\bnow\s*\(|clock_timestamp|current_timestamp|localtimestamp")
    texts = queries("postgres")
    found = {name for name in texts if others.search(without_comments(texts[name].lower()))}
    assert found <= {"create_migrations"}


def test_sqlite_asks_no_function_for_the_time() -> None:
    """The store binds :wall, :now and :boot, so that a statement sees one time."""
    own = re.compile(r"'now'|current_timestamp|unixepoch\(\)|datetime\(\)|julianday\(\)")
    texts = queries("sqlite")
    assert not [name for name in texts if own.search(without_comments(texts[name].lower()))]


# --- files that break a rule ----------------------------------------------------------------------

NOW = """-- fragment: now
-- The time.
-- sqlite:
:wall
-- postgres:
onceward_now()
"""
SHOW = """-- name: show
-- Return the time.
select {{ now }}
"""


def test_a_file_is_read() -> None:
    """A block has a name, a promise and a text; a fragment stands for its text."""
    found = parsed([NOW, SHOW])
    assert found.queries["show"].comment == "Return the time."
    assert found.expanded("sqlite") == {"show": "select :wall"}
    assert found.expanded("postgres") == {"show": "select onceward_now()"}


def test_an_argument_takes_its_place_in_a_fragment() -> None:
    """Arguments may hold parentheses and other fragments; a fragment may use another."""
    texts = [
        NOW,
        "-- fragment: later(by)\n-- Later.\n{{ now }} + {by}\n",
        "-- name: show\n-- Return a time.\nselect {{ later(f({{ now }}, 1)) }}\n",
    ]
    assert parsed(texts).expanded("sqlite") == {"show": "select :wall + f(:wall, 1)"}


def test_variants_and_comments_are_kept_apart() -> None:
    """An engine gets its own text, without the comments before it and of the section after it."""
    text = (
        "-- A file.\n\n-- name: show\n-- Return one.\n-- sqlite:\n-- Cheap.\nselect 1\n"
        "-- postgres:\nselect 2 -- Two.\n\n-- The next section.\n\n"
        "-- name: gone (sqlite)\n-- None.\nselect 3\n"
    )
    found = parsed([text])
    assert found.expanded("sqlite") == {"show": "select 1", "gone": "select 3"}
    assert found.expanded("postgres") == {"show": "select 2 -- Two."}
    assert [block.is_shared for block in found.queries.values()] == [False, False]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([NOW, SHOW, SHOW], "show: this name is used twice"),
        ([NOW, NOW, SHOW], "now: this name is used twice"),
        (
            ["-- name: show\n-- Return one.\n-- sqlite:\nselect 1\n"],
            "show: needs one part for each engine, or one text for both",
        ),
        (
            ["-- name: show\n-- Return.\nselect 0\n-- sqlite:\nselect 1\n-- postgres:\nselect 2\n"],
            "show: needs one part for each engine, or one text for both",
        ),
        (["-- name: show\n-- Return nothing.\n"], "show: no engine has a text"),
        (["-- name: show (oracle)\n-- Return one.\nselect 1\n"], "show: no engine has a text"),
        ([NOW], "now: no query uses this fragment"),
        ([SHOW], "show: sqlite has no fragment now"),
        ([NOW, SHOW.replace("now", "now(1)")], "show: the fragment now takes no argument"),
        ([NOW, SHOW.replace("now }}", "now")], "show: a fragment is not closed"),
        (["-- fragment: now\n-- Itself.\n{{ now }}\n", SHOW], "or contains itself"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_a_file_that_breaks_a_rule_is_refused(texts: list[str], message: str) -> None:
    """The error names the query and the rule."""
    with pytest.raises(InvalidQueries, match=re.escape(message)):
        parsed(texts).expanded("sqlite")
