"""What transactions see of each other, and `transaction(immediate=True)`, on both engines."""

import threading
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.errors import Retryable, SerializationFailed, SqlFailed, StoreBusy
from onceward.stores import Transaction


@pytest.fixture
def table(ow: Onceward) -> Onceward:
    with ow.transaction() as tx:
        tx.execute("create table accounts (id bigint primary key, cents bigint)")
        tx.execute("insert into accounts values (1, 100), (2, 100)")
    return ow


def total(tx: Transaction) -> Any:
    return tx.execute("select cast(sum(cents) as integer) from accounts")[0][0]


def in_thread(call: Any) -> None:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def deposit(ow: Onceward) -> None:
    with ow.transaction() as tx:
        tx.execute("update accounts set cents = cents + 1 where id = 1")


def test_a_read_sees_the_last_commit(table: Onceward) -> None:
    """Before the first write, each statement sees what others have committed by then."""
    with table.transaction() as tx:
        assert total(tx) == 200
        in_thread(lambda: deposit(table))
        assert total(tx) == 201


def test_immediate_keeps_other_writers_out(table: Onceward, ow_url: str) -> None:
    """Two transactions read a sum and write by it: both commits together would break the rule."""
    if table.store.engine == "sqlite":
        with table.transaction(immediate=True) as tx:
            assert tx.is_writing
            writer = threading.Thread(target=deposit, args=[table])
            writer.start()
            assert total(tx) == 200
            tx.execute("update accounts set cents = cents - 200 where id = 1")
            assert total(tx) == 0
        writer.join()
        with table.transaction() as tx:
            assert total(tx) == 1
        return
    with open_handle(ow_url) as other:  # noqa: SIM117 - the order of the ends is the test
        with pytest.raises(Retryable) as refused, table.transaction(immediate=True) as tx:
            assert total(tx) == 200
            in_thread(lambda: _withdraw(other))
            tx.execute("update accounts set cents = cents - 200 where id = 1")
    assert isinstance(refused.value, StoreBusy)
    with table.transaction() as tx:
        assert total(tx) == 0


def _withdraw(ow: Onceward) -> None:
    with ow.transaction(immediate=True) as tx:
        assert total(tx) == 200
        tx.execute("update accounts set cents = cents - 200 where id = 2")


def test_a_conflict_that_only_the_commit_finds_is_retryable_too(
    table: Onceward, ow_url: str
) -> None:
    """Write skew: each reads what the other writes, and the second COMMIT is refused."""
    if table.store.engine == "sqlite":
        return
    is_at_commit = False
    with open_handle(ow_url) as other:  # noqa: SIM117 - the order of the ends is the test
        with pytest.raises(Retryable) as refused, table.transaction(immediate=True) as tx:
            assert total(tx) == 200
            with other.store.detached() as second:
                second.execute("set transaction isolation level serializable")
                assert total(second) == 200
                tx.execute("update accounts set cents = cents - 200 where id = 1")
                second.execute("update accounts set cents = cents - 200 where id = 2")
            is_at_commit = True
    assert is_at_commit
    assert refused.value.retryable


def test_a_serialization_failure_frees_the_key(table: Onceward) -> None:
    """A function with `tx` that lets one pass may run again: the failure is not recorded."""
    failures = [SerializationFailed(), None]

    @table.once(scope="pay", key="one")
    def pay(tx: Transaction) -> int:
        tx.execute("update accounts set cents = 0 where id = 1")
        failure = failures.pop(0)
        if failure is not None:
            raise failure
        return 1

    run: Any = pay
    with pytest.raises(Retryable):
        run()
    assert run() == 1


def test_immediate_inside_an_open_transaction(table: Onceward) -> None:
    """On SQLite it takes the lock now; on PostgreSQL it comes too late once the other has begun."""
    with table.transaction() as outer, table.transaction(immediate=True) as inner:
        assert inner is outer
        inner.execute("update accounts set cents = 0 where id = 1")
        assert inner.is_writing
        with table.transaction(immediate=True) as again:
            assert again is outer
    with table.transaction() as outer:
        total(outer)
        if table.store.engine == "sqlite":
            with table.transaction(immediate=True):
                assert outer.is_writing
            return
        with pytest.raises(SqlFailed, match="READ COMMITTED"), table.transaction(immediate=True):
            pass
        assert total(outer) == 100
