"""What a statement may do: SQL that would end the transaction is refused on both engines."""

from typing import Any, Final

import pytest

from onceward.client import Onceward
from onceward.errors import OutcomeUnknown, SqlFailed

#: Each one ends or leaves the transaction if the database gets to see it.
ENDING: Final = [
    "commit",
    "COMMIT;",
    "/* x */ commit",
    "/**/commit",
    "-- x\n commit",
    "-- x\n/* y */ -- z\n\tEnd",
    ";commit",
    " ; ; rollback ;",
    "\ufeffcommit",
    "begin",
    "rollback",
    "savepoint x",
    "release x",
    "end",
]
SEVERAL: Final = [
    "insert into effects values (2, 'x'); commit",
    "insert into effects values (2, 'x'); commit; begin; select 1",
    "insert into effects values (2, ';'); /* ; */ commit --",
    "insert into effects values (2, 'x');\n;commit",
    "select 1; select 2",
]
#: Only PostgreSQL knows these, and each hides a commit from a reader who does not.
POSTGRES: Final = [
    "abort",
    "start transaction",
    "prepare transaction 'x'",
    "commit prepared 'x'",
    "PREPARE -- x\n TRANSACTION 'x'",
    "/* /* */ */ commit",
    "/* /* */ ' */ ; commit; --'",
    "-- x\rcommit",
    "select E'\\''; commit; --'",
    "select E'a'\n'\\' '; commit; --'",
    "select date'2020-01-01\\'; commit; --'",
    "select $$'$$; commit; --'",
    "select $é$ ' $é$; commit; --'",
    "select 1 as \"'\"; commit; --'",
    "do $$ begin commit; end $$",
]


@pytest.fixture
def table(ow: Onceward) -> Onceward:
    with ow.transaction() as tx:
        tx.execute("create table effects (id bigint, note text)")
    return ow


def rows(ow: Onceward) -> list[Any]:
    with ow.transaction() as tx:
        return [row[0] for row in tx.execute("select id from effects order by id")]


def check_refused(table: Onceward, sql: str, match: str = ".") -> None:
    with pytest.raises(SqlFailed, match=match), table.transaction() as tx:
        tx.execute("insert into effects values (1, 'a')")
        tx.execute(sql)
    assert rows(table) == []


def test_h56_sql_that_would_end_the_transaction_is_refused(table: Onceward) -> None:
    """Whatever stands before the word: nothing of the transaction is committed."""
    for sql in ENDING:
        check_refused(table, sql, "is not allowed inside this transaction")


def test_h56_several_statements_in_one_call_are_refused(table: Onceward) -> None:
    """One call runs one statement, on PostgreSQL as on SQLite."""
    for sql in SEVERAL:
        check_refused(table, sql, "more than one statement")


def test_h56_what_only_postgresql_reads_as_a_commit_is_refused(table: Onceward) -> None:
    """Nested comments, escapes, dollar quotes and procedures hide no commit."""
    for sql in POSTGRES:
        if table.store.engine == "postgres":
            check_refused(table, sql)


def test_h56_a_procedure_that_commits_is_refused_by_the_server(table: Onceward) -> None:
    """Nothing in the text of a call shows it; inside a transaction block PostgreSQL refuses."""
    if table.store.engine == "postgres":
        with table.transaction() as tx:
            tx.execute("create procedure ending() language plpgsql as 'begin commit; end'")
        check_refused(table, "call ending()")


def test_h56_a_commit_that_no_text_shows_is_noticed_at_the_end(table: Onceward) -> None:
    """A session that reads strings in the old way sees a commit where the standard sees none."""
    if table.store.engine == "postgres":
        with pytest.raises(OutcomeUnknown, match="ended"), table.transaction() as tx:
            tx.execute("set local standard_conforming_strings = off")
            tx.execute("insert into effects values (1, 'a')")
            tx.execute("select 'a\\' '; commit; --'")


def test_h56_execute_many_refuses_the_same(table: Onceward) -> None:
    """A statement for many rows is one statement, too."""
    several = "insert into effects values (?, 'x'); commit"
    for sql, row in (("/* x */ commit", list[int]()), (several, [2])):
        with pytest.raises(SqlFailed), table.transaction() as tx:
            tx.execute("insert into effects values (1, 'a')")
            tx.execute_many(sql, [row])
    assert rows(table) == []


def test_h56_what_only_looks_like_it_runs(table: Onceward) -> None:
    """A semicolon at the end, comments around it, and the words inside strings are fine."""
    with table.transaction() as tx:
        tx.execute("insert into effects values (1, 'commit; --');")
        tx.execute("-- commit;\n/* ; commit; */ insert into effects values (2, ';') ; -- ;commit\n")
        tx.execute(";insert into effects values (?, ';''');;", [3])
        tx.execute('select 1 as "commit;"')
        if table.store.engine == "postgres":
            tx.execute("/* /* ; */ commit; */ insert into effects values (4, E'\\';commit')")
            tx.execute("insert into effects values (5, $a$;commit$a$)")
            tx.execute("prepare mine as select 1")
            tx.execute("deallocate mine")
        else:
            tx.execute("insert into effects values (4, 'x')")
            tx.execute("insert into effects values (5, 'x')")
            tx.execute("create trigger t after insert on effects begin select 1; select 2; end")
    assert rows(table) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "sql", ["pragma synchronous = off", "PRAGMA /**/ main.journal_mode(delete)"]
)
def test_h56_a_pragma_that_changes_the_connection_is_refused(table: Onceward, sql: str) -> None:
    """The connection is used again: the next transaction would not be durable."""
    if table.store.engine == "sqlite":
        with pytest.raises(SqlFailed, match="shared connection"), table.transaction() as tx:
            tx.execute(sql)
        with table.transaction() as tx:
            assert tx.execute("pragma synchronous") == [(2,)]
            assert tx.execute("pragma table_info(effects)")
            tx.execute("pragma user_version = 7")


def test_h56_rowcount_counts_the_users_rows(table: Onceward) -> None:
    """Rows that a trigger wrote are not the statement's own."""
    with table.transaction() as tx:
        tx.execute("create table log (id bigint)")
        if table.store.engine == "sqlite":
            body = "begin insert into log values (new.id); insert into log values (new.id); end"
            tx.execute(f"create trigger logged after insert on effects {body}")
        else:
            body = "begin insert into log values (new.id), (new.id); return null; end"
            tx.execute(f"create function logged() returns trigger language plpgsql as '{body}'")
            tx.execute(
                "create trigger logged after insert on effects "
                "for each row execute function logged()"
            )
        sql = "insert into effects values (1, 'a'), (2, 'b'), (3, 'c')"
        assert tx.execute(sql).rowcount == 3
        assert tx.execute("create table other (id bigint)").rowcount <= 0
        added = "with more as (select 4 as id) insert into effects select id, 'd' from more"
        assert tx.execute(added).rowcount == 1
        assert tx.execute("update effects set note = 'x' where id < 3").rowcount == 2
        assert tx.execute("update effects set note = 'x' where id > 9").rowcount == 0
        assert tx.execute("delete from effects").rowcount == 4
        assert tx.execute("select * from log").rowcount == 8


def test_h56_integers_of_64_bits_are_taken_on_both_engines(table: Onceward) -> None:
    """The smallest and the largest come back as they were."""
    limits = [-(2**63), 2**63 - 1]
    with table.transaction() as tx:
        for number in limits:
            tx.execute("insert into effects values (?, 'x')", [number])
    assert rows(table) == limits


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_h56_larger_integers_are_one_error_on_both_engines(table: Onceward, number: int) -> None:
    """By position, by name and for many rows: the value is named, and the way out."""
    match = f"the integer {number} does not fit into 64 bits"
    with table.transaction() as tx:
        with pytest.raises(SqlFailed, match=match) as refused:
            tx.execute("insert into effects values (?, 'x')", [number])
        assert refused.value.fix == "store it as text"
        with pytest.raises(SqlFailed, match=match):
            tx.execute("insert into effects values (:n, 'x')", {"n": number})
        with pytest.raises(SqlFailed, match=match):
            tx.execute_many("insert into effects values (?, 'x')", [[number]])
        with pytest.raises(SqlFailed, match="does not fit into 64 bits"):
            tx.execute("insert into effects values (?, 'x')", [10**5000])  # Too long for `str`.
        tx.execute("insert into effects values (1, 'still usable')")
    assert rows(table) == [1]


@pytest.mark.parametrize("sql", ["explain select 1", "explain insert into effects values (1, 'x')"])
def test_explain_runs_nothing(table: Onceward, sql: str) -> None:
    """A user may ask for the plan of a statement; asking takes no write lock and writes nothing."""
    with table.transaction() as tx:
        assert tx.execute(sql)
        if table.store.engine == "sqlite":
            assert not tx.is_writing
            assert tx.execute("explain query plan select * from effects")
            with pytest.raises(SqlFailed, match="shared connection"):
                tx.execute("explain query plan pragma synchronous = off")
        assert tx.execute("select count(*) from effects") == [(0,)]
