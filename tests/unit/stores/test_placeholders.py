"""Placeholders: only what is a placeholder becomes one."""

import pytest

from onceward.stores.placeholders import for_psycopg, for_sqlite

CASES = [
    ("select ?", "select %s"),
    ("select :a, :b_2", "select %(a)s, %(b_2)s"),
    ("select '?', ':a', '%'", "select '?', ':a', '%%'"),
    ("select 'it''s ?'", "select 'it''s ?'"),
    (r"select e'\'?' || ?", r"select e'\'?' || %s"),
    ('select "a?" from "t:x"', 'select "a?" from "t:x"'),
    ("select 1::text, ?::int", "select 1::text, %s::int"),
    ("select $$ ? :a $$, $x$ ? $x$", "select $$ ? :a $$, $x$ ? $x$"),
    ("select 1 -- ? :a\n, ?", "select 1 -- ? :a\n, %s"),
    ("select /* ? :a */ ?", "select /* ? :a */ %s"),
    ("select a ?? 'k', a ?| b, a ?& b, a @? c", "select a ? 'k', a ?| b, a ?& b, a @? c"),
    ("select ?||'x'", "select %s||'x'"),
    ("select a % 2", "select a %% 2"),
    ("select a[1:2]", "select a[1:2]"),
    ("select '12:30:00'::time", "select '12:30:00'::time"),
    ("select /* /* ? */ ? */ ?", "select /* /* ? */ ? */ %s"),
    ("select 1 -- ?\r, ?", "select 1 -- ?\r, %s"),
    ("select date'\\' || ?", "select date'\\' || %s"),
    ("select e'?' \n '\\'?' || ?", "select e'?' \n '\\'?' || %s"),
    ("select $é$ ? $é$, a$b$ || ?", "select $é$ ? $é$, a$b$ || %s"),
]


@pytest.mark.parametrize(("sql", "expected"), CASES)
def test_for_psycopg(sql: str, expected: str) -> None:
    """Strings, names, comments, casts and operators are left alone."""
    assert for_psycopg(sql) == expected


@pytest.mark.parametrize("sql", [sql for sql, _ in CASES if "??" not in sql and "\r" not in sql])
def test_for_sqlite_changes_nothing_else(sql: str) -> None:
    """SQLite knows both forms of placeholder itself."""
    assert for_sqlite(sql) == sql


def test_sqlite_gets_no_comments_or_semicolons_around_a_statement() -> None:
    """Its drivers differ in what they take for a second statement."""
    assert for_sqlite(" ;-- a\n/* ; */ select ';' -- ?\n;; /* b") == "select ';'"


def test_a_doubled_mark_is_a_literal() -> None:
    """`??` stands for the operator on both engines."""
    assert for_sqlite("a ?? b") == "a ? b"
