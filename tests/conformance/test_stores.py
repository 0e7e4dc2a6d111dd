"""Stores: the same behaviour on SQLite and PostgreSQL."""

import asyncio
import os
import subprocess
import sys
import threading
import traceback

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.errors import InvalidArgument, SchemaMismatch, SqlFailed, WriterHeld
from onceward.stores import Transaction, migrate, status
from onceward.stores.queries import migrations
from tests.support.forked_children import forked


@pytest.fixture
def table(ow: Onceward) -> Onceward:
    with ow.transaction() as tx:
        tx.execute("create table effects (id bigint primary key, note text)")
    return ow


def count(ow: Onceward) -> int:
    with ow.transaction() as tx:
        return int(tx.execute("select count(*) from effects")[0][0])


def test_a_transaction_commits_at_its_end(table: Onceward) -> None:
    """What was written is there afterwards, for other connections too."""
    with table.transaction() as tx:
        assert tx.execute("insert into effects values (?, ?)", [1, "a"]).rowcount == 1
        tx.execute("insert into effects values (:id, :note)", {"id": 2, "note": "b"})
        assert tx.execute("select note from effects order by id") == [("a",), ("b",)]
    assert count(table) == 2


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_any_exception_rolls_back(table: Onceward, error: type[BaseException]) -> None:
    """Nothing stays of a transaction that was left by an exception, and the next one works."""
    with pytest.raises(error), table.transaction() as tx:
        tx.execute("insert into effects values (1, 'a')")
        raise error
    assert count(table) == 0
    with table.transaction() as tx:
        tx.execute("insert into effects values (1, 'a')")
    assert count(table) == 1


def test_a_transaction_inside_another_is_part_of_it(table: Onceward) -> None:
    """There is one transaction in one context; the outer one decides."""
    with pytest.raises(ZeroDivisionError), table.transaction() as outer:
        outer.execute("insert into effects values (1, 'a')")
        with table.transaction() as inner:
            inner.execute("insert into effects values (2, 'b')")
        assert inner is outer
        raise ZeroDivisionError
    assert count(table) == 0


def test_a_bad_statement_is_one_clear_error(table: Onceward) -> None:
    """What the database does not accept is SqlFailed, and nothing of the transaction stays."""
    on_postgres = table.store.engine == "postgres"
    for sql, params in [
        ("insert into nowhere values (1)", []),
        ("this is not sql", []),
        ("insert into effects values (?, 'x')", [2**70]),
        ("insert into effects values (?, ?)", [1]),
        ("insert into effects (id) values ('no')" if on_postgres else "select nothing", []),
    ]:
        with pytest.raises(SqlFailed), table.transaction() as tx:
            tx.execute("insert into effects values (9, 'before')")
            tx.execute(sql, params)
        assert count(table) == 0


def test_the_transaction_itself_is_not_the_users_to_end(table: Onceward) -> None:
    """Commit and roll back by leaving the block, not by SQL."""
    for sql in ["commit", "  ROLLBACK", "begin", "savepoint x", "end"]:
        with (
            pytest.raises(SqlFailed, match="is not allowed inside"),
            table.transaction() as tx,
        ):
            tx.execute("insert into effects values (1, 'a')")
            tx.execute(sql)
        assert count(table) == 0


def test_marks_inside_strings_and_comments_stay(table: Onceward) -> None:
    """Only placeholders are placeholders."""
    with table.transaction() as tx:
        sql = "insert into effects values (?, '? % :x ''?') -- ? :y %\n"
        tx.execute(sql, [1])
        assert tx.execute("select note from effects where note like '%?'") == [("? % :x '?",)]


def test_operations_of_ours_join_the_users_transaction(table: Onceward) -> None:
    """A short write inside a user's transaction is undone with it."""

    def insert(tx: Transaction) -> int:
        return tx.execute("insert into effects values (5, 'ours')").rowcount

    with pytest.raises(ZeroDivisionError), table.transaction():
        assert table.store.write(insert) == 1
        raise ZeroDivisionError
    assert count(table) == 0
    assert table.store.write(insert) == 1
    assert count(table) == 1


def test_a_failing_operation_does_not_harm_those_grouped_with_it(table: Onceward) -> None:
    """Many threads write at once; every second one fails, and only those are undone."""
    results: dict[int, object] = {}
    barrier = threading.Barrier(16)

    def work(number: int) -> None:
        def operation(tx: Transaction) -> int:
            tx.execute("insert into effects values (?, 'x')", [number])
            return 1 // (number % 2)

        barrier.wait()
        try:
            results[number] = table.store.write(operation)
        except ZeroDivisionError as exc:
            results[number] = type(exc)

    threads = [threading.Thread(target=work, args=[number]) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: 1 if n % 2 else ZeroDivisionError for n in range(16)}
    assert count(table) == 8


def test_a_forked_child_uses_connections_of_its_own(table: Onceward) -> None:
    """After fork both processes write, and neither disturbs the other."""
    with table.transaction() as tx:
        tx.execute("insert into effects values (1, 'parent')")

    def write() -> None:
        with table.transaction() as tx:
            tx.execute("insert into effects values (2, 'child')")

    child = forked(write)
    with table.transaction() as tx:
        tx.execute("insert into effects values (3, 'parent')")
    assert os.waitpid(child, 0)[1] == 0
    assert count(table) == 3


def test_migrating_again_changes_nothing(ow: Onceward) -> None:
    """The schema is current after opening; migrating is idempotent."""
    found = status(ow.store)
    assert found.applied == tuple(number for number, _, _ in migrations(ow.store.engine))
    assert not found.pending
    assert migrate(ow.store) == []
    assert ow.store.problems() == []


def test_a_database_of_a_newer_version_is_refused(ow: Onceward, ow_url: str) -> None:
    """An old program does not touch what it does not know."""
    ow.store.write(lambda tx: tx.query("note_migration", number=999, name="from the future"))
    with pytest.raises(SchemaMismatch, match="migration 999"):
        open_handle(ow_url)


def test_many_processes_may_open_a_new_store_at_once(ow_url: str) -> None:
    """One migrates, the others wait, all of them work."""
    code = "import sys; from onceward.client import open; open(sys.argv[1]).close()"
    opened = [subprocess.Popen([sys.executable, "-c", code, ow_url]) for _ in range(4)]
    assert [process.wait() for process in opened] == [0] * 4


def test_a_url_of_another_kind_is_refused_without_its_secrets() -> None:
    """The error names the scheme and nothing that may be a password."""
    with pytest.raises(InvalidArgument, match="not a store URL: its scheme is 'mysql'") as refused:
        open_handle("mysql://me:secret@host/db")
    assert "secret" not in str(refused.value.to_dict())


@pytest.mark.parametrize("url", ["me:secret@host", "secret", "me:secret@x://host", "se cret://x"])
def test_a_text_without_a_scheme_is_not_repeated(url: str) -> None:
    """Without `://` the whole text may be a password, or contain one."""
    with pytest.raises(InvalidArgument) as refused:
        open_handle(url)
    said = str(refused.value.to_dict())
    assert not any(each in said for each in ("secret", "se cret", "me:"))
    assert "ONCEWARD_STORE" in said


def test_a_url_with_two_slashes_gets_a_fix_with_three() -> None:
    """The likeliest slip: the message says what is wrong with it, not only how a URL begins."""
    with pytest.raises(InvalidArgument, match="needs a path after three slashes") as refused:
        open_handle("sqlite://work.db")
    assert "sqlite:///work.db" in refused.value.fix


@pytest.mark.parametrize("rest", ["me:s3 cret@host/db", "me:s3%zzcret@h/db", "me:s3cret@[h/db"])
def test_an_unreadable_postgres_url_is_not_repeated(rest: str) -> None:
    """Libpq repeats the part that it cannot read; the traceback must not show it either."""
    with pytest.raises(InvalidArgument, match="url: ") as refused:
        open_handle(f"postgresql://{rest}")
    shown = "".join(traceback.format_exception(refused.value)) + str(refused.value.to_dict())
    assert "s3" not in "".join(line for line in shown.splitlines() if "open_handle(" not in line)


def test_a_task_that_outlives_the_block_does_not_join_what_has_ended(table: Onceward) -> None:
    """A task started inside a transaction that writes after its end has a commit of its own."""

    def insert(number: int) -> None:
        with table.transaction() as tx:
            tx.execute("insert into effects values (?, 'x')", [number])

    async def main() -> None:
        ended = asyncio.Event()

        async def late() -> None:
            await ended.wait()
            insert(2)
            await asyncio.to_thread(insert, 3)

        with table.transaction() as tx:
            tx.execute("insert into effects values (1, 'x')")
            task = asyncio.create_task(late())
        ended.set()
        await task

    asyncio.run(main())
    assert count(table) == 3


def test_a_transaction_kept_after_its_end_is_of_no_use(table: Onceward) -> None:
    """Statements on a transaction that has ended are refused, and hold no lock."""
    with table.transaction() as tx:
        tx.execute("insert into effects values (1, 'x')")
    for sql in ("insert into effects values (2, 'x')", "select 1"):
        with pytest.raises(SqlFailed, match="has ended"):
            tx.execute(sql)
    assert count(table) == 1


def test_an_error_that_undid_the_transaction_cannot_be_swallowed(table: Onceward) -> None:
    """After the database rolled back by itself, nothing more is written, and nothing stays."""
    clash = {
        "sqlite": "insert or rollback into effects values (1, 'twice')",
        "postgres": "insert into effects values (1, 'twice')",
    }[table.store.engine]
    with pytest.raises(SqlFailed), table.transaction() as tx:
        tx.execute("insert into effects values (1, 'once')")
        with pytest.raises(SqlFailed):
            tx.execute(clash)
        tx.execute("insert into effects values (2, 'later')")
    assert count(table) == 0


def test_a_doomed_transaction_is_not_committed(table: Onceward) -> None:
    """Code that swallows the error that doomed it still does not get a commit."""
    with pytest.raises(SqlFailed), table.transaction() as tx:
        tx.execute("insert into effects values (1, 'x')")
        tx.mark_rollback_only()
    assert count(table) == 0


def test_a_child_forked_inside_a_transaction_has_none(table: Onceward) -> None:
    """The parent's transaction is not the child's to join or to end."""
    with table.transaction() as tx:
        tx.execute("insert into effects values (1, 'parent')")

        def join() -> None:
            assert table.store.current() is None
            with pytest.raises(SqlFailed, match="has ended"):
                tx.execute("insert into effects values (2, 'child')")

        assert os.waitpid(forked(join), 0)[1] == 0
    assert count(table) == 1


def test_a_write_apart_inside_a_writing_block_is_refused_from_any_thread(table: Onceward) -> None:
    """On SQLite it would wait for the block, and the block for it; on PostgreSQL it just works."""

    def insert(tx: Transaction) -> int:
        return tx.execute("insert into effects values (2, 'apart')").rowcount

    async def main() -> None:
        with table.transaction() as tx:
            tx.execute("insert into effects values (1, 'x')")
            await asyncio.to_thread(table.store.run_in_own_transaction, insert)

    if table.store.engine == "sqlite":
        with pytest.raises(WriterHeld):
            asyncio.run(main())
        assert count(table) == 0
    else:
        asyncio.run(main())
        assert count(table) == 2


def test_an_interrupt_in_the_leader_is_the_leaders(table: Onceward) -> None:
    """Ctrl-C while writing for others is raised where it hit; the others do not know their end."""

    def interrupted(_tx: Transaction) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.store.write(interrupted)
    assert count(table) == 0
    table.store.write(lambda tx: tx.execute("insert into effects values (1, 'x')"))
    assert count(table) == 1


def test_a_detached_transaction_is_part_of_no_context_until_one_joins(table: Onceward) -> None:
    """It may be joined in one thread and ended in another; what did not join it is apart."""
    store = table.store
    manager = store.detached()
    tx = manager.__enter__()
    assert store.current() is None

    def insert() -> None:
        with store.joined(tx):
            assert store.current() is tx
            with table.transaction() as inner:
                assert inner is tx
                inner.execute("insert into effects values (1, 'joined')")
        assert store.current() is None

    for work in (insert, lambda: manager.__exit__(None, None, None)):
        thread = threading.Thread(target=work)
        assert count(table) == 0
        thread.start()
        thread.join()
    assert count(table) == 1
    with pytest.raises(ZeroDivisionError), store.detached() as other, store.joined(other):
        other.execute("insert into effects values (2, 'undone')")
        raise ZeroDivisionError
    assert count(table) == 1


def test_what_follows_a_savepoint_can_be_undone_alone(table: Onceward) -> None:
    """What was written before it stays, even when the database refused a statement after it."""
    with table.transaction() as tx:
        tx.execute("insert into effects values (1, 'before')")
        undo = tx.savepoint()
        tx.execute("insert into effects values (2, 'after')")
        with pytest.raises(SqlFailed):
            tx.execute("insert into effects values (2, 'twice')")
        undo()
        tx.savepoint()
        tx.execute("insert into effects values (3, 'after an unused savepoint')")
    with table.transaction() as tx:
        assert tx.execute("select id from effects order by id") == [(1,), (3,)]
    with pytest.raises(SqlFailed, match="has ended"):
        undo()


def test_one_statement_runs_for_many_rows(ow: Onceward) -> None:
    """Rows by position and by name; a refusal undoes all of them with the transaction."""
    with ow.transaction() as tx:
        tx.execute("create table many (n bigint primary key)")
        tx.execute_many("insert into many values (?)", [[1], [2]])
        tx.execute_many("insert into many values (:n)", ({"n": n} for n in (3, 4)))
        tx.execute_many("insert into many values (?)", [])
    with pytest.raises(SqlFailed), ow.transaction() as tx:
        tx.execute_many("insert into many values (?)", [[5], [1]])
    with ow.transaction() as tx:
        assert tx.execute("select n from many order by n") == [(1,), (2,), (3,), (4,)]


def test_a_snapshot_sees_one_moment(ow: Onceward) -> None:
    """What others commit meanwhile is not seen inside, and is afterwards."""
    ow.cursors.acquire("one", "w")
    with ow.store.snapshot():
        before = [each.name for each in ow.cursors.list()]
        other = threading.Thread(target=lambda: ow.cursors.acquire("two", "w"))
        other.start()
        other.join()
        assert [each.name for each in ow.cursors.list()] == before == ["one"]
    assert [each.name for each in ow.cursors.list()] == ["one", "two"]
