"""Idempotence: whether doing something many times leaves what doing it once leaves.

Owns the four ways of doing it many times: again, later, at once, and after a crash at every place.
What is compared is what the user names; a query, or a function.
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
from onceward.testing.forked_process import SECONDS_MAX, Ended, Life, Tell, fail, indented
from onceward.testing.trial import Step, Trial, Trials, call

#: How many processes call at once.
AT_ONCE: Final = 4
#: How long each of them waits for the others.
_GATHER_SECONDS_MAX: Final = 30.0
#: How often a caller retries.
_TRIES_MAX: Final = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Idempotence:
    """How much was tried."""

    #: Calls that ended well, without those of the crashes.
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
    """Call `work` once, then often, and compare what `state` says after both.

    Often means: twice in a process and once more in another, an hour later; in several processes at
    once; and after it was killed at every place it passes, see `crash_everywhere`. `state` is a
    query, whose rows are compared in any order, or a function that returns plain data. A call that
    ends with a retryable error is made again; any other error fails, unless `accept` names it.
    """
    __tracebackhide__ = True
    began = SystemClock().monotonic()
    accepted = accept if isinstance(accept, tuple) else (accept,)
    with Trials(url, setup=setup) as trials:
        asked = _Asked(trials, work, state, accepted, seconds_max)
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


class _Asked:
    """One piece of work, called in several ways."""

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
        """Return the state that one call leaves."""
        __tracebackhide__ = True
        with self._trials.new() as trial:
            before = self._look(trial)
            self._live(partial(_times, self._work, 1), trial).expect("the first call")
            after = self._look(trial)
        if before == after:
            fail(
                f"the call changes nothing that `state` shows, so nothing can be compared:\n"
                f"{indented(after)}\nfix: let `state` show what the call does"
            )
        self.calls += 1
        return after

    def again(self, wanted: str) -> None:
        """Call it twice, and once more much later."""
        __tracebackhide__ = True
        with self._trials.new() as trial:
            ended = self._live(partial(_times, self._work, 2), trial)
            if not ended.is_fine:
                fail(f"a second call failed: {ended.text}\n{repro()}")
            self._compare(wanted, trial, "a second call")
            self._late(trial, "a call an hour later")
            self._compare(wanted, trial, "a call an hour later")
        self.calls += 3

    def at_once(self, wanted: str, count: int) -> None:
        """Call it in several processes at the same time."""
        __tracebackhide__ = True
        what = f"{count} calls at once"
        with self._trials.new() as trial, ExitStack() as stack:
            work = partial(_together, self._work, count)
            lives = [
                stack.enter_context(Life(work, trial, name=f"call-{number}", accept=self._accept))
                for number in range(count)
            ]
            for life in lives:
                ended = life.end(self._seconds_max)
                if not (ended.is_fine or ended.is_retryable):
                    fail(f"one of {what} failed: {ended.text}\n{repro()}")
            # Callers with a retryable error retry.
            self._late(trial, f"a call after {what}")
            self._compare(wanted, trial, what)
        self.calls += count + 1

    def _late(self, trial: Trial, what: str) -> None:
        __tracebackhide__ = True
        for number in range(1, _TRIES_MAX + 1):
            work = partial(_times, self._work, 1)
            ended = self._live(work, trial, later_seconds=number * LATER_SECONDS)
            if not ended.is_retryable:
                break
        if not ended.is_fine:
            fail(f"{what} failed: {ended.text}\n{repro()}")

    def _compare(self, wanted: str, trial: Trial, what: str) -> None:
        __tracebackhide__ = True
        found = self._look(trial)
        if found != wanted:
            fail(f"after {what}, {difference(wanted, found)}\n{repro()}")

    def _look(self, trial: Trial) -> str:
        __tracebackhide__ = True
        ended = self._live(partial(_tell_state, self._state), trial)
        return str(ended.expect("looking at the state").reported["state"])

    def _live(
        self,
        work: Callable[[Trial, Tell], object],
        trial: Trial,
        later_seconds: float = 0.0,
    ) -> Ended:
        accept = self._accept
        with Life(work, trial, name="call", later_seconds=later_seconds, accept=accept) as life:
            return life.end(self._seconds_max)


def difference(wanted: str, found: str) -> str:
    """Say how a state differs from the one that a single call leaves."""
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


def _tell_state(state: Step | str, trial: Trial, tell: Tell) -> None:
    tell(state=state_of(state, trial))


def _times(work: Step, count: int, trial: Trial, _tell: Tell) -> None:
    for _ in range(count):
        call(work, trial)


def _together(work: Step, count: int, trial: Trial, _tell: Tell) -> None:
    """Wait until so many processes are here, then go."""
    clock = SystemClock()
    place: Path = trial.path.parent / "gathered"
    place.mkdir(exist_ok=True)
    SystemFiles().open_append(place / str(os.getpid())).close()
    until = clock.monotonic() + _GATHER_SECONDS_MAX
    while len(list(place.iterdir())) < count and clock.monotonic() < until:
        clock.sleep(0.0005)
    call(work, trial)
