"""Dual checks: the state of every message and saying in the store, against what people saw."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.proof.simulation.dual_channels import Wire

if TYPE_CHECKING:
    from tests.proof.simulation.dual import Dual

#: States of a delivery in which its messages are dealt with, or wait for a person.
FINAL = ("done", "kept", "dead", "dropped")


def check_messages_and_sayings(world: Dual) -> None:
    """Find every message in one place, and every saying as people saw it."""
    check_messages(world)
    check_sayings(world)
    for place, times in world.read.items():
        assert times == 1 or "/" not in place[1], f"{place} was read {times} times"


def check_messages(world: Dual) -> None:
    """Each message is in one delivery that counts, or waits to be called for."""
    deliveries = world.stores.rows(
        "select group_name, first_seq, last_seq, state, batch_number from dispatch_deliveries"
    )
    rows = world.stores.rows("select group_name, id, seq from dispatch_messages")
    found = {(group, id_): seq for group, id_, seq in rows}
    assert sorted(found) == sorted(world.messages), f"lost or new: {found} of {world.messages}"
    for (group, id_), seq in found.items():
        over = [
            (state, number)
            for name, first, last, state, number in deliveries
            if name == group and first <= seq <= last and state in FINAL
        ]
        is_past = seq <= world.stood.get(group, 0)
        assert len(over) == is_past, f"{group} {id_} at {seq}: {over}"
        promised = world.done.get((group, id_))
        assert promised is None or over == [("done", promised)], f"{group} {id_}: {over}"
        assert world.read[group, id_], f"{group} {id_} was never read"
        if not is_past:
            world.simulation.sometimes("messages without a trigger wait")
        elif over[0][0] == "dead":
            world.simulation.sometimes("a message was given up")
        world.work += is_past


def check_sayings(world: Dual) -> None:
    """What counts was shown once, what was taken back was not, and all in order."""
    rows = world.stores.rows(
        "select o.key, o.group_name, o.state, d.state from dispatch_outbox as o"
        " join dispatch_deliveries as d"
        " on d.group_name = o.group_name and d.batch_number = o.batch_number order by o.id"
    )
    known = {key for key, *_ in rows}
    lost = [key for key in world.acknowledged if key not in known]
    assert not lost, f"said, and gone: {lost}"
    for key, group, state, ended in rows:
        wire = world.channels[group]
        if isinstance(wire, Wire):
            times = Counter(wire.shown)[key]
            if state == "sent":
                assert times == 1, f"{key} is sent, and was shown {times} times"
            elif state in ("cancelled", "failed"):
                assert times == 0, f"{key} is {state}, and was shown"
            else:
                assert state == "maybe sent", f"{key} ends as {state}"
                world.simulation.sometimes("whether a reply was shown is unknown")
        else:
            assert state == "sent", f"{key} ends as {state}"
            assert world.read[group, key] == 1, f"{key} was read {world.read[group, key]} times"
        assert state != "cancelled" or ended != "done", f"{key} was taken back from what is done"
    for group, wire in world.channels.items():
        # A dispatcher that was frozen on its way to the channel may be late: not preventable.
        if isinstance(wire, Wire) and not world.were_two:
            order = [key for key, name, *_ in rows if name == group and key in wire.shown]
            assert order == wire.shown, f"{group}: shown as {wire.shown}, said as {order}"
