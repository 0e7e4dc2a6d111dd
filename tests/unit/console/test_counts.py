"""The counts beside the names of pages: counted in the background, never during a request."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from onceward.client import Onceward
from onceward.console.counts import CountSampler
from onceward.console.counts_http import counts_router
from onceward.errors import StoreUnavailable
from onceward.outcomes import Fresh
from onceward.retries import Failure, RetryMessage
from onceward.system import ManualClock, SystemClock
from onceward.testing.moving_time import MovingTime
from tests.support.console_requests import Asking
from tests.support.waiting import until


def fill(ow: Onceward) -> None:
    failure = Failure(type="ValueError", message="no")
    with ow.transaction() as tx:
        for position in ("1", "2"):
            ow.dead.add(tx, RetryMessage(cursor="c", position=position, raw=b""), failure)
        message = RetryMessage(cursor="c", position="3", raw=b"", key="k")
        ow.retries.parked.park(tx, message, failure=failure)
    for key in ("running", "doubted", "done"):
        fresh = ow.outcomes.claim("s", key, fingerprint="f", owner="w")
        assert isinstance(fresh, Fresh)
        if key == "doubted":
            ow.outcomes.mark_ambiguous(fresh.fence, ValueError("?"))
        if key == "done":
            ow.outcomes.finish(fresh.fence, b"1")


@contextmanager
def started(counts_sampler: CountSampler) -> Iterator[None]:
    counts_sampler.start()
    try:
        yield
    finally:
        counts_sampler.stop()


def test_everything_is_counted(ow: Onceward, ow_time: MovingTime) -> None:
    """Dead, running, ambiguous, parked; what fell silent counts as ambiguous."""
    fill(ow)
    counts_sampler = CountSampler(lambda: ow, clock=SystemClock())
    assert counts_sampler.counts().as_of is None
    counts_sampler.count()
    counts = counts_sampler.counts()
    assert (counts.dead, counts.running, counts.ambiguous) == (2, 1, 1)
    assert (counts.parked, counts.alerts, counts.conversations_dead) == (1, 0, 0)
    ow_time.advance(seconds=61)
    counts_sampler.count()
    assert (counts_sampler.counts().running, counts_sampler.counts().ambiguous) == (0, 2)


def test_a_store_that_is_away_leaves_the_old_counts(ow: Onceward) -> None:
    """They stay, and say from when they are; once it is back they go on."""
    fill(ow)
    is_away = False

    def opened() -> Onceward:
        if is_away:
            raise StoreUnavailable
        return ow

    clock = ManualClock()
    counts_sampler = CountSampler(opened, clock=clock)
    counts_sampler.count()
    first = counts_sampler.counts()
    is_away = True
    clock.advance(seconds=10)
    counts_sampler.count()
    assert counts_sampler.counts() == first
    is_away = False
    counts_sampler.count()
    assert (counts_sampler.counts().as_of or "") > (first.as_of or "")


def test_it_counts_by_itself_until_it_is_stopped(ow: Onceward) -> None:
    """Started, it counts at once; stopped, its thread ends, and stopping again is fine."""
    counts_sampler = CountSampler(lambda: ow)
    with started(counts_sampler):
        counts_sampler.start()
        until(lambda: counts_sampler.counts().as_of is not None)
        assert sum(each.name == "onceward-counts_sampler" for each in threading.enumerate()) == 1
    until(lambda: all(each.name != "onceward-counts_sampler" for each in threading.enumerate()))
    counts_sampler.stop()


def test_asking_counts_nothing(ow: Onceward, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is what was counted last; before the first time everything is null."""
    fill(ow)
    counts_sampler = CountSampler(lambda: ow)
    asking = Asking(counts_router(counts_sampler))
    assert set(asking.get("/api/console/counts").json().values()) == {None}
    counts_sampler.count()
    monkeypatch.setattr(ow.store, "read", None)
    found = asking.body("/api/console/counts")
    assert (found["dead"], found["ambiguous"], found["conversations_dead"]) == (2, 1, 0)
