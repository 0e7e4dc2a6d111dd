"""Heartbeats: leases that are kept while handlers work, and handlers that learn of a loss."""

import asyncio
import os
import threading
from collections.abc import Callable

import pytest

from onceward.client import Onceward
from onceward.cursors import Lease, Renewal
from onceward.errors import InvalidArgument, LeaseLost, StoreBusy
from tests.support.forked_children import forked

#: Beats come much more often than a test could take.
BEAT_SECONDS = 0.01
PATIENCE_SECONDS = 60.0


def acquire(ow: Onceward, worker: str = "w1") -> Lease:
    lease = ow.cursors.acquire("c", worker)
    assert lease is not None
    return lease


def lose(ow: Onceward) -> None:
    ow.cursors.seek("c", "0", "test", "test")


class Beats:
    """Counts the renewals of a lease, and lets a test wait for them."""

    def __init__(self, lease: Lease, monkeypatch: pytest.MonkeyPatch) -> None:
        self._renew: Callable[[], Renewal] = lease.renew
        self._seen = threading.Semaphore(0)
        self.fail_next = 0
        monkeypatch.setattr(lease, "renew", self.renew)

    def renew(self) -> Renewal:
        try:
            if self.fail_next:
                self.fail_next -= 1
                raise StoreBusy
            return self._renew()
        finally:
            self._seen.release()

    def wait(self, times: int) -> None:
        for _ in range(times):
            assert self._seen.acquire(timeout=PATIENCE_SECONDS)


def heartbeat_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "onceward-heartbeat"]


def test_a_lease_is_renewed_while_it_is_held(ow: Onceward, monkeypatch: pytest.MonkeyPatch) -> None:
    """Again and again, by one thread, which ends with the last block."""
    lease = acquire(ow)
    beats = Beats(lease, monkeypatch)
    with lease.hold(BEAT_SECONDS), lease.hold(BEAT_SECONDS):
        beats.wait(3)
        (thread,) = heartbeat_threads()
    thread.join(PATIENCE_SECONDS)
    assert heartbeat_threads() == []
    assert not lease.lost.is_set()


def test_by_default_a_lease_is_renewed_three_times_before_it_runs_out(ow: Onceward) -> None:
    """Every 20 s for one of 60 s; a heartbeat slower than the lease makes no sense."""
    lease = acquire(ow)
    assert lease.heartbeat_seconds == 20.0
    for seconds in (60.0, -1.0):
        with pytest.raises(InvalidArgument), lease.hold(seconds):
            pass


def test_a_busy_store_is_no_lost_lease(ow: Onceward, monkeypatch: pytest.MonkeyPatch) -> None:
    """A renewal that could not be made is tried again."""
    lease = acquire(ow)
    beats = Beats(lease, monkeypatch)
    beats.fail_next = 2
    with lease.hold(BEAT_SECONDS):
        beats.wait(4)
    assert beats.fail_next == 0
    assert not lease.lost.is_set()
    lease.checkpoint("1")


def test_the_next_write_of_a_sync_handler_raises_once_the_lease_is_lost(ow: Onceward) -> None:
    """The handler is stopped by its own next write, not only at its end."""
    with ow.transaction() as tx:
        tx.execute("create table effects (note text)")
    lease = acquire(ow)
    with pytest.raises(LeaseLost) as refused, lease.hold(BEAT_SECONDS), ow.transaction() as tx:
        lease.watch(tx)
        thread = threading.Thread(target=lose, args=[ow])
        thread.start()
        thread.join()
        assert lease.lost.wait(PATIENCE_SECONDS)
        tx.execute("insert into effects values ('stale')")
    assert refused.value.current_epoch == 2
    with ow.transaction() as tx:
        assert tx.execute("select * from effects") == []


def test_a_lost_lease_cancels_the_task_of_an_async_handler(ow: Onceward) -> None:
    """The task is cancelled where it waits, and the block says why."""
    lease = acquire(ow)
    steps: list[str] = []

    async def handler() -> None:
        try:
            with lease.hold(BEAT_SECONDS):
                await asyncio.to_thread(lose, ow)
                await asyncio.wait_for(asyncio.Event().wait(), PATIENCE_SECONDS)
        except LeaseLost:
            steps.append("lease lost")
        await asyncio.sleep(0)
        steps.append("goes on")

    asyncio.run(handler())
    assert steps == ["lease lost", "goes on"]


def test_a_task_that_others_cancel_stays_cancelled(ow: Onceward) -> None:
    """Only our own cancelling is turned into LeaseLost."""
    lease = acquire(ow)

    async def handler(begun: asyncio.Event) -> None:
        with lease.hold(BEAT_SECONDS):
            begun.set()
            await asyncio.Event().wait()

    async def main() -> None:
        begun = asyncio.Event()
        task = asyncio.create_task(handler(begun))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert not lease.lost.is_set()


def test_a_block_that_has_ended_is_not_cancelled_afterwards(ow: Onceward) -> None:
    """A loss that is noticed later affects no code outside the block."""
    lease = acquire(ow)

    async def handler() -> str:
        with lease.hold(BEAT_SECONDS):
            pass
        await asyncio.to_thread(lose, ow)
        with pytest.raises(LeaseLost):
            lease.renew()
        await asyncio.sleep(0)
        return "whole"

    assert asyncio.run(handler()) == "whole"


def test_a_lost_lease_cannot_be_held_again(ow: Onceward) -> None:
    """Once it is known to be lost, no new work begins under it."""
    lease = acquire(ow)
    lose(ow)
    with pytest.raises(LeaseLost):
        lease.renew()
    with pytest.raises(LeaseLost), lease.hold():
        pass
    with pytest.raises(LeaseLost):
        lease.check()


def test_a_released_lease_is_renewed_no_more(ow: Onceward, monkeypatch: pytest.MonkeyPatch) -> None:
    """Giving it back ends its heartbeat, also inside the block."""
    lease = acquire(ow)
    beats = Beats(lease, monkeypatch)
    with lease.hold(BEAT_SECONDS):
        beats.wait(1)
        (thread,) = heartbeat_threads()
        lease.release()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
    assert ow.cursors.acquire("c", "w2") is not None


def test_a_paused_cursor_keeps_its_heartbeat(ow: Onceward, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paused is not lost: after resuming, the lease is renewed as before."""
    lease = acquire(ow)
    beats = Beats(lease, monkeypatch)
    with lease.hold(BEAT_SECONDS):
        ow.cursors.pause("c")
        beats.wait(3)
        ow.cursors.resume("c")
        beats.wait(3)
    assert not lease.lost.is_set()


def test_a_forked_child_has_no_heartbeat_of_its_parent(ow: Onceward) -> None:
    """The child can hold leases of its own, with a thread of its own."""
    lease = acquire(ow)

    def live() -> None:
        own = ow.cursors.acquire("d", "child")
        assert own is not None
        with own.hold(BEAT_SECONDS):
            lease.lost.is_set()
        own.release()

    with lease.hold(BEAT_SECONDS):
        assert os.waitpid(forked(live), 0)[1] == 0
    lease.checkpoint("1")
