"""Dual cursors against a model: any order of arriving, reading, trying, failing and recovering."""

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from onceward.client import Onceward
from onceward.cursors.dual import DualCursor
from onceward.cursors.dual_models import DualBatch
from onceward.errors import BatchInFlight, InvalidArgument, Superseded
from tests.support.proof_length import examples_for, run_machine

GROUPS = ("A", "B")
_names = itertools.count(1)


@dataclass
class Flight:
    """A batch in flight, as the model knows it."""

    number: int
    previous: int
    position: int
    output: int | None = None


@dataclass
class Group:
    """A group, as the model knows it."""

    processed: int = 0
    batches: int = 0
    arrived: list[int] = field(default_factory=list)
    flight: Flight | None = None

    def end(self) -> None:
        flight = self.flight
        assert flight is not None
        self.processed = flight.previous if flight.output is None else flight.output
        self.flight = None


class Undone(Exception):
    """The caller's transaction fails after all."""


def undo(wanted: bool) -> None:
    if wanted:
        raise Undone


class Dual(RuleBasedStateMachine):
    """A dual cursor, and what it should be."""

    ow: Onceward
    #: What happened in all examples; a machine that did hardly anything proves nothing.
    counts: Counter[str]

    def __init__(self) -> None:
        super().__init__()
        self.dual: DualCursor = self.ow.dual(f"machine-{next(_names)}")
        self.last = self.read = 0
        self.groups = {name: Group() for name in GROUPS}
        #: Every batch ever begun, stale or not.
        self.batches: list[DualBatch] = []

    @rule(group=st.sampled_from(GROUPS), undone=st.sampled_from([False, False, True]))
    def arrive(self, group: str, undone: bool) -> None:
        """A message arrives, or its transaction fails and its number is drawn again."""
        self.arrive_now(group, undone=undone)

    def arrive_now(self, group: str, *, undone: bool) -> None:
        try:
            with self.ow.transaction() as tx:
                assert self.dual.next_sequence(tx, group) == self.last + 1
                undo(undone)
        except Undone:
            return
        self.last += 1
        self.groups[group].arrived.append(self.last)

    @initialize(count=st.integers(2, 6))
    def begin_chat(self, count: int) -> None:
        """Some messages have arrived and were read, and work on one group has begun."""
        for number in range(count):
            self.arrive_now(GROUPS[number % 2], undone=False)
        self.poll_to(self.last)
        self.begin_at("A", 1)

    @rule(data=st.data())
    def poll(self, data: st.DataObject) -> None:
        """A reader moves the read cursor to somewhere; never back, never beyond what arrived."""
        self.poll_to(data.draw(st.integers(max(0, self.last - 3), self.last + 1)))

    def poll_to(self, position: int) -> None:
        if position > self.last:
            with pytest.raises(InvalidArgument):
                self.dual.advance_global(position)
            return
        self.read = max(self.read, position)
        assert self.dual.advance_global(position) == self.read

    @rule(data=st.data(), group=st.sampled_from(GROUPS))
    def begin(self, data: st.DataObject, group: str) -> None:
        """Work on a group begins."""
        known = self.groups[group]
        highest = min(self.read + 1, known.processed + 3)
        self.begin_at(group, data.draw(st.integers(known.processed, highest)))

    def begin_at(self, group: str, position: int) -> None:
        known = self.groups[group]
        if known.flight is not None:
            with pytest.raises(BatchInFlight):
                self.dual.advance_group(group, position)
            return
        if not known.processed < position <= self.read:
            with pytest.raises(InvalidArgument):
                self.dual.advance_group(group, position)
            return
        self.batches.append(self.dual.advance_group(group, position, batch=[position]))
        self.counts["begun"] += 1
        known.batches += 1
        known.flight = Flight(known.batches, known.processed, position)
        known.processed = position

    def current(self, batch: DualBatch) -> Flight | None:
        flight = self.groups[batch.group].flight
        return flight if flight is not None and flight.number == batch.number else None

    def pick(self, data: st.DataObject) -> DualBatch:
        """Take a batch that is in flight, or one of any age."""
        flying = [batch for batch in self.batches if self.current(batch)]
        if flying and data.draw(st.sampled_from([True, True, False])):
            return data.draw(st.sampled_from(flying))
        return data.draw(st.sampled_from(self.batches))

    @precondition(lambda self: self.batches)
    @rule(data=st.data(), ahead=st.integers(1, 2))
    def extend(self, data: st.DataObject, ahead: int) -> None:
        """More messages are handed to work that goes on, or is long over."""
        batch = self.pick(data)
        known, flight = self.groups[batch.group], self.current(batch)
        position = known.processed + ahead
        if flight is None or position > self.read:
            with pytest.raises((Superseded, InvalidArgument)):
                self.dual.advance_group(batch.group, position, extends=batch)
            return
        self.dual.advance_group(batch.group, position, batch=[position], extends=batch)
        self.counts["extended"] += 1
        known.processed = flight.position = position

    @precondition(lambda self: self.batches)
    @rule(
        data=st.data(),
        verbs=st.lists(st.sampled_from(["output", "commit", "rollback"]), min_size=1, max_size=3),
        undone=st.sampled_from([False, False, True]),
    )
    def act(self, data: st.DataObject, verbs: list[str], undone: bool) -> None:
        """A holder of a batch, stale or not, sends output, ends it, and perhaps does it again."""
        batch = self.pick(data)
        for verb in verbs[:-1]:
            self.act_once(batch, verb, undone=False)
        self.act_once(batch, verbs[-1], undone=undone)

    def act_once(self, batch: DualBatch, verb: str, *, undone: bool) -> None:
        known, flight = self.groups[batch.group], self.current(batch)
        calls: dict[str, Callable[[DualBatch], object]] = {
            "output": self.dual.output_sent,
            "commit": self.dual.commit_group,
            "rollback": self.dual.rollback_group,
        }
        try:
            with self.ow.transaction():
                calls[verb](batch)
                undo(undone)
        except Superseded:
            assert flight is None
            self.counts["stale"] += 1
            return
        except Undone:
            assert flight is not None
            return
        assert flight is not None
        self.counts[verb] += 1
        # A handle speaks only for what it names, and never takes back what was sent.
        upto = max(min(batch.position, flight.position), flight.output or 0)
        if verb == "output":
            flight.output = upto
        elif verb == "commit":
            known.processed, known.flight = upto, None
        else:
            self.end(known)

    def end(self, group: Group) -> None:
        assert group.flight is not None
        self.counts["kept"] += group.flight.output is not None
        group.end()

    @precondition(lambda self: any(group.flight for group in self.groups.values()))
    @rule()
    def crash(self) -> None:
        """The process dies and starts again."""
        self.counts["crash"] += 1
        left = {name for name, group in self.groups.items() if group.flight is not None}
        assert {each.batch.group for each in self.dual.recover()} == left
        for name in left:
            self.end(self.groups[name])

    @invariant()
    def the_store_is_the_model(self) -> None:
        assert self.dual.read == self.read
        for name, group in self.groups.items():
            assert self.dual.processed(name) == group.processed <= self.read
        found = {
            each.group: (each.number, each.previous, each.position, each.output_position)
            for each in self.dual.in_flight()
        }
        assert found == {
            name: (
                each.flight.number,
                each.flight.previous,
                each.flight.position,
                each.flight.output,
            )
            for name, each in self.groups.items()
            if each.flight
        }

    @invariant()
    def nothing_read_is_lost(self) -> None:
        """A message that was read is processed, in flight, or found again."""
        pending = {each.group: each for each in self.dual.pending()}
        for name, group in self.groups.items():
            left = [place for place in group.arrived if group.processed < place <= self.read]
            if left:
                assert pending[name].after < left[0]
                assert left[-1] <= pending[name].upto
            assert (name in pending and pending[name].batch is not None) == bool(group.flight)


@pytest.mark.prove
@pytest.mark.timeout(3600)
def test_a_dual_cursor_follows_the_model(ow: Onceward, prove: bool, soak: bool) -> None:
    """Whatever is called in whatever order, stale batches too, nothing read is ever lost."""
    examples = examples_for(ow, prove=prove, soak=soak, short=50)
    counts: Counter[str] = Counter()
    machine = type("Machine", (Dual,), {"ow": ow, "counts": counts})
    events = ("begun", "extended", "output", "commit", "rollback", "kept", "stale", "crash")
    run_machine(machine, examples=examples, steps=20, counts=counts, must_reach=events)
