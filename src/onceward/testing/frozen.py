"""Frozen: freeze a scenario's process at one place while another process takes over its work.

Runs both processes; the second one's clock is an hour ahead.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from onceward.testing.crash_everywhere import LATER_SECONDS
from onceward.testing.forked_process import SECONDS_MAX, ForkedProcess, Report, Stuck, fail
from onceward.testing.kill_places import FIRST_STATEMENT, Place, Switch
from onceward.testing.trial import Step, Trial, Trials, call

#: A process that is frozen inside a transaction may hold locks that its successor needs.
_HINT: Final = (
    "fix: freeze the process before its first write; on SQLite a process that is frozen "
    "inside a transaction stops every other writer until it wakes"
)
#: How many processes try to take over, each after a retryable error of the previous one.
TAKE_OVERS_MAX: Final = 5


class Frozen:
    """A frozen process; lets another one take over, then resumes it."""

    def __init__(
        self,
        trial: Trial,
        scenario: Step,
        process: ForkedProcess,
        later_seconds: float,
        seconds_max: float,
    ) -> None:
        """Wrap a process that is already frozen."""
        #: The trial's store and directory, until the end of the block.
        self.trial = trial
        #: The place at which the process is frozen.
        self.place = Place.read(*process.reported()["hit"])
        self._scenario = scenario
        self._process = process
        self._later_seconds = later_seconds
        self._seconds_max = seconds_max
        self._is_awake = False

    def take_over(self, scenario: Step | None = None) -> None:
        """Let another process do the same work, or run another function, to its end.

        The clock of that process is an hour ahead, so that leases of the frozen one have expired.
        After a retryable error another process tries, because the frozen one may still hold a lock.
        """
        __tracebackhide__ = True
        work = partial(_call_step, scenario or self._scenario)
        for number in range(1, TAKE_OVERS_MAX + 1):
            later = number * self._later_seconds
            with ForkedProcess(work, self.trial, name="other", later_seconds=later) as process:
                try:
                    ended = process.wait(self._seconds_max)
                except Stuck as exc:
                    fail(f"no worker could take over from {self.place}: {exc}\n{_HINT}")
            if not ended.is_retryable:
                break
        ended.expect("the process that took over")

    def wake(self) -> str:
        """Resume the process, wait for its end, and return its error, or "" after success."""
        if not self._is_awake:
            self._is_awake = True
            os.kill(self._process.pid, signal.SIGCONT)
        return self._process.wait(self._seconds_max).error


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
    """Run the scenario in a process of its own, freeze it at a place, and pass it to the block.

    The place is the user's first statement, or a crash point such as `transaction.after_commit`,
    with `:2` for its second pass. At the end of the block the process is resumed if it is still
    frozen.
    """
    __tracebackhide__ = True
    with Trials(url, setup=setup) as trials, trials.new() as trial:
        freezing = partial(_run_until_frozen, scenario, tuple(lines), at)
        with ForkedProcess(freezing, trial, name="first") as process:
            if not process.await_change(max(seconds_max, SECONDS_MAX), is_freeze=True):
                fail(f"the scenario never reached {at!r}: {process.wait().text}")
            made = Frozen(trial, scenario, process, later_seconds, seconds_max)
            yield made
            made.wake()


def _run_until_frozen(
    scenario: Step, lines: Iterable[Callable[..., Any]], at: str, trial: Trial, report: Report
) -> None:
    Switch(at, lines=lines, act=signal.SIGSTOP, on_hit=lambda *hit: report(hit=hit)).start()
    call(scenario, trial)


def _call_step(step: Step, trial: Trial, _report: Report) -> None:
    call(step, trial)
