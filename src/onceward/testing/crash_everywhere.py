"""Crash everywhere: kill a scenario at every crash point, statement and line; rerun and check it.

Contains the loop and the failure messages. Processes and SIGKILL are real; `kill_places` defines
the places. The clock advances an hour between a kill and the next run, so that all leases have
expired.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from onceward.system import SystemClock
from onceward.testing.forked_process import (
    SECONDS_MAX,
    ForkedProcess,
    ProcessResult,
    Report,
    fail,
    indented,
)
from onceward.testing.kill_places import Place, Switch
from onceward.testing.trial import Step, Trial, Trials, call

#: Environment variable that limits kills to one place, `name:nth`; set by a failure's REPRO line.
ONLY_VARIABLE: Final = "ONCEWARD_CRASH_ONLY"
#: How far the clock advances before a rerun: longer than leases and retry delays.
LATER_SECONDS: Final = 3600.0
#: How many passes of one place are killed at, one per trial.
PASSES_MAX: Final = 3
#: How often a scenario is rerun while it ends with a retryable error.
_RERUNS_MAX: Final = 5
_NO_PLACES: Final = (
    "nothing can be killed: the scenario passed no crash point and ran no statement\n"
    "fix: use a store, a journal or a worker of Onceward in the process that runs the scenario"
)
_NOT_REACHED: Final = (
    "passed in the first, undisturbed run, but in no later run\n"
    "fix: use the store of the trial, `trial.url`, not one that was opened before the test"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class CrashSummary:
    """How many places were tried and how many processes were killed."""

    #: Places that the undisturbed scenario passes, in that order.
    points: tuple[str, ...]
    #: Killed processes; after each, the rerun and the check succeeded.
    kills: int
    #: Passes that were not reached again, because threads may run in another order.
    missed: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        """Return a summary of one line."""
        return f"{self.kills} kills at {len(self.points)} places in {self.seconds:.1f} s"


@dataclass(frozen=True, kw_only=True)
class CrashOptions:
    """Options for every run of a scenario."""

    lines: tuple[Callable[..., Any], ...] = ()
    accept: tuple[type[BaseException], ...] = ()
    later_seconds: float = LATER_SECONDS
    seconds_max: float = SECONDS_MAX


def crash_everywhere(  # noqa: PLR0913 - a question and optional limits
    scenario: Step,
    check: Step,
    *,
    setup: Step | None = None,
    url: str | None = None,
    lines: Iterable[Callable[..., Any]] = (),
    accept: type[BaseException] | tuple[type[BaseException], ...] = (),
    passes_max: int = PASSES_MAX,
    later_seconds: float = LATER_SECONDS,
    seconds_max: float = SECONDS_MAX,
) -> CrashSummary:
    """Kill the scenario at every place it passes, run it again, and call the check.

    Each trial has a store and a directory of its own, as `setup` left them. Scenario, check and
    setup are functions of the `Trial`; each runs in a process of its own. The check raises when an
    invariant is violated. First the scenario runs undisturbed, to record the places it passes. A
    place is a crash point, one of your statements (`tx.execute`), or a line of a function in
    `lines`. The scenario is killed at the first `passes_max` passes of each. The scenario then runs
    again, `later_seconds` later by the store's time; it may succeed or raise an error listed in
    `accept`. A retryable error makes it run again.
    """
    __tracebackhide__ = True
    began = SystemClock().monotonic()
    options = CrashOptions(
        lines=tuple(lines),
        accept=accept if isinstance(accept, tuple) else (accept,),
        later_seconds=later_seconds,
        seconds_max=seconds_max,
    )
    with Trials(url, setup=setup) as trials:
        loop = _Loop(trials, scenario, check, options)
        passed = loop.record_places()
        kills, missed = 0, list[str]()
        for place in _places(passed, passes_max):
            if loop.kill_at(place):
                kills += 1
            else:
                missed.append(place.spec)
    if not kills:
        fail(f"nothing was killed: {', '.join(missed)} {_NOT_REACHED}")
    return CrashSummary(
        points=tuple(passed),
        kills=kills,
        missed=tuple(missed),
        seconds=SystemClock().monotonic() - began,
    )


def _places(passed: dict[str, tuple[int, str]], passes_max: int) -> list[Place]:
    # The user's own statements first: a failure there is easiest to understand.
    names = sorted(passed, key=lambda name: "@" not in name)
    every = [
        Place(name=name, nth=nth, text=passed[name][1])
        for name in names
        for nth in range(1, min(passed[name][0], passes_max) + 1)
    ]
    only = os.environ.get(ONLY_VARIABLE)
    if only is None:
        return every
    wanted = Place.read(only)
    name, count = wanted.name, passed.get(wanted.name, (0, ""))[0]
    if count < wanted.nth:
        fail(f"{ONLY_VARIABLE}: {name!r} is passed {count} times")
    return [Place(name=name, nth=wanted.nth, text=passed[name][1])]


class _Loop:
    """Runs one scenario through its trials."""

    def __init__(self, trials: Trials, scenario: Step, check: Step, options: CrashOptions) -> None:
        self._trials = trials
        self._scenario = scenario
        self._check = check
        self._options = options

    def record_places(self) -> dict[str, tuple[int, str]]:
        """Run the scenario undisturbed, and return the places it passes."""
        __tracebackhide__ = True
        with self._trials.new() as trial:
            recording = partial(_record_places, self._scenario, self._options.lines)
            ended = self._run(recording, trial, "first")
            if not ended.is_fine:
                fail(f"the scenario fails although nothing was killed: {ended.text}")
            checked = self._run(partial(_call_step, self._check), trial, "check")
            if checked.code:
                fail(f"the check fails although nothing was killed: {checked.text}")
        passed = {name: (int(count), str(text)) for name, count, text in ended.reported["passed"]}
        if not passed:
            fail(_NO_PLACES)
        return passed

    def kill_at(self, place: Place) -> bool:
        """Kill the scenario at this place, rerun and check it; return whether it got there."""
        __tracebackhide__ = True
        with self._trials.new() as trial:
            killed = partial(_run_until_killed, self._scenario, self._options.lines, place.spec)
            first = self._run(killed, trial, "first")
            if "hit" not in first.reported:
                return False
            second = self.rerun_later(trial)
            if not second.is_fine:
                fail(_failure_text(place, "the scenario, run again, failed:", second))
            checked = self._run(partial(_call_step, self._check), trial, "check")
            if checked.code:
                fail(_failure_text(place, "the check failed:", checked, second))
        return True

    def rerun_later(self, trial: Trial) -> ProcessResult:
        """Rerun the scenario later, until it ends without a retryable error."""
        rerun = partial(_call_step, self._scenario)
        for number in range(1, _RERUNS_MAX + 1):
            later = number * self._options.later_seconds
            ended = self._run(rerun, trial, "again", later_seconds=later)
            if ended.is_fine or not ended.is_retryable:
                break
        return ended

    def _run(
        self,
        work: Callable[[Trial, Report], object],
        trial: Trial,
        name: str,
        later_seconds: float = 0.0,
    ) -> ProcessResult:
        accept = self._options.accept
        process = ForkedProcess(work, trial, name=name, later_seconds=later_seconds, accept=accept)
        with process:
            return process.end(self._options.seconds_max)


def _record_places(
    scenario: Step, lines: Iterable[Callable[..., Any]], trial: Trial, report: Report
) -> None:
    switch = Switch(lines=lines)
    switch.start()
    try:
        call(scenario, trial)
    finally:
        report(passed=[(name, *found) for name, found in switch.passed.items()])


def _run_until_killed(
    scenario: Step, lines: Iterable[Callable[..., Any]], at: str, trial: Trial, report: Report
) -> None:
    Switch(at, lines=lines, on_hit=lambda spec, _: report(hit=spec)).start()
    call(scenario, trial)


def _call_step(step: Step, trial: Trial, _report: Report) -> None:
    call(step, trial)


def _failure_text(
    place: Place, what: str, ended: ProcessResult, before: ProcessResult | None = None
) -> str:
    """Return the failure message: place of the kill, what failed, and how to repeat it."""
    done, not_yet = place.states
    lines = [
        f"after kill -9 at {place}",
        f"  done     {done}",
        f"  not yet  {not_yet}",
        what,
        indented(ended.text),
    ]
    if before is not None and before.error:
        lines += [
            "before the check, the scenario was run again and ended with:",
            indented(before.text),
        ]
    return "\n".join([*lines, repro(place.spec)])


def repro(spec: str = "") -> str:
    """Return the REPRO line: the shell command that repeats the failed run."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    command = ["pytest", test] if test else ["python", *sys.argv]
    only = f"{ONLY_VARIABLE}={shlex.quote(spec)} " if spec else ""
    return f"REPRO: {only}{shlex.join(command)}"
