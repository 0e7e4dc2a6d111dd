"""Frozen: a scenario whose process stands still at one place, while another takes its work over.

Owns the two processes, and the hour that passes between them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from onceward.testing.crash_everywhere import LATER_SECONDS
from onceward.testing.forked_process import SECONDS_MAX, Life, Stuck, Tell, fail
from onceward.testing.kill_places import FIRST_STATEMENT, Place, Switch
from onceward.testing.trial import Step, Trial, Trials, call

#: A frozen process that is inside a transaction may hold what its successor needs.
_HINT: Final = (
    "fix: freeze it at a place where it has not written yet; on SQLite a process that is frozen "
    "inside a transaction stops every other writer until it wakes"
)
#: How many processes try to take over, each after a retryable error of the one before.
TAKE_OVERS_MAX: Final = 5


class Frozen:
    """A process that stands still, and what becomes of its work."""

    def __init__(
        self, trial: Trial, scenario: Step, life: Life, later_seconds: float, seconds_max: float
    ) -> None:
        """Know who stands where."""
        #: Its store and its directory, until the end of the block.
        self.trial = trial
        #: Where it stands.
        self.place = Place.read(*life.reported()["hit"])
        self._scenario = scenario
        self._life = life
        self._later_seconds = later_seconds
        self._seconds_max = seconds_max
        self._is_awake = False

    def take_over(self, scenario: Step | None = None) -> None:
        """Let another process do the same work, or that of another function, to its end.

        For it an hour has passed, so that no lease of the frozen one is left. One that ends with a
        retryable error is followed by another: the frozen one may hold a lock for a moment longer.
        """
        __tracebackhide__ = True
        work = partial(_plain, scenario or self._scenario)
        for number in range(1, TAKE_OVERS_MAX + 1):
            later = number * self._later_seconds
            with Life(work, self.trial, name="other", later_seconds=later) as life:
                try:
                    ended = life.wait(self._seconds_max)
                except Stuck as exc:
                    fail(f"no worker could take over from {self.place}: {exc}\n{_HINT}")
            if not ended.is_retryable:
                break
        ended.expect("the process that took over")

    def wake(self) -> str:
        """Let it go on to its end; return the error it ended with, nothing when there was none."""
        if not self._is_awake:
            self._is_awake = True
            os.kill(self._life.pid, signal.SIGCONT)
        return self._life.wait(self._seconds_max).error


@contextmanager
def frozen(  # noqa: PLR0913 - a question and optional limits
    scenario: Step,
    *,
    at: str = FIRST_STATEMENT,
    setup: Step | None = None,
    url: str | None = None,
    lines: Iterable[Callable[..., Any]] = (),
    later_seconds: float = LATER_SECONDS,
    seconds_max: float = SECONDS_MAX,
) -> Iterator[Frozen]:
    """Run the scenario in a process of its own, which freezes at a place; give it to the block.

    The place is the user's first statement, or a crash point such as `transaction.after_commit`,
    with `:2` for its second pass. A process that was not woken in the block is, at its end.
    """
    __tracebackhide__ = True
    with Trials(url, setup=setup) as trials, trials.new() as trial:
        stops = partial(_stops, scenario, tuple(lines), at)
        with Life(stops, trial, name="first") as life:
            if not life.await_change(max(seconds_max, SECONDS_MAX), is_freeze=True):
                fail(f"the scenario never came to {at!r}: {life.wait().text}")
            made = Frozen(trial, scenario, life, later_seconds, seconds_max)
            yield made
            made.wake()


def _stops(
    scenario: Step, lines: Iterable[Callable[..., Any]], at: str, trial: Trial, tell: Tell
) -> None:
    Switch(at, lines=lines, act=signal.SIGSTOP, on_hit=lambda *hit: tell(hit=hit)).switch_on()
    call(scenario, trial)


def _plain(step: Step, trial: Trial, _tell: Tell) -> None:
    call(step, trial)
