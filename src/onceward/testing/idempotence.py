"""Idempotence: check that repeated, concurrent and crashed calls leave the state of one call.

Repeats a call in four ways: again, later, concurrently, and after a crash at every place. The user
passes the state to compare, as a query or a function.
"""

from __future__ import annotations

import difflib
import os
import pprint
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from onceward.system import SystemClock, SystemFiles
from onceward.testing.crash_everywhere import LATER_SECONDS, crash_everywhere, repro
from onceward.testing.forked_process import (
    SECONDS_MAX,
    ForkedProcess,
    ProcessResult,
    Report,
    fail,
    indented,
)
from onceward.testing.trial import Step, Trial, Trials, call

#: How many processes call concurrently.
AT_ONCE: Final = 4
#: How long each process waits for the others before its call.
_GATHER_SECONDS_MAX: Final = 30.0
#: How often a call with a retryable error is made again.
_TRIES_MAX: Final = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Idempotence:
    """How many calls were made and how many processes were killed."""

    #: Successful calls, without those of the crash trials.
    calls: int
    #: Processes that were killed in the middle of a call.
    kills: int
    seconds: float


def assert_idempotent(  # noqa: PLR0913 - a question and optional limits
    work: Step,
    state: Step | str,
    *,
    setup: Step | None = None,
    url: str | None = None,
    at_once: int = AT_ONCE,
    crashes: bool = True,
    lines: Iterable[Callable[..., Any]] = (),
    accept: type[BaseException] | tuple[type[BaseException], ...] = (),
    seconds_max: float = SECONDS_MAX,
) -> Idempotence:
    """Call `work` once and then repeatedly, and compare the state after both.

    Repeatedly means: twice in one process, and an hour later in another; concurrently in several
    processes; and after a kill at every place that it passes, see `crash_everywhere`. `state` is a
    query, whose rows are compared in any order, or a function that returns plain data. A call that
    ends with a retryable error is made again; any other error fails, unless `accept` names it.
    """
    __tracebackhide__ = True
    began = SystemClock().monotonic()
    accepted = accept if isinstance(accept, tuple) else (accept,)
    with Trials(url, setup=setup) as trials:
        asked = _RepeatedCalls(trials, work, state, accepted, seconds_max)
        wanted = asked.once()
        asked.again(wanted)
        if at_once > 1:
            asked.at_once(wanted, at_once)
    kills = 0
    if crashes:
        kills = crash_everywhere(
            work,
            partial(_check, state, wanted),
            setup=setup,
            url=url,
            lines=lines,
            accept=accept,
            seconds_max=seconds_max,
        ).kills
    return Idempotence(calls=asked.calls, kills=kills, seconds=SystemClock().monotonic() - began)


class _RepeatedCalls:
    """Calls one piece of work in several ways, and compares the resulting states."""

    def __init__(
        self,
        trials: Trials,
        work: Step,
        state: Step | str,
        accept: tuple[type[BaseException], ...],
        seconds_max: float,
    ) -> None:
        self._trials = trials
        self._work = work
        self._state = state
        self._accept = accept
        self._seconds_max = seconds_max
        self.calls = 0

    def once(self) -> str:
        """Return the state after one call."""
        __tracebackhide__ = True
        with self._trials.new() as trial:
            before = self._read_state(trial)
            self._run(partial(_call_repeatedly, self._work, 1), trial).expect("the first call")
            after = self._read_state(trial)
        if before == after:
            fail(
                f"the call does not change `state`, so nothing can be compared:\n"
                f"{indented(after)}\nfix: include the call's effect in `state`"
            )
        self.calls += 1
        return after

    def again(self, wanted: str) -> None:
        """Call twice, and once more an hour later."""
        __tracebackhide__ = True
        with self._trials.new() as trial:
            ended = self._run(partial(_call_repeatedly, self._work, 2), trial)
            if not ended.is_fine:
                fail(f"a second call failed: {ended.text}\n{repro()}")
            self._compare(wanted, trial, "a second call")
            self._call_later(trial, "a call an hour later")
            self._compare(wanted, trial, "a call an hour later")
        self.calls += 3

    def at_once(self, wanted: str, count: int) -> None:
        """Call concurrently in several processes."""
        __tracebackhide__ = True
        what = f"{count} concurrent calls"
        with self._trials.new() as trial, ExitStack() as stack:
            work = partial(_call_together, self._work, count)
            processes = [
                stack.enter_context(
                    ForkedProcess(work, trial, name=f"call-{number}", accept=self._accept)
                )
                for number in range(count)
            ]
            for process in processes:
                ended = process.end(self._seconds_max)
                if not (ended.is_fine or ended.is_retryable):
                    fail(f"one of {what} failed: {ended.text}\n{repro()}")
            # Callers with a retryable error retry.
            self._call_later(trial, f"a call after {what}")
            self._compare(wanted, trial, what)
        self.calls += count + 1

    def _call_later(self, trial: Trial, what: str) -> None:
        __tracebackhide__ = True
        for number in range(1, _TRIES_MAX + 1):
            work = partial(_call_repeatedly, self._work, 1)
            ended = self._run(work, trial, later_seconds=number * LATER_SECONDS)
            if not ended.is_retryable:
                break
        if not ended.is_fine:
            fail(f"{what} failed: {ended.text}\n{repro()}")

    def _compare(self, wanted: str, trial: Trial, what: str) -> None:
        __tracebackhide__ = True
        found = self._read_state(trial)
        if found != wanted:
            fail(f"after {what}, {difference(wanted, found)}\n{repro()}")

    def _read_state(self, trial: Trial) -> str:
        __tracebackhide__ = True
        ended = self._run(partial(_report_state, self._state), trial)
        return str(ended.expect("reading the state").reported["state"])

    def _run(
        self,
        work: Callable[[Trial, Report], object],
        trial: Trial,
        later_seconds: float = 0.0,
    ) -> ProcessResult:
        accept = self._accept
        with ForkedProcess(
            work, trial, name="call", later_seconds=later_seconds, accept=accept
        ) as process:
            return process.end(self._seconds_max)


def difference(wanted: str, found: str) -> str:
    """Return the difference between a state and that after a single call."""
    lines = difflib.ndiff(wanted.splitlines(), found.splitlines())
    shown = "\n".join(line for line in lines if not line.startswith("?"))
    return f"the state is not that of one call (- one call, + now):\n{indented(shown)}"


def state_of(state: Step | str, trial: Trial) -> str:
    """Return a state as text, one line for each of its parts."""
    if isinstance(state, str):
        value: Any = sorted(trial.rows(state), key=repr)
    else:
        value = call(state, trial)
    # A width of one, so that each part has a line of its own; a short row stays in one.
    if isinstance(value, (list, tuple)):
        return "\n".join(map(repr, value))
    return pprint.pformat(value, width=1)


def _check(state: Step | str, wanted: str, trial: Trial) -> None:
    found = state_of(state, trial)
    if found != wanted:
        fail(difference(wanted, found))


def _report_state(state: Step | str, trial: Trial, report: Report) -> None:
    report(state=state_of(state, trial))


def _call_repeatedly(work: Step, count: int, trial: Trial, _report: Report) -> None:
    for _ in range(count):
        call(work, trial)


def _call_together(work: Step, count: int, trial: Trial, _report: Report) -> None:
    """Wait until `count` processes have started, then call."""
    clock = SystemClock()
    place: Path = trial.path.parent / "gathered"
    place.mkdir(exist_ok=True)
    SystemFiles().open_append(place / str(os.getpid())).close()
    until = clock.monotonic() + _GATHER_SECONDS_MAX
    while len(list(place.iterdir())) < count and clock.monotonic() < until:
        clock.sleep(0.0005)
    call(work, trial)
