"""Oracle: what the store says became of every message, without asking anything that wrote it."""

from collections import Counter
from dataclasses import dataclass, field

from onceward.client import Onceward

#: States of a delivery in which its messages are dealt with, or wait for a person.
FINAL = ("done", "kept", "dead", "dropped")
#: States of a delivery whose replies were possibly never shown.
UNDONE = ("rolled back", "dead", "redriven", "dropped")
#: States of a reply that is shown, or may be.
SEEN = ("sending", "sent", "maybe sent")


@dataclass
class Fates:
    """What became of everything."""

    #: By group and id: done, kept, dead, dropped, in flight, or pending.
    messages: dict[tuple[str, str], str] = field(default_factory=dict)
    #: How many deliveries ended how.
    deliveries: Counter[str] = field(default_factory=Counter)
    #: How many replies are in each state.
    sayings: Counter[str] = field(default_factory=Counter)
    #: How many deliveries a crash left.
    recovered: int = 0


def fates(ow: Onceward) -> Fates:
    """Return what became of every message; AssertionError when one is gone, or done twice."""
    found = Fates()
    processed: dict[str, int] = dict(
        ow.store.select(
            "select group_name, processed_position from onceward_dual_groups"
            " where dual_name = 'dispatch'"
        )
    )
    deliveries = ow.store.select(
        "select group_name, batch_number, state, first_seq, last_seq, error"
        " from dispatch_deliveries order by group_name, batch_number"
    )
    for _, _, state, _, _, error in deliveries:
        found.deliveries[state] += 1
        found.recovered += error == "recovered"
    messages = ow.store.select("select group_name, id, seq from dispatch_messages")
    for group, id_, seq in messages:
        covering = [
            row[2]
            for row in deliveries
            if row[0] == group and row[3] <= seq <= row[4] and row[2] in (*FINAL, "running")
        ]
        is_past = seq <= processed.get(group, 0)
        assert len(covering) == is_past, (group, id_, seq, covering, processed.get(group))
        found.messages[group, id_] = covering[0] if covering else "pending"
    check_sayings(ow, deliveries, found)
    return found


def check_sayings(ow: Onceward, deliveries: list[tuple[object, ...]], found: Fates) -> None:
    """What was taken back was not seen, and what is kept was."""
    sayings = ow.store.select("select group_name, batch_number, state from dispatch_outbox")
    by_delivery: dict[tuple[object, object], Counter[str]] = {}
    for group, number, state in sayings:
        found.sayings[state] += 1
        by_delivery.setdefault((group, number), Counter())[state] += 1
    for group, number, state, first, last, _ in deliveries:
        said = by_delivery.get((group, number), Counter())
        seen = sum(said[each] for each in SEEN)
        if state in UNDONE:
            assert seen == 0, (group, number, state, said)
        if state == "kept":
            assert first <= last, (group, number, first, last)  # type: ignore[operator]
            assert seen + said["pending"] + said["failed"] > 0, (group, number, said)
