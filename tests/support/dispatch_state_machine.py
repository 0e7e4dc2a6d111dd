"""Dispatch state machine: hypothesis rules for people, agents, crashes, operators and a model."""

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from onceward.client import Onceward
from onceward.dispatch.channels import Channel, OutboxSender, StoredChannel
from onceward.dispatch.models import Delivery, NewMessage, TriggerKind
from onceward.errors import BatchInFlight, InvalidArgument, OutcomeUnknown, Retryable, Superseded
from onceward.system import crash_points
from tests.support.dispatch_model import GroupModel, Record
from tests.support.dispatcher_parts import FakeChannel, Talk, ids

PLACES = ("near", "keyed", "blind")
#: Equal, earlier, later, of other precisions and zones, and none at all.
TIMES = (
    *("2026-02-06T12:00:00Z", "2026-02-06T12:00:00Z", "2026-02-06T12:00:00.000001Z"),
    *("1999-12-31T23:59:59+14:00", "2100-01-01", "soon", None),
)
#: How a life may end in the middle of a call: before what it does is durable, or after it.
DEATHS = (*[None] * 14, "before_commit", "after_commit")
#: What an agent does, and what is done with it; the first ones more often.
VERBS = (*["send", "say", "follow_up"] * 2, "done", "fail", "fail", "give_back")
#: From this number on, an agent is done with all that it has.
ALL = 6
HOWS = ("sent", "later", "after_mark", "unknown", "after_send", "refused", "sent", "later")
_names = itertools.count(1)
places = st.sampled_from(PLACES)
deaths = st.sampled_from(DEATHS)


class DispatchStateMachine(RuleBasedStateMachine):
    """Three groups on three kinds of channels; what is decided about them comes on top."""

    ow: Onceward
    #: What happened in all examples; a machine that did hardly anything proves nothing.
    counts: Counter[str]

    def __init__(self) -> None:
        super().__init__()
        self.talk = Talk(self.ow)
        self.channels: dict[str, Channel] = {
            "near": StoredChannel(),
            "keyed": FakeChannel(takes_keys=True),
            "blind": FakeChannel(takes_keys=False),
        }
        self.sender = OutboxSender(
            self.talk.outbox, self.talk.groups, self.channels, lambda _: None
        )
        number = next(_names)
        self.groups: dict[str, GroupModel] = {}
        for place, channel in self.channels.items():
            word = "@bot" if place == "keyed" else ""
            kind = TriggerKind.PREFIX if word else TriggerKind.ALWAYS
            name = f"{place}-{number}"
            self.talk.group(name, channel=place, trigger=kind, word=word)
            self.groups[place] = GroupModel(name, channel.is_stored, channel.takes_keys, word)
        self.arrived, self.read = self.talk.operators.positions()
        #: The delivery in flight, by group, and those of before.
        self.hands: dict[str, Delivery] = {}
        self.stale: list[Delivery] = []
        self.texts = itertools.count(1)
        #: Groups that must be compared; all are in the end.
        self.touched: set[str] = set()

    # --- dying ----------------------------------------------------------------------------------

    def dying(self, what: str, death: str | None, call: Callable[[], Any]) -> tuple[Any, bool]:
        """Return what a call gives, and whether it happened; it may die in the middle."""
        if death is None or f"{what}.{death}" not in crash_points.POINTS:
            return call(), True
        crash_points.arm(f"{what}.{death}:1:raise")
        try:
            return call(), True  # It never came so far.
        except crash_points.Crashed:
            self.counts["died"] += 1
            return None, death == "after_commit"
        finally:
            crash_points.arm(None)

    def restart(self) -> None:
        """The dispatcher starts again, and ends what it finds in flight."""
        flying = {each.name for each in self.groups.values() if each.flight is not None}
        found = {record.group for record, _ in self.talk.deliveries.recover()}
        # An example that failed leaves its own.
        assert found & {each.name for each in self.groups.values()} == flying
        self.sender.recover()
        self.stale += self.hands.values()
        self.hands = {}
        for group in self.groups.values():
            group.restarted()
        self.touched = set(PLACES)

    # --- people ---------------------------------------------------------------------------------

    @initialize(count=st.integers(1, 3))
    def begin_chat(self, count: int) -> None:
        """People have said something everywhere, and agents have begun with it."""
        for place, number in itertools.product(PLACES, range(count)):
            self.receive(place, f"m{number}", "@bot go", None, None)
        self.see()
        for place in PLACES:
            self.begin(place, None)

    @rule(
        place=places,
        id_=st.integers(0, 7),
        text=st.sampled_from(["@bot go", "aside", "@bot on"]),
        at=st.sampled_from(TIMES),
        death=deaths,
    )
    def hear(self, place: str, id_: int, text: str, at: str | None, death: str | None) -> None:
        """A person sends a message, sends it again, or changes it."""
        self.receive(place, f"m{id_}", text, at, death)

    def receive(self, place: str, id_: str, text: str, at: str | None, death: str | None) -> None:
        group = self.groups[place]
        self.touched.add(place)
        message = NewMessage(group=group.name, id=id_, sender="ann", text=text, timestamp=at)
        received, happened = self.dying(
            "dispatch.receive", death, lambda: self.talk.arrivals.receive(message)
        )
        if not happened:
            return
        before = next((each for each in group.messages if each.id == id_), None)
        if received is None:  # The channel delivers it again.
            received = self.talk.arrivals.receive(message)
            assert received.fate == "known"
        elif before is None:
            assert received.fate == "new"
        else:
            assert received.fate in ("known", "edited")
            assert received.fate == "edited" or before.text == text
            self.counts[received.fate] += 1
        if before is None:
            assert received.seq > self.arrived
        else:
            assert received.seq == before.seq
        self.arrived = max(self.arrived, received.seq)
        group.heard(id_, text, received.seq)

    @rule()
    def see(self) -> None:
        """The dispatcher looks."""
        came = self.talk.arrivals.see()
        new = {g.name for g in self.groups.values() for m in g.messages if m.seq > self.read}
        assert set(came) == new
        numbers = [each.seq for group in self.groups.values() for each in group.messages]
        self.read = max(self.read, *numbers, 0)

    # --- agents ---------------------------------------------------------------------------------

    @rule(
        place=places,
        steps=st.lists(
            st.tuples(st.sampled_from(VERBS), st.integers(0, 7), deaths), min_size=2, max_size=8
        ),
    )
    def work(self, place: str, steps: list[tuple[str, int, str | None]]) -> None:
        """An agent of a group takes one step after the other, with crashes in between."""
        self.touched.add(place)
        for verb, number, death in steps:
            if place not in self.hands:
                self.hand_something(place)
            getattr(self, verb)(place, number, death)

    def hand_something(self, place: str) -> None:
        if not self.groups[place].waiting(self.read):
            for _ in range(2):
                self.receive(place, f"n{next(self.texts)}", "@bot go", None, None)
            self.see()
        self.begin(place, None)

    def begin(self, place: str, death: str | None) -> None:
        group = self.groups[place]
        waiting = group.waiting(self.read)
        if group.flight is not None and waiting:
            with pytest.raises(BatchInFlight):
                self.talk.begin(group.name)
            return
        delivery, happened = self.dying(
            "dispatch.begin", death, lambda: self.talk.begin(group.name)
        )
        if happened and waiting:
            record = group.begin(waiting)
            self.counts["begun"] += 1
            if delivery is not None:
                assert sorted(ids(delivery)) == sorted(each.id for each in waiting)
                assert delivery.batch.position == record.last
                self.hands[place] = delivery
        else:
            assert delivery is None
        if death is not None:
            self.restart()

    def hand(self, place: str) -> tuple[GroupModel, Record, Delivery]:
        """Return what an agent has in hand."""
        group = self.groups[place]
        assert group.flight is not None
        return group, group.flight, self.hands[place]

    def follow_up(self, place: str, number: int, death: str | None) -> None:
        """What people said meanwhile, or something new, is handed to the same agent."""
        group, flight, delivery = self.hand(place)
        if number % 2:
            self.receive(place, f"n{next(self.texts)}", "@bot and", None, None)
            self.see()
        waiting = group.waiting(self.read)
        shown = self.talk.groups.show(group.name)
        extended, happened = self.dying(
            "dispatch.extend", death, lambda: self.talk.deliveries.extend(delivery, shown)
        )
        if happened and waiting:
            group.extend(flight, waiting[-1].seq)
            self.counts["extended"] += 1
        if extended is not None:
            assert sorted(ids(extended)) == sorted(each.id for each in waiting)
            self.hands[place] = extended
        if death is not None:
            self.restart()

    def say(self, place: str, number: int, death: str | None) -> None:
        """An agent says something, of all that it has in hand or of the first part."""
        group, flight, delivery = self.hand(place)
        text = f"text {next(self.texts)}"
        name = f"{group.name}/{('a', 'b')[number % 2] if number < 3 else text}"
        upto = {0: flight.first, 3: flight.first, 7: flight.previous}.get(number)
        added, happened = self.dying(
            "dispatch.said",
            death,
            lambda: self.talk.outbox.add(
                delivery, text, key=name, is_stored=group.is_stored, upto=upto
            ),
        )
        if happened:
            is_new = group.say(flight, name, text, upto, is_over=False)
            assert added in (None, is_new)
            self.counts["said" if is_new else "said before"] += 1
        if death is not None:
            self.restart()

    def done(self, place: str, number: int, death: str | None) -> None:
        """An agent has finished all of it, or some, and perhaps adds a word."""
        group, flight, delivery = self.hand(place)
        numbers = [each.seq for each in group.between(flight.previous, flight.last)]
        upto = numbers[number % len(numbers)] if number < ALL and numbers else flight.last
        rest, happened = self.dying(
            "dispatch.done", death, lambda: self.talk.deliveries.done(delivery, upto)
        )
        if happened:
            expected = group.done(flight, upto)
            self.counts["done"] += 1
            del self.hands[place]
            if expected is not None:
                self.counts["rest"] += 1
                assert rest is not None or death is not None
            if rest is not None:
                self.hands[place] = rest
            elif number == ALL and expected is None and death is None:
                self.say_late(group, flight, delivery)
        if death is not None:
            self.restart()

    def say_late(self, group: GroupModel, record: Record, delivery: Delivery) -> None:
        number = next(self.texts)
        text, name = f"text {number}", f"{group.name}/{number}"
        options = {"is_stored": group.is_stored, "is_over": True}
        assert self.talk.outbox.add(delivery, text, key=name, **options)
        group.say(record, name, text, delivery.batch.position, is_over=True)

    def fail(self, place: str, number: int, death: str | None) -> None:
        """An agent fails, in a way that may pass or not."""
        group, flight, delivery = self.hand(place)
        is_final = number < 3
        ending, happened = self.dying(
            "dispatch.fail",
            death,
            lambda: self.talk.deliveries.failed(delivery, "failed", is_final=is_final),
        )
        if happened:
            state = group.failed(flight, is_final=is_final)
            assert ending is None or ending.state is state
            self.counts[str(state)] += 1
            self.stale.append(self.hands.pop(place))
        if death is not None:
            self.restart()

    def give_back(self, place: str, *_: object) -> None:
        """The dispatcher ends an agent that has done nothing wrong."""
        group, flight, delivery = self.hand(place)
        assert self.talk.deliveries.returned(delivery).state is group.back(flight)
        self.stale.append(self.hands.pop(place))

    @precondition(lambda self: self.hands)
    @rule()
    def crash(self) -> None:
        """The dispatcher dies, between two calls."""
        self.counts["crash"] += 1
        self.restart()

    @precondition(lambda self: self.stale)
    @rule(data=st.data())
    def awake(self, data: st.DataObject) -> None:
        """An agent that was replaced tries to go on."""
        delivery = data.draw(st.sampled_from(self.stale))
        calls: list[Callable[[], object]] = [
            lambda: self.talk.say(delivery, "never", is_stored=delivery.group[:4] == "near"),
            lambda: self.talk.done(delivery),
            lambda: self.talk.failed(delivery),
            lambda: self.talk.deliveries.returned(delivery),
        ]
        with pytest.raises(Superseded):
            data.draw(st.sampled_from(calls))()
        self.counts["stale"] += 1

    # --- the way out ----------------------------------------------------------------------------

    def send(self, place: str, number: int, _: object) -> None:
        """What is next in a group is sent, and the channel takes it as it takes it."""
        if self.groups[place].head() is None:
            self.say(place, number, None)
        if place != "near":
            self.send_as(place, HOWS[number])

    def send_as(self, place: str, how: str) -> bool:
        group, channel = self.groups[place], self.channels[place]
        assert isinstance(channel, FakeChannel)
        saying = next((s for s in self.talk.outbox.next_unsent() if s.group == group.name), None)
        word = group.head()
        assert getattr(saying, "key", None) == getattr(word, "key", None)
        if saying is None or word is None:
            return False
        errors = {"later": Retryable("busy"), "refused": InvalidArgument("no")}
        channel.plan = [(errors.get(how), how not in errors)]
        if how == "unknown":
            channel.plan = [(OutcomeUnknown("?"), True)]
        group.sending(word)
        self.counts[how] += 1
        if how in ("after_mark", "after_send"):
            crash_points.arm(f"dispatch.send.{how}:1:raise")
        try:
            self.sender._send(saying)
            group.tried(word, how)
        except crash_points.Crashed:
            crash_points.arm(None)
            self.restart()
        finally:
            crash_points.arm(None)
            channel.plan = []
        return True
