"""Dual: messages of several groups, dispatchers that take over from each other, agents that fail.

People talk, and may say a thing twice. Dispatchers hand it to agents and send what those say to
channels: one that is read from the store, one that takes keys, one that takes everything. What
people have seen is kept outside, and so is what agents said they have done.
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from onceward.dispatch.channels import Channel, StoredChannel
from onceward.dispatch.groups import Groups
from onceward.dispatch.inbox import Inbox
from onceward.dispatch.models import Delivery, Group, NewMessage, Reply, TriggerKind
from onceward.errors import DeadLetterMissing, OutcomeUnknown, StoreBusy
from tests.proof.simulation.campaign import World
from tests.proof.simulation.dual_channels import Wire
from tests.proof.simulation.dual_checks import check_messages_and_sayings
from tests.proof.simulation.dual_dispatcher import Dispatching
from tests.proof.simulation.manual_heartbeat import silence_logger
from tests.proof.simulation.scheduler import Process, Simulation
from tests.proof.simulation.simulated_stores import SimulatedStores

#: When people say they spoke: equal, early, late, or never; nothing may hang on it.
TIMES = ("2026-02-06T12:00:00Z", "2026-02-06T12:00:00Z", "1999-12-31T23:59:59Z", "2100-01-01", None)


class Dual(World):
    """Up to three groups, each on a channel of its own."""

    name = "dual"
    claims = ("X1", "X2", "X3", "X4")
    sometimes = (
        "a message came twice",
        "a follow-up was handed over in flight",
        "rolled back before output",
        "kept after output",
        "a reply was taken back",
        "a part of a batch was done",
        "a batch was found in flight after a crash",
        "a dispatcher that lived was taken over from",
        "a late dispatcher was refused",
        "the end of a delivery was unknown",
        "a reply was sent again under its key",
        "whether a reply was shown is unknown",
        "a message was given up",
        "a dead letter was redriven",
        "killed between sending and noting it",
        "killed with an arrival number drawn",
        "messages without a trigger wait",
    )

    #: Waits between tries go by wall clocks, which may differ by two hours here; the rest is ours.
    settle_seconds_max = 2 * 3600.0 + 1800.0
    #: Which groups there may be, each on the channel of its name.
    mixes: ClassVar[tuple[tuple[str, ...], ...]] = (
        *(("blind",), ("keyed",), ("near", "blind"), ("keyed", "blind")),
        ("near", "keyed", "blind"),
    )
    #: How long the dispatcher's lease may be.
    leases: ClassVar[tuple[float, ...]] = (10.0, 60.0)
    #: How often wires may be out of order, and how slow they may be.
    troubles: ClassVar[tuple[float, ...]] = (0.1, 0.25, 0.6)
    slowness: ClassVar[tuple[int, ...]] = (1, 2, 6)

    def __init__(self, simulation: Simulation, stores: SimulatedStores) -> None:
        super().__init__(simulation, stores)
        silence_logger("onceward.dispatch")
        self.random = chance = simulation.random
        self.channels: dict[str, Channel] = {
            "near": StoredChannel(),
            "keyed": Wire(self, takes_keys=True),
            "blind": Wire(self, takes_keys=False),
        }
        self.groups = chance.choice(self.mixes)
        self.lease_seconds, self.looks = chance.choice(self.leases), chance.choice((0.05, 0.3))
        self.trouble, self.slow = chance.choice(self.troubles), chance.choice(self.slowness)
        self.knobs = {"lease": self.lease_seconds, "looks": self.looks, "groups": self.groups}
        self.knobs |= {"trouble": self.trouble, "slow": self.slow}
        #: Which life of which process takes itself for the dispatcher.
        self.holder: tuple[Process, int] | None = None
        self.were_two = False
        #: What a saying is about, and what is known to be said.
        self.covers: dict[str, list[str]] = {}
        self.acknowledged: list[str] = []
        #: By group and id of a message, the number of the last batch that it was handed out in,
        #: of the first of which people saw a saying about it, and of the one in which it was done.
        self.out: dict[tuple[str, str], int] = {}
        self.seen: dict[tuple[str, str], int] = {}
        self.done: dict[tuple[str, str], int] = {}
        #: What a reader of each group has read, and how far.
        self.places = dict.fromkeys(self.groups, 0)
        self.read: Counter[tuple[str, str]] = Counter()
        #: Where cursors stood after the last commit.
        self.stood: dict[str, int] = {}
        self.last_move = 0
        self.arrived = 0
        self._is_quiet: bool | None = None
        messages = [
            self._message(number) for number in range(2 + self.simulation.options.fault_steps // 70)
        ]
        self.messages = [(each.group, each.id) for each in messages]
        #: What each person has yet to say; some is said by two.
        self.plans = {
            name: [each for each in messages if chance.random() < 0.6] for name in ("ann", "bob")
        }
        said = {id(each) for plan in self.plans.values() for each in plan}
        self.plans["ann"] += [each for each in messages if id(each) not in said]
        self.people = [simulation.add(name, self.talk) for name in self.plans]
        self.operator = simulation.add("operator", self.operate)
        simulation.add("reader", self.watch)
        for number in range(2):
            simulation.add(f"d{number}", self.dispatch)
        groups = Groups(stores.handle(self.operator).store)
        for place in self.groups:
            kind = TriggerKind.PREFIX if place == "keyed" else TriggerKind.ALWAYS
            groups.add(Group(name=place, channel=place, command=("x",), trigger=kind, word="@"))

    def _message(self, number: int) -> NewMessage:
        text = self.random.choice(("@ do", "@ do", "aside"))
        group, at = self.random.choice(self.groups), self.random.choice(TIMES)
        return NewMessage(group=group, id=f"m{number}", sender="ann", text=text, timestamp=at)

    # --- processes ----------------------------------------------------------------------------

    def talk(self, process: Process) -> None:
        arrivals = Inbox(self.stores.handle(process).store)
        plan = self.plans[process.name]
        while plan:
            self.simulation.sleep(
                self.random.uniform(0.1, 15 + 10 * self.simulation.options.step_seconds)
            )
            try:
                received = arrivals.receive(plan[0])
            except (StoreBusy, OutcomeUnknown):
                continue
            if received.fate == "known":
                self.simulation.sometimes("a message came twice")
            if self.random.random() < 0.9:
                plan.pop(0)

    def watch(self, process: Process) -> None:
        arrivals = Inbox(self.stores.handle(process).store)
        while True:
            self.simulation.sleep(self.random.uniform(20, 200))
            for group, after in self.places.items():
                limit = self.random.choice((1, 2, 200))
                items, place = arrivals.conversation(group, after, limit)
                for item in items:
                    key = item.key if isinstance(item, Reply) else item.id
                    self.read[group, key] += 1
                    if isinstance(item, Reply):
                        self.shown(key)
                assert place >= after, f"{group}: read back to {place} from {after}"
                self.places[group] = place

    def operate(self, process: Process) -> None:
        ow = self.stores.handle(process)
        while True:
            self.simulation.sleep(self.random.uniform(20, 200))
            try:
                for letter in ow.dead.list(source="chat")[::-1]:
                    if self.random.random() < 0.7 and not self.simulation.is_healed:
                        ow.dead.redrive(letter.id, actor="op")
                        self.simulation.sometimes("a dead letter was redriven")
                    elif self.random.random() < 0.2:
                        ow.dead.drop(letter.id, actor="op", reason="enough")
            except (StoreBusy, OutcomeUnknown, DeadLetterMissing):
                pass

    def dispatch(self, process: Process) -> None:
        Dispatching(self, process, self.channels).live()

    # --- reported by them -------------------------------------------------------------------------

    def holds(self, process: Process) -> bool:
        """Note who is the dispatcher now; says whether another one takes itself for it, too."""
        before, self.holder = self.holder, (process, process.life)
        if before is None or before[0] is process:
            return False
        other, life = before
        is_alive = other.life == life and other._run is not None
        self.were_two = self.were_two or is_alive
        return is_alive

    def handed(self, delivery: Delivery) -> None:
        """Keep what is handed out; a dispatcher that was frozen meanwhile reports late."""
        number = delivery.batch.number
        for message in delivery.messages:
            place = (delivery.group, message.id)
            self.out[place] = max(number, self.out.get(place, 0))
            self.check_once(place)

    def check_once(self, place: tuple[str, str]) -> None:
        """See that nothing is handed out of which people have seen an answer, or that is done."""
        out = self.out.get(place, 0)
        for what, number in (("answered", self.seen.get(place)), ("done", self.done.get(place))):
            is_over = number is not None and number < out
            assert not is_over, f"{place} was {what} in {number}, and is handed out in {out}"

    def about_to_say(self, key: str, covered: list[str]) -> None:
        """Keep what a saying is about."""
        self.covers[key] = covered

    def said(self, key: str) -> None:
        """Keep that a saying is known to be kept."""
        self.acknowledged.append(key)

    def shown(self, key: str) -> None:
        """Let people see a saying."""
        group, number, _ = key.split("/")
        for each in self.covers[key]:
            place = (group, each)
            self.seen[place] = min(int(number), self.seen.get(place, int(number)))
            self.check_once(place)

    def finished(self, delivery: Delivery, ids: list[str]) -> None:
        """Keep what an agent knows to be done."""
        for each in ids:
            place = (delivery.group, each)
            assert place not in self.done, f"{place} is done twice"
            self.done[place] = delivery.batch.number
            self.check_once(place)

    # --- what must hold -----------------------------------------------------------------------

    def after_commit(self) -> None:
        """See no cursor go back, unless that is recorded."""
        self._is_quiet = None
        rows = self.stores.rows(
            "select group_name, processed_position from onceward_dual_groups"
            " union all select '', read_position from onceward_dual_reads"
        )
        for name, position in rows:
            stood, self.stood[name] = self.stood.get(name, 0), position
            if position < stood:
                moves = self.stores.rows(
                    "select id, to_position from cursor_history where kind = 'rollback'"
                    " and id > ? and cursor_name = ?",
                    self.last_move,
                    f"dispatch/{name}",
                )
                # What is given up in part goes back whole, and then onward over that part.
                is_recorded = moves and int(moves[-1][1]) <= position
                assert is_recorded, f"{name or 'read'} went back from {stood} to {position}"
                self.last_move = moves[-1][0]

    def is_settled(self) -> bool:
        if not all(each.is_done for each in self.people):
            return False
        if self._is_quiet is None:
            ((self.arrived, is_open),) = self.stores.rows(
                "select (select coalesce(max(last_sequence), 0) from onceward_dual_counters),"
                " exists (select 1 from dispatch_deliveries where state = 'running') or exists"
                " (select 1 from dispatch_outbox where state in ('pending', 'sending'))"
                " or exists (select 1 from dispatch_groups where called_seq > coalesce((select"
                " processed_position from onceward_dual_groups where group_name = name), 0))"
            )
            self._is_quiet = not is_open
        return self._is_quiet and min(self.places.values()) >= self.arrived

    def check(self) -> None:
        """See what became of every message, and of every saying."""
        check_messages_and_sayings(self)
        killed = self.simulation.killed_at
        for point, entry in (
            ("channel.after", "killed between sending and noting it"),
            ("dispatch.send.after_send", "killed between sending and noting it"),
            ("dual.sequence.after_draw", "killed with an arrival number drawn"),
        ):
            if killed[point]:
                self.simulation.sometimes(entry)
