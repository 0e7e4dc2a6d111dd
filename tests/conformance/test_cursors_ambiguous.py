"""Checkpoints whose commit got no answer: the handle stops, and a new one knows the truth."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.cursors import Lease
from onceward.errors import LeaseLost, OutcomeUnknown, SqlFailed
from onceward.stores import Transaction
from onceward.system import ManualClock
from tests.support.lost_commit_answers import LoseAnswer, unreliable


class Worker:
    """A worker at position 1 whose store may lose an answer."""

    def __init__(self, ow: Onceward, lose: LoseAnswer) -> None:
        self.ow = ow
        self.lose = lose
        with ow.transaction() as tx:
            tx.execute("create table effects (note text)")
        self.lease = self.acquire()
        self.lease.checkpoint("1")

    def acquire(self, worker: str = "w1") -> Lease:
        lease = self.ow.cursors.acquire("c", worker)
        assert lease is not None
        return lease

    def work(self, position: str) -> None:
        with self.ow.transaction() as tx:
            tx.execute("insert into effects values (?)", [position])
            self.lease.checkpoint(position, tx=tx)

    def checkpoint(self, position: str) -> None:
        self.lease.checkpoint(position)

    def effects(self) -> list[str]:
        with self.ow.transaction() as tx:
            return [row[0] for row in tx.execute("select note from effects order by note")]


@pytest.fixture
def worker(ow_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    with (
        unreliable(ow_url, monkeypatch) as (url, lose),
        open_handle(url, clock=ManualClock()) as ow,
    ):
        yield Worker(ow, lose)


def lose_commit(worker: Worker, *, kept: bool = True) -> None:
    """Work on position 2, and lose the answer to the commit."""
    worker.lose(kept)
    with pytest.raises(OutcomeUnknown):
        worker.work("2")


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("move", [Worker.work, Worker.checkpoint])
def test_a_new_handle_knows_what_the_old_one_does_not(
    worker: Worker, move: Callable[[Worker, str], None], *, kept: bool
) -> None:
    """Kept or not: the old handle does nothing any more, the next one begins at the truth."""
    worker.lose(kept)
    with pytest.raises(OutcomeUnknown):
        move(worker, "2")
    with pytest.raises(LeaseLost, match="may or may not be stored") as refused:
        move(worker, "3")
    assert "acquire" in refused.value.fix
    stored = "2" if kept else "1"
    assert worker.ow.cursors.show("c").position == stored
    old, worker.lease = worker.lease, worker.acquire()
    assert (worker.lease.position, worker.lease.epoch) == (stored, old.epoch + 1)
    move(worker, "3")
    assert worker.ow.cursors.show("c").position == "3"


@pytest.mark.parametrize(
    "use",
    [
        Lease.renew,
        Lease.fail,
        Lease.check,
        lambda lease: lease.checkpoint("3"),
        lambda lease: lease.hold().__enter__(),
    ],
    ids=["renew", "fail", "check", "checkpoint", "hold"],
)
def test_an_ambiguous_lease_rejects_every_use(
    worker: Worker, use: Callable[[Lease], object]
) -> None:
    """The store would still accept it, so the handle itself says no."""
    lose_commit(worker)
    before = worker.ow.cursors.show("c")
    with pytest.raises(LeaseLost, match="may or may not be stored"):
        use(worker.lease)
    assert worker.ow.cursors.show("c") == before
    assert worker.lease.lost.is_set()


@pytest.mark.parametrize("use", ["checkpoint", "guard"])
def test_nothing_is_committed_under_an_ambiguous_lease(worker: Worker, use: str) -> None:
    """Not even by a handler that swallows the refusal."""
    lose_commit(worker)
    with pytest.raises(SqlFailed), worker.ow.transaction() as tx:
        tx.execute("insert into effects values ('wrong')")
        with pytest.raises(LeaseLost):
            worker.lease.guard(tx) if use == "guard" else worker.lease.checkpoint("3", tx=tx)
    assert worker.effects() == ["2"]


def test_a_watched_transaction_stops_at_its_next_write(worker: Worker) -> None:
    """A handle that became ambiguous elsewhere stops the transactions that watch it."""
    with pytest.raises(LeaseLost), worker.ow.transaction() as tx:
        worker.lease.watch(tx)
        tx.execute("select 1")
        worker.lose(True)
        with pytest.raises(OutcomeUnknown):
            worker.lease.checkpoint("2")
        tx.execute("insert into effects values ('wrong')")
    assert worker.effects() == []


def test_an_ambiguous_lease_can_be_released(worker: Worker) -> None:
    """That moves nothing, and others need not wait for the lease to expire."""
    lose_commit(worker)
    worker.lease.release()
    assert worker.acquire("w2").position == "2"


def test_a_renewal_without_an_answer_is_not_ambiguous(worker: Worker) -> None:
    """It moves nothing, so the position is still right, and the fence decides in the end."""
    worker.lose(True)
    with pytest.raises(OutcomeUnknown):
        worker.lease.renew()
    worker.lease.renew()
    worker.work("2")
    assert worker.lease.position == worker.ow.cursors.show("c").position == "2"


def test_a_transaction_that_was_certainly_rolled_back_is_not_ambiguous(worker: Worker) -> None:
    """A handler that fails before the commit may try again with its handle."""
    with pytest.raises(ZeroDivisionError), worker.ow.transaction() as tx:
        worker.lease.checkpoint("2", tx=tx)
        raise ZeroDivisionError
    assert worker.lease.position == "1"
    worker.work("2")
    assert worker.effects() == ["2"]


def test_an_interrupt_in_the_commit_is_ambiguous(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while waiting for the answer: it may be stored by now."""
    with pytest.raises(KeyboardInterrupt), worker.ow.transaction() as tx:
        worker.lease.checkpoint("2", tx=tx)
        commit = tx.commit  # type: ignore[attr-defined]

        def interrupted() -> None:
            commit()
            worker.lease.position = "1"  # As if it had come before the commit could be noted.
            raise KeyboardInterrupt

        monkeypatch.setattr(tx, "commit", interrupted)
    with pytest.raises(LeaseLost, match="may or may not be stored"):
        worker.work("3")
    assert worker.acquire().position == "2"


def test_a_task_that_continues_with_an_ambiguous_lease_is_stopped(worker: Worker) -> None:
    """Inside `hold` a handler that swallows the error is ended at its next await."""

    async def main() -> None:
        with worker.lease.hold():
            lose_commit(worker)
            await asyncio.Event().wait()

    with pytest.raises(LeaseLost, match="may or may not be stored"):
        asyncio.run(main())


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_checkpoint_in_an_operation_is_ambiguous_with_its_commit(
    worker: Worker, *, is_lost: bool
) -> None:
    """With its own, and with no other one that the same connection makes later."""

    def operation(tx: Transaction) -> None:
        tx.execute("select 1")
        worker.lease.checkpoint("2", tx=tx)

    if is_lost:
        worker.lose(True)
        with pytest.raises(OutcomeUnknown):
            worker.ow.store.write(operation)
        with pytest.raises(LeaseLost, match="may or may not be stored"):
            worker.work("3")
    else:
        worker.ow.store.write(operation)
        worker.lose(True)
        with pytest.raises(OutcomeUnknown):
            worker.lease.renew()
        worker.work("3")
        assert worker.ow.cursors.show("c").position == "3"
