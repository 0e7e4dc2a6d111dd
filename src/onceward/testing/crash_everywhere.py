"""Crash everywhere: kill a scenario at every place it passes, run it again, and check what is left.

Owns the loop and what a failure says. The places are those of `kill_places`, the processes are
real, and so is the SIGKILL; an hour passes between a death and the next life, so that no lease is
left.
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
from onceward.testing.forked_process import SECONDS_MAX, Ended, Life, Tell, fail, indented
from onceward.testing.kill_places import Place, Switch
from onceward.testing.trial import Step, Trial, Trials, call

#: Kills at one place only, `name:nth`: what a failure's REPRO line sets.
ONLY_VARIABLE: Final = "ONCEWARD_CRASH_ONLY"
#: How much later a scenario runs again: longer than leases and the waits between attempts.
LATER_SECONDS: Final = 3600.0
#: How often a place is killed at, each time one pass later.
PASSES_MAX: Final = 3
#: How often a scenario is run again while it says that it is to be tried once more.
_LIVES_MAX: Final = 5
_NOWHERE: Final = (
    "nothing can be killed: the scenario passed no crash point and ran no statement\n"
    "fix: let it use a store, a journal or a worker of Onceward's, in the process it is called in"
)
_STALE: Final = (
    "passed when it was watched, and not afterwards\n"
    "fix: work in the store of the trial, `trial.url`, not in one that was opened before the test"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class CrashSummary:
    """How much was tried."""

    #: Places that the scenario passes when nothing disturbs it, in that order.
    points: tuple[str, ...]
    #: Processes that were killed, each of them followed by a good end and a good check.
    kills: int
    #: Passes that were not reached again, as threads may do things in another order.
    missed: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        """Say it in a line."""
        return f"{self.kills} kills at {len(self.points)} places in {self.seconds:.1f} s"


@dataclass(frozen=True, kw_only=True)
class CrashOptions:
    """What holds for every life of a scenario."""

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
    """Kill the scenario at every place it passes; run it again; call the check.

    Each trial has a store and a directory of its own, as `setup` left them, and scenario, check and
    setup are functions of the `Trial`, each run in a process of its own. The check raises when
    something is wrong. Before everything else the scenario runs undisturbed, and is watched.

    A place is a crash point, or one of your statements (`tx.execute`), or a line of a function that
    is named in `lines`. Each is killed at in its first `passes_max` passes. The scenario then runs
    again, `later_seconds` later by the store's time, until it ends well, or with an error that
    `accept` names; one that is retryable makes it run again.
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
        passed = loop.watch()
        kills, missed = 0, list[str]()
        for place in _places(passed, passes_max):
            if loop.kill_at(place):
                kills += 1
            else:
                missed.append(place.spec)
    if not kills:
        fail(f"nothing was killed: {', '.join(missed)} {_STALE}")
    return CrashSummary(
        points=tuple(passed),
        kills=kills,
        missed=tuple(missed),
        seconds=SystemClock().monotonic() - began,
    )


def _places(passed: dict[str, tuple[int, str]], passes_max: int) -> list[Place]:
    # What the user wrote comes first: a failure there says most.
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
    """One scenario, and the trials it goes through."""

    def __init__(self, trials: Trials, scenario: Step, check: Step, options: CrashOptions) -> None:
        self._trials = trials
        self._scenario = scenario
        self._check = check
        self._options = options

    def watch(self) -> dict[str, tuple[int, str]]:
        """Run it undisturbed, and return what it passes."""
        __tracebackhide__ = True
        with self._trials.new() as trial:
            watched = partial(_watched, self._scenario, self._options.lines)
            ended = self._live(watched, trial, "first")
            if not ended.is_fine:
                fail(f"the scenario fails without any fault: {ended.text}")
            checked = self._live(partial(_plain, self._check), trial, "check")
            if checked.code:
                fail(f"the check fails although nothing crashed: {checked.text}")
        passed = {name: (int(count), str(text)) for name, count, text in ended.reported["passed"]}
        if not passed:
            fail(_NOWHERE)
        return passed

    def kill_at(self, place: Place) -> bool:
        """Kill it there and see what the next life makes of it; say whether it was reached."""
        __tracebackhide__ = True
        with self._trials.new() as trial:
            killed = partial(_killed, self._scenario, self._options.lines, place.spec)
            first = self._live(killed, trial, "first")
            if "hit" not in first.reported:
                return False
            second = self.again(trial)
            if not second.is_fine:
                fail(_told(place, "the scenario, run again, failed:", second))
            checked = self._live(partial(_plain, self._check), trial, "check")
            if checked.code:
                fail(_told(place, "the check failed:", checked, second))
        return True

    def again(self, trial: Trial) -> Ended:
        """Run it later, until it ends."""
        plain = partial(_plain, self._scenario)
        for life in range(1, _LIVES_MAX + 1):
            later = life * self._options.later_seconds
            ended = self._live(plain, trial, "again", later_seconds=later)
            if ended.is_fine or not ended.is_retryable:
                break
        return ended

    def _live(
        self,
        work: Callable[[Trial, Tell], object],
        trial: Trial,
        name: str,
        later_seconds: float = 0.0,
    ) -> Ended:
        accept = self._options.accept
        life = Life(work, trial, name=name, later_seconds=later_seconds, accept=accept)
        with life:
            return life.end(self._options.seconds_max)


def _watched(scenario: Step, lines: Iterable[Callable[..., Any]], trial: Trial, tell: Tell) -> None:
    switch = Switch(lines=lines)
    switch.switch_on()
    try:
        call(scenario, trial)
    finally:
        tell(passed=[(name, *found) for name, found in switch.passed.items()])


def _killed(
    scenario: Step, lines: Iterable[Callable[..., Any]], at: str, trial: Trial, tell: Tell
) -> None:
    Switch(at, lines=lines, on_hit=lambda spec, _: tell(hit=spec)).switch_on()
    call(scenario, trial)


def _plain(step: Step, trial: Trial, _tell: Tell) -> None:
    call(step, trial)


def _told(place: Place, what: str, ended: Ended, before: Ended | None = None) -> str:
    """Say where it was killed, what came of it, and how to see it again."""
    done, not_yet = place.states
    said = [
        f"after kill -9 at {place}",
        f"  done     {done}",
        f"  not yet  {not_yet}",
        what,
        indented(ended.text),
    ]
    if before is not None and before.error:
        said += ["before that, the scenario was run again, and ended with:", indented(before.text)]
    return "\n".join([*said, repro(place.spec)])


def repro(spec: str = "") -> str:
    """Return the line that runs the same again."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    words = ["pytest", test] if test else ["python", *sys.argv]
    only = f"{ONLY_VARIABLE}={shlex.quote(spec)} " if spec else ""
    return f"REPRO: {only}{shlex.join(words)}"
