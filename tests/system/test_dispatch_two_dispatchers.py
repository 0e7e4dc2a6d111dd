"""Two dispatchers over one store that cannot see each other's processes, for a while."""

import time
from functools import partial
from pathlib import Path

import pytest

from onceward.dispatch.models import LEASE, DeliveryState
from tests.support import namespaces
from tests.support.dispatch_store import World, chat, lines
from tests.support.evidence import Entry, Evidence
from tests.support.waiting import until

__all__ = ["chat"]

GROUPS = ("north", "south", "east")
#: How long an agent works on a message: at most looks of the neighbour the holder is busy.
WORK_SECONDS = 0.4
PLACES = {"pid namespace": namespaces.pid_namespace, "hidepid": namespaces.hidepid}


class Traffic:
    """Messages that arrive one after another, each when those before it are answered."""

    def __init__(self, chat: World) -> None:
        self._chat = chat
        self.places: dict[str, Path] = {name: chat.group(name) for name in GROUPS}
        self.rounds = 0

    def round(self) -> None:
        """Tell every group something, and wait for the answers."""
        self.rounds += 1
        for name in GROUPS:
            order = f"!sleep {WORK_SECONDS}; say {self.rounds}"
            self._chat.tell(order, str(self.rounds), group=name)
        for name in GROUPS:
            expected = [str(number) for number in range(1, self.rounds + 1)]
            self._chat.answered(*expected, group=name)

    def check(self) -> None:
        """See that every message was worked on once and answered once."""
        expected = [str(number) for number in range(1, self.rounds + 1)]
        for name, place in self.places.items():
            assert self._chat.replies(name) == expected
            assert lines(place / "begun") == expected
            # A reply is seen a moment before its agent says that it is done.
            until(partial(self._chat.is_idle, name), partial(self._chat.summary, name))
            assert set(self._chat.states(name)) == {DeliveryState.DONE}


@pytest.mark.prove
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("place", list(PLACES))
@pytest.mark.usefixtures("elsewhere")
def test_h69_no_live_lease_is_taken_and_every_message_is_answered_once(
    chat: World, place: str, prove: bool, evidence: Evidence
) -> None:
    """Both look for the lease in turns; only the death of its holder lets it change hands."""
    seconds, looks_min = (60.0, 30) if prove else (0.0, 3)
    looks = chat.place / "looks of the neighbour"
    traffic = Traffic(chat)
    first = chat.life(namespaces.pid_namespace(first_pid=200) if place == "pid namespace" else ())
    granted = chat.ow.cursors.show(LEASE)
    chat.neighbour(looks, PLACES[place]())
    until_at = time.monotonic() + seconds
    while time.monotonic() < until_at or len(lines(looks)) < looks_min:
        traffic.round()
        now = chat.ow.cursors.show(LEASE)
        assert (now.lease_owner, now.epoch) == (granted.lease_owner, granted.epoch)
    assert set(lines(looks)) == {"held"}
    traffic.check()
    held = len(lines(looks))
    if prove:
        # What holds is not that a lease is never taken: the neighbour goes on when it is due.
        first.kill()
        first.wait()
        traffic.round()
        traffic.check()
        assert chat.ow.cursors.show(LEASE).lease_owner != granted.lease_owner
    evidence.record(
        Entry(
            campaign=f"two dispatchers that cannot see each other: {place}",
            layer="neighbours",
            claims=("X1", "X3", "X4"),
            engine=chat.ow.store.engine,
            schedules=1,
            faults={"look at a live lease": held},
            work=traffic.rounds * len(GROUPS),
        )
    )
