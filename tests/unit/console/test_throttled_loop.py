"""A thread that does something now and then, and rests so much longer than it took."""

import threading
from collections.abc import Callable

import pytest

from onceward.console.throttled_loop import ThrottledLoop, rest_after
from onceward.system import ManualClock

LEAST = 2.0


class Rests(threading.Event):
    """Writes down how long it would have rested, and ends the thread after a few times."""

    def __init__(self, rounds: int) -> None:
        super().__init__()
        self._rounds = rounds
        self.seconds: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.seconds.append(timeout)
        if len(self.seconds) == self._rounds:
            self.set()
        return self.is_set()


def rounds_of(go: Callable[[], object], rounds: int, clock: ManualClock) -> list[float]:
    """Run so many rounds, and return how long it rested after each."""
    resting = ThrottledLoop("test", go, least_seconds=LEAST, clock=clock)
    rests = Rests(rounds)
    resting._stop = rests
    resting.start()
    assert resting._thread is not None
    resting._thread.join(60)
    assert not resting._thread.is_alive()
    return rests.seconds


@pytest.mark.parametrize("seconds", [0.0, 0.001, 1.0, 60.0])
def test_a_twentieth_of_the_time_is_spent_at_the_most(seconds: float) -> None:
    """What takes long is done seldom, and what takes no time not more often than is useful."""
    clock = ManualClock()
    rests = rounds_of(lambda: clock.advance(seconds=seconds), 3, clock)
    assert rests == pytest.approx([rest_after(seconds, LEAST)] * 3)
    assert min(rests) >= LEAST
    assert seconds / (seconds + rests[0]) <= 0.05 + 1e-9


def test_an_error_is_logged_and_does_not_end_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    """The next round comes after a rest, as if nothing had happened."""
    calls: list[int] = []

    def go() -> None:
        calls.append(1)
        if len(calls) == 1:
            message = "a surprise"
            raise RuntimeError(message)

    assert len(rounds_of(go, 2, ManualClock())) == 2
    assert len(calls) == 2
    assert caplog.text.count("a round of test failed") == 1


def test_the_loop_ends_when_it_is_stopped() -> None:
    """Starting twice is one thread; stopping wakes it, and stopping again is fine."""
    began = threading.Event()
    resting = ThrottledLoop("test", began.set, least_seconds=60.0)
    resting.start()
    thread = resting._thread
    resting.start()
    assert resting._thread is thread
    assert thread is not None
    assert thread.daemon
    assert began.wait(60)
    resting.stop()
    thread.join(60)
    assert not thread.is_alive()
    resting.stop()


def test_stopping_does_not_wait_for_a_round_that_hangs(caplog: pytest.LogCaptureFixture) -> None:
    """A hanging round keeps no server from stopping; an error at its end is ignored."""
    began, go_on = threading.Event(), threading.Event()

    def hang() -> None:
        began.set()
        go_on.wait(60)
        message = "the store was closed"
        raise RuntimeError(message)

    resting = ThrottledLoop("test", hang, least_seconds=60.0)
    resting.start()
    assert began.wait(60)
    resting.stop()
    assert resting._thread is not None
    assert resting._thread.is_alive(), "it was waited for"
    go_on.set()
    resting._thread.join(60)
    assert not resting._thread.is_alive()
    assert caplog.text == ""
