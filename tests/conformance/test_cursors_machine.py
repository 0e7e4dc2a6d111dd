"""Leases against a model: any order of calls by any handle, old ones too."""

import itertools
from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    rule,
)

from onceward.client import Onceward
from onceward.cursors import Lease, Renewal
from onceward.errors import LeaseLost, NothingToUndo
from onceward.testing.moving_time import MovingTime
from tests.support.proof_length import examples_for, run_machine

LEASE_SECONDS = 60.0
#: No sum of these comes near the end of a lease: on PostgreSQL time runs on its own as well.
STEPS_SECONDS = (7.0, 40.0, 100.0)
_numbers = itertools.count()
workers = st.sampled_from(["w1", "w2", "w3"])


class LeaseMachine(RuleBasedStateMachine):
    """One cursor, its model, and every handle that was ever granted."""

    handles = Bundle("handles")

    def __init__(self, ow: Onceward, time: MovingTime) -> None:
        super().__init__()
        self.ow, self.time = ow, time
        self.name = f"cursor-{next(_numbers)}"
        self.now = 0.0
        self.epoch = 0
        self.holder: Lease | None = None
        self.ends = 0.0
        self.owner: str | None = None
        self.is_paused = False
        self.position: str | None = None
        self.steals = 0
        self.seeks: list[str | None] = []
        self.moves = 0
        #: Effects that were accepted: which handle, under which epoch.
        self.accepted: list[tuple[str, int]] = []

    def attempt(self, lease: Lease, call: Callable[[], object]) -> bool:
        """Call, and make sure that it is refused exactly when the handle is not the holder's."""
        if lease is self.holder:
            call()
            return True
        with pytest.raises(LeaseLost) as refused:
            call()
        assert (refused.value.cursor, refused.value.held_epoch) == (self.name, lease.epoch)
        assert refused.value.current_epoch == self.epoch
        return False

    def extend(self) -> None:
        if not self.is_paused:
            self.ends = self.now + LEASE_SECONDS

    @rule(target=handles, worker=workers)
    def acquire(self, worker: str) -> object:
        is_free = self.owner in (None, worker) or self.ends < self.now
        lease = self.ow.cursors.acquire(self.name, worker, LEASE_SECONDS)
        assert (lease is not None) == (is_free and not self.is_paused)
        if lease is None:
            return multiple()
        assert lease.epoch == self.epoch + 1
        assert lease.position == self.position
        self.steals += self.owner not in (None, worker)
        self.epoch, self.owner, self.holder = lease.epoch, worker, lease
        self.extend()
        return lease

    @rule(lease=handles)
    def renew(self, lease: Lease) -> None:
        expected = Renewal.PAUSED if self.is_paused else Renewal.RENEWED

        def call() -> None:
            assert lease.renew() is expected

        if self.attempt(lease, call):
            self.extend()

    @rule(lease=handles, position=st.sampled_from("abc"))
    def checkpoint_alone(self, lease: Lease, position: str) -> None:
        if self.attempt(lease, lambda: lease.checkpoint(position)):
            self.position = position
            self.extend()

    @rule(lease=handles, position=st.sampled_from("abc"), guarded=st.booleans())
    def work(self, lease: Lease, position: str, guarded: bool) -> None:
        def call() -> None:
            with self.ow.transaction() as tx:
                if guarded:
                    lease.guard(tx)
                turn = len(self.accepted)
                tx.execute("insert into effects values (?, ?, ?)", [self.name, lease.worker, turn])
                lease.checkpoint(position, tx=tx)

        if self.attempt(lease, call):
            self.accepted.append((lease.worker, lease.epoch))
            self.position = position
            self.extend()

    @rule(lease=handles)
    def fail(self, lease: Lease) -> None:
        self.attempt(lease, lease.fail)

    @rule(lease=handles)
    def release(self, lease: Lease) -> None:
        if self.attempt(lease, lease.release):
            self.owner = self.holder = None

    @rule(paused=st.booleans())
    def pause_or_resume(self, paused: bool) -> None:
        if self.epoch:
            (self.ow.cursors.pause if paused else self.ow.cursors.resume)(self.name)
            self.moves += paused != self.is_paused
            self.is_paused = paused

    @rule(position=st.sampled_from(["x", "y", None]))
    def seek(self, position: str | None) -> None:
        if self.epoch:
            move = self.ow.cursors.seek(self.name, position, "why", "operator")
            self.seeks.append(self.position)
            self.moved(move.epoch, position)

    @rule()
    def undo(self) -> None:
        if not self.epoch:
            return
        if not self.seeks:
            with pytest.raises(NothingToUndo):
                self.ow.cursors.undo(self.name, "operator")
            return
        self.moved(self.ow.cursors.undo(self.name, "operator").epoch, self.seeks.pop())

    def moved(self, epoch: int | None, position: str | None) -> None:
        assert epoch == self.epoch + 1
        self.epoch, self.owner, self.holder = epoch, None, None
        self.position = position
        self.moves += 1

    @rule(seconds=st.sampled_from(STEPS_SECONDS))
    def advance(self, seconds: float) -> None:
        self.time.advance(seconds=seconds)
        self.now += seconds

    @invariant()
    def the_row_is_what_the_model_says(self) -> None:
        if self.epoch:
            state = self.ow.cursors.show(self.name)
            assert (state.epoch, state.position) == (self.epoch, self.position)
            assert (state.lease_owner, state.is_paused) == (self.owner, self.is_paused)
            assert state.steal_count == self.steals

    def teardown(self) -> None:
        with self.ow.transaction() as tx:
            rows = tx.execute(
                "select worker from effects where cursor = ? order by turn", [self.name]
            )
        assert [row[0] for row in rows] == [worker for worker, _ in self.accepted]
        epochs = [epoch for _, epoch in self.accepted]
        assert epochs == sorted(epochs)
        assert len(set(self.accepted)) == len(set(epochs))
        assert len(self.ow.cursors.history(self.name)) == self.steals + self.moves


@pytest.mark.prove
def test_any_order_of_calls_keeps_the_promises(
    ow: Onceward, ow_time: MovingTime, prove: bool, soak: bool
) -> None:
    """Epochs only rise, one handle writes per epoch, and only it or a recorded seek moves."""
    with ow.transaction() as tx:
        tx.execute("create table effects (cursor text, worker text, turn integer)")
    examples = examples_for(ow, prove=prove, soak=soak)
    run_machine(lambda: LeaseMachine(ow, ow_time), examples=examples, steps=25)
