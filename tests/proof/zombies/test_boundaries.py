"""Boundaries: at its last moment something still holds, just after it no more, on both engines.

On SQLite time stands still between two moves, so that the moment itself can be tried. PostgreSQL's
own time runs, so that there a second lies on either side.
"""

from __future__ import annotations

import pytest

from onceward.client import Onceward
from onceward.outcomes import Ambiguous, Expired, Fresh, InFlight, Replay
from onceward.outcomes.models import OnCrash
from onceward.retries import FixedDelays
from onceward.retries.models import Failure, Later, RetryMessage
from onceward.stores.sqlite.store import SqliteStore
from onceward.system import ManualClock
from onceward.testing.moving_time import MovingTime

SECONDS = 3600.0
TOMBSTONE_SECONDS = 30 * 86400.0


class Edge:
    """Moves time to just before a moment, and to just after it."""

    def __init__(self, ow: Onceward, time: MovingTime) -> None:
        # As near as this engine's time can be brought to it.
        self.near = 0.001 if ow.store.engine == "sqlite" else 60.0
        self._time = time

    def before(self, seconds: float) -> None:
        self._time.advance(seconds=seconds - self.near)

    def after(self) -> None:
        self._time.advance(seconds=2 * self.near)


@pytest.fixture
def edge(ow: Onceward, ow_time: MovingTime) -> Edge:
    return Edge(ow, ow_time)


def claim(ow: Onceward, owner: str, on_crash: OnCrash = "ambiguous") -> object:
    return ow.outcomes.claim(
        "s", "k", fingerprint="f", owner=owner, on_crash=on_crash, lease_seconds=SECONDS
    )


def test_a_lease_is_granted_again_after_its_end(ow: Onceward, edge: Edge) -> None:
    """Not before it has expired, and surely then."""
    held = ow.cursors.acquire("c", "one", SECONDS)
    assert held is not None
    edge.before(SECONDS)
    assert ow.cursors.acquire("c", "two", SECONDS) is None
    assert ow.cursors.show("c").is_held
    edge.after()
    assert not ow.cursors.show("c").is_held
    taken = ow.cursors.acquire("c", "two", SECONDS)
    assert taken is not None
    assert taken.epoch == held.epoch + 1


def test_a_renewed_lease_is_as_long_as_a_new_one(ow: Onceward, edge: Edge) -> None:
    """At its last moment it can still be renewed, and then lasts as long again."""
    held = ow.cursors.acquire("c", "one", SECONDS)
    assert held is not None
    edge.before(SECONDS)
    held.renew()
    edge.before(SECONDS)
    assert ow.cursors.acquire("c", "two", SECONDS) is None
    edge.after()
    assert ow.cursors.acquire("c", "two", SECONDS) is not None


@pytest.mark.parametrize("ow_url", ["sqlite"], indirect=True)
def test_at_the_very_moment_a_lease_still_holds(ow: Onceward, ow_time: MovingTime) -> None:
    """A claim at its last moment is refused; a thousandth of a second later, it is not."""
    assert ow.cursors.acquire("c", "one", SECONDS) is not None
    ow_time.advance(seconds=SECONDS)
    assert ow.cursors.acquire("c", "two", SECONDS) is None
    ow_time.advance(seconds=0.001)
    assert ow.cursors.acquire("c", "two", SECONDS) is not None


@pytest.mark.parametrize("on_crash", ["ambiguous", "rerun"])
def test_a_claim_ends_with_its_lease(ow: Onceward, edge: Edge, on_crash: OnCrash) -> None:
    """Until then a worker is at it; then it may be run again, or is ambiguous."""
    assert isinstance(claim(ow, "one", on_crash), Fresh)
    edge.before(SECONDS)
    assert isinstance(claim(ow, "two", on_crash), InFlight)
    edge.after()
    assert isinstance(claim(ow, "two", on_crash), Fresh if on_crash == "rerun" else Ambiguous)


def test_an_outcome_is_kept_as_long_as_was_said(ow: Onceward, edge: Edge) -> None:
    """Replayed until its time is over; then its key is a tombstone for 30 days, and then free."""
    fresh = claim(ow, "one")
    assert isinstance(fresh, Fresh)
    ow.outcomes.finish(fresh.fence, b"1", ttl_seconds=SECONDS)
    edge.before(SECONDS)
    assert isinstance(claim(ow, "two"), Replay)
    edge.after()
    assert isinstance(claim(ow, "two"), Expired)
    edge.before(TOMBSTONE_SECONDS - edge.near)
    assert isinstance(claim(ow, "two"), Expired)
    edge.after()
    assert isinstance(claim(ow, "two"), Fresh)


def test_a_failed_message_is_due_after_its_wait(ow: Onceward, edge: Edge) -> None:
    """Not before, and not later."""
    lease = ow.cursors.acquire("c", "one", 10 * SECONDS)
    assert lease is not None
    message = RetryMessage(cursor="c", position="1", raw=b"1")
    schedule = FixedDelays(seconds=(SECONDS,))
    with ow.transaction() as tx:
        later = ow.retries.attempts.fail(tx, message, Failure.of(ValueError()), schedule=schedule)
    assert isinstance(later, Later)
    edge.before(SECONDS)
    found = ow.retries.attempts.find("c", "1")
    assert found is not None
    assert not found.is_due
    edge.after()
    found = ow.retries.attempts.find("c", "1")
    assert found is not None
    assert found.is_due


@pytest.mark.parametrize("ow_url", ["sqlite"], indirect=True)
def test_a_restart_of_the_machine_frees_what_its_processes_held(ow: Onceward) -> None:
    """No process of before is alive, so leases need not expire; what was kept stays kept."""
    assert isinstance(ow.store, SqliteStore)
    assert isinstance(ow.store.clock, ManualClock)
    held = ow.cursors.acquire("c", "one", SECONDS)
    assert held is not None
    held.checkpoint("7")
    done = claim(ow, "one")
    assert isinstance(done, Fresh)
    ow.outcomes.finish(done.fence, b"1", ttl_seconds=SECONDS)
    running = ow.outcomes.claim("s", "other", fingerprint="f", owner="one", lease_seconds=SECONDS)
    assert isinstance(running, Fresh)
    ow.store.clock.reboot()
    taken = ow.cursors.acquire("c", "two", SECONDS)
    assert taken is not None
    assert (taken.position, taken.epoch) == ("7", held.epoch + 1)
    assert isinstance(claim(ow, "two"), Replay)
    again = ow.outcomes.claim("s", "other", fingerprint="f", owner="two", lease_seconds=SECONDS)
    assert isinstance(again, Ambiguous)
