"""Dispatching against a model: any order of talking, working, failing, crashing and deciding."""

import logging
from collections import Counter
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from onceward.client import Onceward
from onceward.dispatch.models import DeliveryState, OutboxState, Reply
from onceward.errors import BatchInFlight
from onceward.system import crash_points
from tests.support.dispatch_model import FINAL, GroupModel
from tests.support.dispatch_state_machine import ALL, PLACES, DispatchStateMachine, deaths, places
from tests.support.dispatcher_parts import FakeChannel, ids
from tests.support.proof_length import run_machine
from tests.support.trigger_counts import assert_counts


class Dispatching(DispatchStateMachine):
    """What operators decide on top of it, and what must hold after every step."""

    # --- operators ------------------------------------------------------------------------------

    @rule(place=places, is_redriven=st.booleans(), death=deaths)
    def decide(self, place: str, is_redriven: bool, death: str | None) -> None:
        """A person decides about a dead letter."""
        group = self.groups[place]
        self.touched.add(place)
        if not any(each.state is DeliveryState.DEAD for each in group.records):
            if place not in self.hands:
                self.hand_something(place)
            self.fail(place, 0, None)
        letters = [each for each in self.talk.dead.letters() if each.group == group.name]
        dead = [each for each in group.records if each.state is DeliveryState.DEAD]
        spans = [(each.first, each.last) for each in dead]
        assert sorted((each.first_seq, each.last_seq) for each in letters) == sorted(spans)
        if not dead:
            return
        record = dead[0]
        letter = next(each for each in letters if each.first_seq == record.first)
        if not is_redriven:
            assert self.talk.dead.drop(letter.id)
            record.state = DeliveryState.DROPPED
            self.counts["dropped"] += 1
            return
        expected = [each.id for each in group.between(record.first - 1, record.last)]
        found, happened = self.dying(
            "dispatch.redrive", death, lambda: self.talk.dead.redrive(letter.id)
        )
        if happened:
            assert ids(found) == expected
            places = {each.id: each.seq for each in self.stored(group)}
            numbers = [places[each] for each in expected]
            assert all(each > self.arrived for each in numbers)
            self.arrived = max(self.arrived, *numbers, 0)
            group.redriven(record, numbers)
            self.counts["redriven"] += 1

    @rule(place=places, at=st.integers(0, 5))
    def replay(self, place: str, at: int) -> None:
        """A person wants messages handed out again."""
        group = self.groups[place]
        self.touched.add(place)
        past = [each.seq for each in group.between(0, group.processed)]
        if at >= len(past):
            return
        who: dict[str, Any] = {"reason": "again", "actor": "ann"}
        if group.flight is not None:
            with pytest.raises(BatchInFlight):
                self.talk.operators.replay(group.name, past[at], **who)
            return
        said = self.talk.operators.replay(group.name, past[at], **who)
        assert said.messages == len(past) - at
        group.replayed(past[at] - 1)
        self.counts["replayed"] += 1

    # --- what must hold -------------------------------------------------------------------------

    def stored(self, group: GroupModel) -> list[Any]:
        return self.talk.arrivals.between(group.name, 0, 2**53, 10_000)

    @invariant()
    def the_store_is_the_model(self) -> None:
        assert_counts(self.ow)
        for group in map(self.groups.__getitem__, sorted(self.touched)):
            found = self.talk.operators.deliveries(group.name, 10_000)
            rows = [(e.number, e.state, e.attempt, e.first_seq, e.last_seq) for e in found]
            assert rows[::-1] == [each.row for each in group.records]
            messages = {each.id: (each.seq, each.text) for each in self.stored(group)}
            assert messages == {each.id: (each.seq, each.text) for each in group.messages}
            status = self.talk.operators.status_of(group.name)
            assert (status.processed, status.group.attempts) == (group.processed, group.attempts)
            said = self.ow.store.select(
                "select key, batch_number, position, state from dispatch_outbox"
                " where group_name = ? order by id",
                [group.name],
            )
            assert list(map(tuple, said)) == [each.row for each in group.words]
        self.touched = set()

    def shown(self, place: str) -> list[str]:
        """Return what people see."""
        group, channel = self.groups[place], self.channels[place]
        if isinstance(channel, FakeChannel):
            return channel.texts(group.name)
        return [each.text for each in self.talk.items(group.name) if isinstance(each, Reply)]

    def teardown(self) -> None:
        """Heal, and find every message once."""
        crash_points.arm(None)
        if not hasattr(self, "groups"):
            return
        self.restart()
        self.see()
        for place, group in self.groups.items():
            while group.waiting(self.read):
                self.begin(place, None)
                self.done(place, ALL, None)
            while not group.is_stored and self.send_as(place, "sent"):
                pass
        self.touched = set(PLACES)
        self.the_store_is_the_model()
        for place, group in self.groups.items():
            group.check(self.shown(place))
            for letter in self.talk.dead.letters():
                self.talk.dead.drop(letter.id)  # They are no business of the next example.
            self.counts["kept in the end"] += sum(e.state is FINAL[1] for e in group.records)
            self.counts["maybe sent"] += sum(
                each.state is OutboxState.MAYBE_SENT for each in group.words
            )


@pytest.mark.prove
@pytest.mark.timeout(3600)
def test_dispatching_follows_the_model(
    ow: Onceward, prove: bool, soak: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever happens in whatever order, no message is gone, and no reply is shown twice."""
    caplog.set_level(logging.ERROR, "onceward.dispatch")
    is_quick = ow.store.engine == "sqlite"
    short, full = (600, 10_000) if is_quick else (100, 1_000)
    examples = full if soak else short if prove else short // 15
    counts: Counter[str] = Counter()
    machine = type("Machine", (Dispatching,), {"ow": ow, "counts": counts})
    events = ("begun", "said", "done", "kept", "rolled back", "dead", "extended")
    rare = (
        *("said before", "rest", "redriven", "dropped", "replayed", "died", "crash", "stale"),
        *("edited", "later", "refused", "unknown", "after_mark", "after_send", "maybe sent"),
    )
    run_machine(
        machine,
        examples=examples,
        steps=15,
        counts=counts,
        must_reach=events + rare if prove else events,
        report_multiple_bugs=False,
    )
