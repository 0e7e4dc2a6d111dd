"""`tx.connection`: the driver's own connection inside our transaction, on both engines."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import psycopg
import pytest

from onceward.client import Onceward
from onceward.errors import LeaseLost, Retryable, SqlFailed
from onceward.system.crash_points import Crashed, arm
from tests.support.forked_children import forked

#: What the drivers raise.
REFUSED = (sqlite3.Error, psycopg.Error)


@pytest.fixture
def shop(ow: Onceward) -> Onceward:
    with ow.transaction() as tx:
        tx.execute("create table orders (number integer primary key)")
    return ow


def numbers(ow: Onceward) -> list[int]:
    return [row[0] for row in ow.store.select("select number from orders order by number")]


def add(connection: Any, *rows: int) -> None:
    for row in rows:
        connection.execute(f"insert into orders values ({row})")


class Undone(Exception):
    """Leaves a block."""


def test_h47_a_row_of_the_drivers_connection_and_the_outcome_are_one_commit(shop: Onceward) -> None:
    """The outcome of a function with `tx` and what it wrote by `tx.connection` stay together."""

    @shop.once(key=str, scope="order")
    def order(number: int, tx: Any = None) -> int:
        add(tx.connection, number)
        tx.connection.commit()
        return number

    @shop.once(key=str, scope="failing", retry_on=Undone)
    def fail(number: int, tx: Any = None) -> int:
        add(tx.connection, number)
        tx.connection.commit()
        raise Undone

    assert order(1) == order(1) == 1
    with pytest.raises(Undone):
        fail(2)
    assert numbers(shop) == [1]
    arm("outcome.finish_in.before_commit:1:raise")
    try:
        with pytest.raises(Crashed):
            order(3)
    finally:
        arm(None)
    assert numbers(shop) == [1]
    assert [each.key for each in shop.outcomes.list(scope="order")] == ["1"]


def test_h47_it_is_the_drivers_own_connection(shop: Onceward) -> None:
    """Libraries that check the type accept it, and it is the same one all through the block."""
    kind = sqlite3.Connection if shop.store.engine == "sqlite" else psycopg.Connection
    with shop.transaction() as tx:
        assert isinstance(tx.connection, kind)
        assert tx.connection is tx.connection is shop.connection()
        assert tx.is_writing
    with pytest.raises(SqlFailed, match="no transaction"):
        shop.connection()


COMMITS: dict[str, Callable[[Any], object]] = {
    "commit()": lambda connection: connection.commit(),
    "with connection": lambda connection: connection.__enter__().__exit__(None, None, None),
    "close()": lambda connection: connection.close(),
    "autocommit": lambda connection: setattr(connection, "autocommit", True),
    "isolation_level": lambda connection: setattr(connection, "isolation_level", None),
    "commit as SQL": lambda connection: connection.execute("commit"),
    "end after a comment": lambda connection: connection.execute("/* done */ end"),
    "executescript": lambda connection: connection.executescript("select 1; commit"),
    "of a cursor": lambda connection: connection.cursor().executescript("select 1; commit"),
    "rollback as SQL": lambda connection: connection.execute("rollback"),
    "attach": lambda connection: connection.execute("attach ':memory:' as other"),
    "begin as SQL": lambda connection: connection.execute("begin"),
    "another authorizer": lambda connection: connection.set_authorizer(None),
}
#: What the server does before the driver can notice; the next test is about them.
BY_SERVER = ("commit as SQL", "end after a comment")


@pytest.mark.parametrize("how", COMMITS)
def test_h47_no_call_on_a_lent_connection_commits(shop: Onceward, how: str) -> None:
    """Whatever is tried, an error that leaves the block undoes all of it."""
    if shop.store.engine == "postgres" and how in BY_SERVER:
        return
    with pytest.raises(Undone), shop.transaction() as tx:
        tx.execute("insert into orders values (1)")
        add(tx.connection, 2)
        try:
            COMMITS[how](tx.connection)
            add(tx.connection, 3)
        except (*REFUSED, AttributeError):
            pass
        raise Undone
    assert numbers(shop) == []


@pytest.mark.parametrize("ending", ["commit", "rollback"])
@pytest.mark.parametrize("later", [False, True])
def test_h47_a_transaction_ended_by_sql_is_an_error_and_never_silent(
    shop: Onceward, ending: str, later: bool
) -> None:
    """SQLite refuses the statement; on PostgreSQL the block's end raises and says what stays."""
    is_refused = False
    with pytest.raises((SqlFailed, Undone)) as caught, shop.transaction() as tx:
        add(tx.connection, 1)
        try:
            tx.connection.execute(ending)
        except sqlite3.DatabaseError:
            is_refused = True
        if later and not is_refused:
            add(tx.connection, 2)
        if is_refused:
            raise Undone
    assert is_refused == (shop.store.engine == "sqlite")
    if not is_refused:
        assert "sent as SQL" in str(caught.value)
    stays = not is_refused and ending == "commit"
    assert numbers(shop) == ([1] if stays else [])


def test_h47_commit_and_rollback_stay_inside_the_transaction(shop: Onceward) -> None:
    """`rollback` goes back to the last `commit`, and the end of the block commits the rest."""
    with shop.transaction() as tx:
        tx.execute("insert into orders values (1)")
        connection = tx.connection
        connection.rollback()  # As SQLAlchemy does when it connects.
        add(connection, 2)
        connection.commit()
        add(connection, 3)
        connection.rollback()
        with pytest.raises(Undone), connection:
            add(connection, 4)
            raise Undone
        with connection:
            add(connection, 5)
        connection.close()
        tx.execute("insert into orders values (6)")
        assert numbers(shop) == []
    assert numbers(shop) == [1, 2, 5, 6]


@pytest.mark.parametrize("between", ["nothing", "read", "read twice"])
def test_h47_a_rollback_without_a_write_undoes_nothing_of_tx(shop: Onceward, between: str) -> None:
    """A session that is only closed rolls back: what `tx` wrote before or meanwhile stays."""
    with shop.transaction() as tx:
        connection = tx.connection
        add(connection, 1)
        connection.commit()
        if between != "nothing":
            connection.execute("select number from orders").fetchall()
        tx.execute("insert into orders values (2)")
        tx.execute_many("insert into orders values (?)", [[3], [4]])
        if between == "read twice":
            connection.execute("select number from orders").fetchall()
        connection.rollback()
        add(connection, 5)
        connection.rollback()
    assert numbers(shop) == [1, 2, 3, 4]


def test_h47_a_rollback_that_cannot_spare_tx_fails_the_transaction(shop: Onceward) -> None:
    """Unfinished writes before one of `tx` cannot be undone alone: an error, never a lost row."""
    for sql in ("insert into orders values (1)", "create table more (number integer)"):
        with pytest.raises(SqlFailed, match="rolled back after"), shop.transaction() as tx:
            tx.connection.execute(sql)
            tx.execute("insert into orders values (2)")
            tx.connection.rollback()
        assert numbers(shop) == []
    with shop.transaction() as tx:
        add(tx.connection, 1)
        assert tx.execute("select count(*) from orders") == [(1,)]
        tx.connection.rollback()
        add(tx.connection, 2)
        tx.execute("insert into orders values (3)")
        tx.connection.commit()
        tx.connection.rollback()
    assert numbers(shop) == [2, 3]


def test_h47_a_lent_connection_is_of_no_use_after_the_block(shop: Onceward) -> None:
    """Neither it nor a cursor of it reaches the transaction that comes next."""
    with shop.transaction() as tx:
        connection = tx.connection
        cursor = connection.cursor()
    with pytest.raises(Undone), shop.transaction() as tx:
        tx.execute("insert into orders values (1)")
        calls: list[Callable[[], object]] = [
            lambda: connection.execute("insert into orders values (2)"),
            lambda: cursor.execute("insert into orders values (2)"),
            connection.commit,
            connection.rollback,
            connection.cursor,
        ]
        for call in calls if shop.store.engine == "sqlite" else calls[:4]:
            with pytest.raises(REFUSED, match=r"closed|ended"):
                call()
        raise Undone
    with pytest.raises(SqlFailed, match="ended"):
        assert tx.connection
    assert numbers(shop) == []


def test_h47_settings_of_the_user_do_not_reach_our_statements(shop: Onceward) -> None:
    """Row and text factories are the user's alone, and gone with the connection."""
    with shop.transaction() as tx:
        connection = tx.connection
        if isinstance(connection, sqlite3.Connection):
            connection.row_factory, connection.text_factory = sqlite3.Row, bytes
        else:
            connection.row_factory = psycopg.rows.dict_row
        add(connection, 1)
        assert tx.execute("select number, 'text' from orders") == [(1, "text")]
        (row,) = connection.execute("select number from orders").fetchall()
        assert row["number"] == 1
    with shop.transaction() as tx:
        assert tx.connection.execute("select 'text'").fetchone() == ("text",)


def test_h47_hooks_of_a_first_write_run_when_the_connection_is_lent(shop: Onceward) -> None:
    """A lost lease is found before the user's database layer writes anything."""
    lease = shop.cursors.acquire("c", worker="w1")
    assert lease is not None
    shop.cursors.seek("c", "5", reason="test", actor="test")
    with pytest.raises(LeaseLost), shop.transaction() as tx:
        lease.guard(tx)
        tx.connection.execute("insert into orders values (1)")
    with pytest.raises(LeaseLost), shop.transaction() as tx:
        lease.watch(tx)
        assert tx.connection is None
    assert numbers(shop) == []


def test_h47_savepoints_around_a_lent_connection_stay_whole(shop: Onceward) -> None:
    """Undoing a part undoes what the connection wrote in it, and `commit` inside breaks nothing."""
    with shop.transaction() as tx:
        add(tx.connection, 1)
        undo = tx.savepoint()
        add(tx.connection, 2)
        tx.connection.commit()
        undo()
        add(tx.connection, 3)
        tx.connection.rollback()
        add(tx.connection, 4)
        tx.connection.commit()
    assert numbers(shop) == [1, 4]
    with shop.transaction() as tx:
        tx.execute("insert into orders values (5)")
        undo = tx.savepoint()
        add(tx.connection, 6)
        tx.connection.commit()
        undo()
        tx.connection.rollback()
        add(tx.connection, 7)
    assert numbers(shop) == [1, 4, 5, 7]


def test_h47_an_error_that_sqlite_undoes_everything_for_lets_nothing_commit_alone(
    shop: Onceward,
) -> None:
    """After `insert or rollback` no later write of the database layer commits by itself."""
    if shop.store.engine == "postgres":
        return  # It refuses all statements after an error.
    with pytest.raises(SqlFailed, match="rolled back"), shop.transaction() as tx:
        connection = tx.connection
        add(connection, 1)
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute("insert or rollback into orders values (1)")
        connection.rollback()
        for sql in (
            "insert into orders values (1)",  # Compiled before.
            "insert into orders values (2)",
            "with two as (select 2) insert into orders select * from two",
            "create table more (number integer)",
            "savepoint mine",
        ):
            with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
                connection.execute(sql)
    assert numbers(shop) == []


def test_h47_an_error_that_the_database_layer_rolled_back_spoils_nothing(shop: Onceward) -> None:
    """As an ORM does: the failed part is rolled back, the rest goes on and is committed."""
    with shop.transaction() as tx:
        add(tx.connection, 1)
        tx.connection.commit()
        with pytest.raises(REFUSED):
            add(tx.connection, 1)
        tx.connection.rollback()
        add(tx.connection, 2)
    assert numbers(shop) == [1, 2]


def test_h47_a_savepoint_that_the_user_released_undoes_everything(shop: Onceward) -> None:
    """Our savepoint is how a foreign COMMIT is found: without it nothing is committed."""
    with pytest.raises(SqlFailed, match="commit"), shop.transaction() as tx:
        add(tx.connection, 1)
        tx.connection.execute("release savepoint onceward_lent_1")
    assert numbers(shop) == []


def test_h47_rows_that_were_not_fetched_lose_nothing(shop: Onceward) -> None:
    """An open cursor over a read is no obstacle; over a write it is committed, or refused whole."""
    with shop.transaction() as tx:
        add(tx.connection, 1, 2)
        reading = tx.connection.cursor()
        reading.execute("select number from orders")
        reading.fetchone()
    is_refused = shop.store.engine == "sqlite"
    expected = (
        pytest.raises(SqlFailed, match="is still in use, so nothing was committed")
        if is_refused
        else nullcontext()
    )
    with expected, shop.transaction() as tx:
        writing = tx.connection.execute("insert into orders values (3) returning number")
        add(tx.connection, 4)
    assert writing is not None
    assert numbers(shop) == ([1, 2] if is_refused else [1, 2, 3, 4])


def test_h47_a_forked_child_cannot_use_a_lent_connection(shop: Onceward) -> None:
    """The session and the locks are the parent's, whose transaction goes on."""

    def use() -> None:
        for call in (lambda: connection.execute("select 7"), connection.commit):
            with pytest.raises(REFUSED):
                call()

    with shop.transaction() as tx:
        connection = tx.connection
        add(connection, 1)
        _, status = os.waitpid(forked(use), 0)
        assert status == 0
        connection.commit()
    assert numbers(shop) == [1]


def test_h47_threads_lend_connections_side_by_side(shop: Onceward) -> None:
    """Each transaction lends its own, and all of them commit."""

    @shop.once(key=str, scope="order", wait=60)
    def order(number: int, tx: Any = None) -> int:
        add(tx.connection, number)
        tx.connection.commit()
        return number

    def work(first: int) -> None:
        for number in range(first, 40, 4):
            order(number)

    threads = [threading.Thread(target=work, args=[first]) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert numbers(shop) == list(range(40))


def test_h47_an_async_function_lends_a_connection_of_the_sync_driver(shop: Onceward) -> None:
    """`async def` functions with `tx` have it, too; the row stays with the outcome."""

    @shop.once(key=str, scope="order")
    async def order(number: int, tx: Any = None) -> int:
        add(tx.connection, number)
        tx.connection.commit()
        if number == 2:
            raise Retryable
        return number

    async def run() -> None:
        assert await order(1) == 1
        with pytest.raises(Retryable):
            await order(2)

    asyncio.run(run())
    assert numbers(shop) == [1]
