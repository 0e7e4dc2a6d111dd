"""Guards, and writers that meet on one cursor: who waits for whom, on both engines."""

import threading
from collections.abc import Callable
from typing import TypeVar

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.cursors import Lease, Renewal
from onceward.errors import LeaseLost, SqlFailed, WriterHeld
from onceward.stores import Transaction
from onceward.system import ManualClock
from onceward.testing.moving_time import MovingTime
from tests.conformance.test_cursors import acquire, effects, stolen, table

__all__ = ["table"]
T = TypeVar("T")


def test_a_guarded_transaction_of_a_stale_holder_does_nothing(
    table: Onceward, ow_time: MovingTime
) -> None:
    """A transaction of the user's own, without a checkpoint, is fenced as well."""
    first, second = stolen(table, ow_time)
    with pytest.raises(LeaseLost), table.transaction() as tx:
        tx.execute("insert into effects values ('stale')")
        first.guard(tx)
    with table.transaction() as tx:
        second.guard(tx)
        tx.execute("insert into effects values ('fresh')")
    assert effects(table) == ["fresh"]


def test_no_takeover_while_a_guarded_transaction_is_open(
    table: Onceward, ow_time: MovingTime
) -> None:
    """The worker taking over waits, and then sees the transaction's result: a renewed lease."""
    lease = acquire(table)
    taken: list[Lease | None] = []
    successor = threading.Thread(target=lambda: taken.append(table.cursors.acquire("c", "w2")))
    with table.transaction() as tx:
        lease.guard(tx)
        tx.execute("insert into effects values ('guarded')")
        ow_time.advance(seconds=61)
        successor.start()
        successor.join(timeout=0.2)
        assert successor.is_alive()
        lease.checkpoint("1", tx=tx)
    successor.join()
    assert taken == [None]
    assert effects(table) == ["guarded"]


@pytest.mark.parametrize("ow_url", ["postgres"], indirect=True)
def test_a_guard_blocks_neither_renewals_nor_pauses(table: Onceward) -> None:
    """No heartbeat waits for its own handler, and no operator for a slow one."""
    lease = acquire(table)
    with table.transaction() as tx:
        lease.guard(tx)
        tx.execute("insert into effects values ('guarded')")
        assert lease.renew() is Renewal.RENEWED
        done = threading.Event()

        def pause() -> None:
            table.cursors.pause("c")
            done.set()

        threading.Thread(target=pause).start()
        assert done.wait(timeout=60)
        lease.checkpoint("1", tx=tx)
    assert effects(table) == ["guarded"]


@pytest.mark.parametrize("ow_url", ["sqlite"], indirect=True)
def test_a_guard_checks_again_when_the_write_lock_is_held(
    table: Onceward, ow_time: MovingTime
) -> None:
    """Slow work before the first write holds no lock, so another worker may have taken over."""
    lease = acquire(table)
    with pytest.raises(LeaseLost), table.transaction() as tx:
        lease.guard(tx)
        ow_time.advance(seconds=61)
        acquire(table, "w2")
        tx.execute("insert into effects values ('stale')")
    assert effects(table) == []


@pytest.mark.parametrize("ow_url", ["sqlite"], indirect=True)
def test_a_takeover_that_had_to_wait_is_retried_one_heartbeat_later(
    table: Onceward, ow_time: MovingTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder's renewal waits for the same lock; the worker taking over lets it go first."""
    acquire(table)
    run_in_own_transaction, has_asked = table.store.run_in_own_transaction, threading.Event()

    def asked(operation: Callable[[Transaction], T]) -> T:
        has_asked.set()  # It has looked at the clock, and waits for the lock from now on.
        return run_in_own_transaction(operation)

    monkeypatch.setattr(table.store, "run_in_own_transaction", asked)
    taken: list[Lease | None] = []
    successor = threading.Thread(target=lambda: taken.append(table.cursors.acquire("c", "w2")))
    with table.transaction() as tx:
        tx.execute("insert into effects values ('slow')")
        ow_time.advance(seconds=61)
        successor.start()
        assert has_asked.wait(60)
        ow_time.advance(seconds=1)
    successor.join()
    assert taken == [None]
    ow_time.advance(seconds=19)
    assert table.cursors.acquire("c", "w2") is None
    ow_time.advance(seconds=2)
    assert acquire(table, "w2").epoch == 2


@pytest.mark.parametrize("ow_url", ["sqlite"], indirect=True)
def test_sqlite_does_not_wait_for_itself(table: Onceward) -> None:
    """Acquiring or renewing inside a writing transaction of the same thread is refused at once."""
    lease = acquire(table)
    with table.transaction() as tx:
        tx.execute("insert into effects values ('a')")
        with pytest.raises(WriterHeld):
            lease.renew()
        with pytest.raises(WriterHeld):
            table.cursors.acquire("d")
        lease.checkpoint("1", tx=tx)
    assert not lease.lost.is_set()
    assert effects(table) == ["a"]


def test_a_stale_checkpoint_does_not_affect_operations_in_the_same_commit(
    table: Onceward,
) -> None:
    """Short operations of many threads share a commit; a refused one is undone alone."""
    fresh = {number: table.cursors.acquire(f"c{number}", "w") for number in range(16)}
    stale = {number: lease for number, lease in fresh.items() if number % 2}
    for number in stale:
        assert table.cursors.acquire(f"c{number}", "w") is not None
    results: dict[int, object] = {}
    barrier = threading.Barrier(16)

    def work(number: int) -> None:
        def operation(tx: Transaction) -> None:
            tx.execute("insert into effects values (?)", [f"{number:02}"])
            lease = fresh[number]
            assert lease is not None
            lease.checkpoint("1", tx=tx)

        barrier.wait()
        try:
            results[number] = table.store.write(operation)
        except LeaseLost as lost:
            results[number] = lost.cursor

    threads = [threading.Thread(target=work, args=[number]) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: f"c{n}" if n % 2 else None for n in range(16)}
    assert effects(table) == [f"{n:02}" for n in range(0, 16, 2)]


def test_the_checkpoint_of_an_operation_that_fails_is_not_made(table: Onceward) -> None:
    """Also where several operations share a transaction, what one kept for the end goes with it."""
    results: list[str] = []
    barrier = threading.Barrier(8)

    def work(number: int) -> None:
        lease = table.cursors.acquire(f"c{number}", "w")
        assert lease is not None

        def operation(tx: Transaction) -> None:
            lease.checkpoint("1", tx=tx)
            if number % 2:
                raise ZeroDivisionError

        barrier.wait()
        try:
            table.store.write(operation)
        except ZeroDivisionError:
            results.append(lease.name)

    threads = [threading.Thread(target=work, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == ["c1", "c3", "c5", "c7"]
    positions = [state.position for state in table.cursors.list()]
    assert positions == ["1", None] * 4


@pytest.mark.parametrize("commits_before", range(5))
def test_a_refusal_does_not_spoil_the_connection_for_others(
    table: Onceward, ow_url: str, commits_before: int
) -> None:
    """Whenever a commit is refused in a connection's life, the next ones work."""
    stale, fresh = acquire(table), acquire(table)
    # Twice, so that statements are prepared in the very commit that is refused.
    with open_handle(ow_url, clock=ManualClock()) as ow:
        for _ in range(commits_before):
            work(ow, fresh)
        for _ in range(2):
            with pytest.raises(LeaseLost):
                work(ow, stale)
        for _ in range(3):
            work(ow, fresh)
    assert effects(table) == ["1"] * (commits_before + 3)


def work(ow: Onceward, lease: Lease) -> None:
    with ow.transaction() as tx:
        tx.execute("insert into effects values ('1')")
        lease.checkpoint("1", tx=tx)
        lease.checkpoint("2", tx=tx)


@pytest.mark.parametrize("moves", [True, False])
def test_a_transaction_with_a_swallowed_error_is_committed_completely_or_rejected(
    table: Onceward, moves: bool
) -> None:
    """PostgreSQL gives such a transaction up, SQLite does not; neither pretends."""
    lease = acquire(table)
    is_refused = False
    try:
        with table.transaction() as tx:
            tx.execute("insert into effects values ('1')")
            with pytest.raises(SqlFailed):
                tx.execute("insert into nowhere values (1)")
            if moves:
                lease.checkpoint("1", tx=tx)
    except SqlFailed:
        is_refused = True
    assert is_refused == (table.store.engine == "postgres")
    assert effects(table) == ([] if is_refused else ["1"])
    assert table.cursors.show("c").position == ("1" if moves and not is_refused else None)
