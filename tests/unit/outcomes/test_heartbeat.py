"""The heartbeat: claims stay alive while their functions run, and no longer."""

import os
import threading
from pathlib import Path

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.errors import FenceLost, StoreUnavailable
from onceward.outcomes import Fence
from onceward.outcomes.claims import Claims
from onceward.outcomes.heartbeat import HEARTBEAT, ClaimHeartbeat
from onceward.outcomes.once import new_owner
from onceward.system import ManualClock
from tests.support.forked_children import forked
from tests.support.waiting import until


class Renewals(Claims):
    """Notes what is renewed, and fails on request."""

    def __init__(self) -> None:
        self.renewed: list[int] = []
        self.trouble: list[Exception] = []
        self.beaten = threading.Event()

    def renew(self, fence: Fence, *, lease_seconds: float = 60.0) -> None:
        assert lease_seconds > 0
        self.renewed.append(fence.number)
        self.beaten.set()
        if self.trouble:
            raise self.trouble.pop()


def fence(number: int) -> Fence:
    return Fence(scope="s", key="k", fingerprint="", number=number, owner="w")


@pytest.fixture
def heart(monkeypatch: pytest.MonkeyPatch) -> ClaimHeartbeat:
    """A heartbeat that beats on request."""
    made = ClaimHeartbeat(ManualClock())
    monkeypatch.setattr(made, "_start", lambda: None)
    return made


def advance(heart: ClaimHeartbeat, seconds: float) -> None:
    assert isinstance(heart._clock, ManualClock)
    heart._clock.advance(seconds=seconds)


def test_a_claim_is_renewed_at_every_third_of_its_lease(heart: ClaimHeartbeat) -> None:
    """Not before it is due, again and again, and not after the block has ended."""
    claims = Renewals()
    with heart.keep_alive(claims, fence(1), 60.0):
        advance(heart, 19)
        heart.renew_due()
        assert claims.renewed == []
        for _ in range(3):
            advance(heart, 20)
            heart.renew_due()
        assert claims.renewed == [1, 1, 1]
    advance(heart, 60)
    heart.renew_due()
    assert claims.renewed == [1, 1, 1]


def test_a_lost_claim_is_renewed_no_more(heart: ClaimHeartbeat) -> None:
    """The others are; the store being away for a while ends nothing."""
    lost, kept = Renewals(), Renewals()
    lost.trouble = [FenceLost()]
    kept.trouble = [StoreUnavailable()]
    with heart.keep_alive(lost, fence(1), 60.0), heart.keep_alive(kept, fence(2), 60.0):
        for _ in range(2):
            advance(heart, 20)
            heart.renew_due()
    assert (lost.renewed, kept.renewed) == ([1], [2, 2])


def test_a_shorter_lease_wakes_the_thread() -> None:
    """Beside a claim of an hour, one of a few milliseconds is renewed in time."""
    heart = ClaimHeartbeat()
    long, short = Renewals(), Renewals()
    with heart.keep_alive(long, fence(1), 3600.0):
        until(lambda: heart._wakes_at > 0)
        # It says when it will wake, and then sleeps, without giving the lock away in between.
        with heart.keep_alive(short, fence(2), 0.03):
            assert short.beaten.wait(60)
    assert long.renewed == []


@pytest.fixture
def ow(tmp_path: Path) -> Onceward:
    return open_handle(f"sqlite:///{tmp_path / 'x.db'}")


def test_a_function_longer_than_its_lease_keeps_its_claim(ow: Onceward) -> None:
    """The real thread renews the real claim while the function runs."""

    @ow.once(key="k", lease_seconds=0.3)
    def slow() -> str:
        (first,) = ow.outcomes.list()
        until(lambda: ow.outcomes.list()[0].until != first.until)
        return "done"

    assert slow() == "done"


def test_a_forked_child_keeps_only_its_own_claims(ow: Onceward) -> None:
    """The parent's claims are the parent's to renew."""
    claims = Renewals()

    def live() -> None:
        assert not HEARTBEAT._renewed
        assert HEARTBEAT._thread is None
        assert ow.once(key="k")(lambda: 1)() == 1

    with HEARTBEAT.keep_alive(claims, fence(1), 3600.0):
        assert os.waitpid(forked(live), 0)[1] == 0


def test_a_thread_that_could_not_be_started_is_started_for_the_next_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Out of threads for a moment: that claim is refused and forgotten, the next one is kept."""
    heart, claims = ClaimHeartbeat(), Renewals()
    start = threading.Thread.start

    def refused(_: threading.Thread) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(RuntimeError):
        heart.keep_alive(claims, fence(1), 0.03)
    monkeypatch.setattr(threading.Thread, "start", start)
    with heart.keep_alive(claims, fence(2), 0.03):
        assert claims.beaten.wait(60)
    assert set(claims.renewed) == {2}


def test_a_process_forked_by_another_language_has_owners_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such a fork runs nothing of Python's: only the pid tells the two apart."""
    before = new_owner().rpartition("/")[0]
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert new_owner().rpartition("/")[0] != before
