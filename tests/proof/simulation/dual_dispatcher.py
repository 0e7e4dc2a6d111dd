"""Dual dispatcher: one process of a dispatcher, with agents that do as the seed says.

The dispatcher's own loop is threads around processes, which no seed would govern. Here its parts,
all of them the production ones, are called in the same order from one place: take the lease, end
what was left, see, hand out, hear, send. An agent is whatever chance lets it say and do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from onceward.cursors import Lease
from onceward.dispatch.channels import Channel, OutboxSender
from onceward.dispatch.deliveries import Deliveries
from onceward.dispatch.groups import Groups
from onceward.dispatch.inbox import Inbox
from onceward.dispatch.models import DUAL, LEASE, Delivery, DeliveryState, Group
from onceward.dispatch.outbox import Outbox
from onceward.errors import LeaseLost, OncewardError, OutcomeUnknown, StoreBusy, Superseded
from onceward.retries.call_retry import retrying
from onceward.retries.retry_schedule import FixedDelays
from tests.proof.simulation.scheduler import Process

if TYPE_CHECKING:
    from tests.proof.simulation.dual import Dual

#: Waits before messages, and replies, are tried again; then they are given up.
WAITS = FixedDelays(seconds=(5.0, 20.0))
#: How long to leave a group alone whose delivery has an unknown end.
STRAY_SECONDS = 1.0


@dataclass
class Hand:
    """An agent at work: what it holds, and what it has said."""

    group: Group
    delivery: Delivery
    #: Ids and places of everything it holds.
    holds: dict[str, int]
    #: How far it looks at that; None: to the end.
    upto: int | None = None
    said: int = 0


@dataclass
class Life:
    """What a dispatcher remembers until it dies."""

    hands: dict[str, Hand] = field(default_factory=dict)
    #: Groups to look at, now or at a later time.
    dirty: set[str] = field(default_factory=set)
    due: dict[str, float] = field(default_factory=dict)
    #: Groups whose delivery has an unknown end, and when to look that up.
    strays: dict[str, float] = field(default_factory=dict)
    #: Whether something may have been seen and forgotten.
    is_incomplete: bool = True


class Dispatching:
    """One process that wants to be the dispatcher."""

    def __init__(self, world: Dual, process: Process, channels: Mapping[str, Channel]) -> None:
        self.world, self.process, self.channels = world, process, channels
        self.simulation, self.random = process.simulation, process.simulation.random
        ow = self.ow = world.stores.handle(process)
        chance = ow.cursors._randomness
        self.groups, self.arrivals = Groups(ow.store), Inbox(ow.store)
        self.deliveries = Deliveries(ow.store, schedule=WAITS, randomness=chance)
        self.outbox = Outbox(ow.store, schedule=WAITS, randomness=chance)
        self.sender = OutboxSender(self.outbox, self.groups, channels, lambda _: None)
        # As a run does it: a store that is away is waited for, and a saying may be said twice.
        clock = world.stores.clock
        patient = retrying(clock=clock, randomness=chance)
        self.begin, self.extend = patient(self.deliveries.begin), patient(self.deliveries.extend)
        self.done, self.failed = patient(self.deliveries.done), patient(self.deliveries.failed)
        self.returned = patient(self.deliveries.returned)
        insistent = retrying(on=(OutcomeUnknown,), clock=clock, randomness=chance)
        self.say = insistent(self.outbox.add)

    def live(self) -> None:
        """Try to be the dispatcher, again and again."""
        while True:
            try:
                lease = self.ow.cursors.acquire(LEASE, self.process.id, self.world.lease_seconds)
                if lease is not None:
                    self.hold(lease)
            except (LeaseLost, Superseded, StoreBusy, OutcomeUnknown):
                pass  # Also when a late dispatcher has ended what we would recover.
            self.simulation.sleep(self.random.uniform(5, 60))

    def hold(self, lease: Lease) -> None:
        """Be the dispatcher until another process is."""
        if self.world.holds(self.process):
            self.simulation.sometimes("a dispatcher that lived was taken over from")
        if self.deliveries.recover():
            self.simulation.sometimes("a batch was found in flight after a crash")
        self.sender.recover()
        self.arrivals.see()
        life = Life()
        while True:
            try:
                if self.random.random() < (0.3 if self.simulation.is_healed else self.world.looks):
                    lease.renew()
                self.round(life)
            except LeaseLost:
                self.stop(life)
                raise
            except (StoreBusy, OutcomeUnknown, Superseded):
                life.is_incomplete = True
            self.simulation.sleep(self.random.uniform(0.1, 4.0 if life.hands else self.idle()))

    def idle(self) -> float:
        """Return how long to do nothing at most; a world that is well needs fewer looks."""
        return 120.0 if self.simulation.is_healed else 30.0

    def stop(self, life: Life) -> None:
        """End all agents; what they have not finished is given back, if it is ours to give."""
        for hand in life.hands.values():
            try:
                self.returned(hand.delivery)
            except Superseded:
                self.simulation.sometimes("a late dispatcher was refused")

    def round(self, life: Life) -> None:
        """Do what there is to do."""
        if life.is_incomplete:
            life.dirty |= {each.group for each in self.ow.dual(DUAL).pending()}
            life.is_incomplete = False
        life.dirty |= set(self.arrivals.see())
        now = self.simulation.now
        for name in [each for each, at in life.strays.items() if at <= now]:
            if name not in life.hands:
                self.deliveries.recover(name)
            del life.strays[name]
            life.dirty.add(name)
        for name in [each for each, at in life.due.items() if at <= now]:
            del life.due[name]
            life.dirty.add(name)
        for name in sorted(life.dirty - life.hands.keys()):
            self.hand_out(life, name)
        for name in list(life.hands):
            self.watched(life, name, self.act)
        if self.random.random() < 0.7:
            self.sender.send_due()

    def hand_out(self, life: Life, name: str) -> None:
        group = self.groups.show(name)
        life.dirty.discard(name)
        if not self.deliveries.is_waiting(group):
            return
        if group.wait_seconds > 0:
            life.due[name] = self.simulation.now + group.wait_seconds
            return
        try:
            delivery = self.begin(group)
        except OncewardError:
            # It may be in flight: an earlier try of ours, this one, or another dispatcher's.
            life.strays[name] = self.simulation.now + STRAY_SECONDS
            return
        if delivery is None:
            return
        self.world.handed(delivery)
        holds = {each.id: each.seq for each in delivery.messages}
        hand = life.hands[name] = Hand(group, delivery, holds)
        if len(holds) > 1 and self.random.random() < 0.2:
            hand.upto = self.random.choice(sorted(holds.values())[:-1])

    def watched(self, life: Life, name: str, act: Callable[[Hand], Hand | None]) -> None:
        """Let an agent do something; what that leaves open is looked up later."""
        hand = life.hands.pop(name)
        life.dirty.add(name)
        try:
            left = act(hand)
        except Superseded:
            self.simulation.sometimes("a late dispatcher was refused")
        except OncewardError:
            self.simulation.sometimes("the end of a delivery was unknown")
            life.strays[name] = self.simulation.now + STRAY_SECONDS
        else:
            if left is not None:
                life.hands[name] = left

    # --- what agents do -----------------------------------------------------------------------

    def act(self, hand: Hand) -> Hand | None:
        """Do the next thing; None when the agent has ended."""
        chance = self.random.random()
        if chance < 0.4:
            self.speak(hand)
        elif chance < 0.5:
            return self.follow_up(hand)
        elif chance < 0.6:
            self.fail(hand)
            return None
        elif chance < 0.63:
            self.returned(hand.delivery)
            return None
        elif chance < 0.85:
            return self.finish(hand)
        return hand

    def speak(self, hand: Hand) -> None:
        hand.said += 1
        batch, upto = hand.delivery.batch, hand.upto
        key = f"{hand.group.name}/{batch.number}/{hand.said}"
        reached = batch.position if upto is None else upto
        covered = [each for each, seq in hand.holds.items() if seq <= reached]
        self.world.about_to_say(key, covered)
        is_stored = self.channels[hand.group.channel].is_stored
        self.say(hand.delivery, key, key=key, is_stored=is_stored, upto=upto)
        self.world.said(key)

    def follow_up(self, hand: Hand) -> Hand:
        extended = self.extend(hand.delivery, hand.group)
        if extended is not None:
            self.simulation.sometimes("a follow-up was handed over in flight")
            self.world.handed(extended)
            hand.delivery = extended
            hand.holds |= {each.id: each.seq for each in extended.messages}
        return hand

    def finish(self, hand: Hand) -> Hand | None:
        upto = hand.delivery.batch.position if hand.upto is None else hand.upto
        ids = [each for each, seq in hand.holds.items() if seq <= upto]
        rest = self.done(hand.delivery, upto)
        self.world.finished(hand.delivery, ids)
        if rest is None:
            return None
        self.simulation.sometimes("a part of a batch was done")
        holds = {each.id: each.seq for each in rest.messages}
        return Hand(hand.group, rest, holds, said=hand.said)

    def fail(self, hand: Hand) -> None:
        is_final = self.random.random() < 0.25
        ending = self.failed(hand.delivery, "no luck", is_final=is_final, upto=hand.upto)
        if ending.state is DeliveryState.KEPT:
            self.simulation.sometimes("kept after output")
        elif ending.state is DeliveryState.ROLLED_BACK:
            self.simulation.sometimes("rolled back before output")
        if ending.cancelled:
            self.simulation.sometimes("a reply was taken back")
