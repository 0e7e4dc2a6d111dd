"""Lives: children that work until a crash point kills them in turn, and their acknowledgements.

Owns plans and processes. What the work is and what must hold afterwards is a scenario's business;
which plans there are is that of `tests.proof.matrix`, which forks all of them from a warm parent.
"""

from __future__ import annotations

import itertools
import os
import random
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeVar

from onceward.system import crash_points

Ack = Callable[[str], None]
Kind = TypeVar("Kind")

#: How many pieces of work the last life does before it ends, unless it works to the end.
ACKS_MAX = 10
PAIR = 2
#: How long the last life may take for its first piece of work.
RECOVERY_SECONDS_MAX = 120.0


@dataclass(frozen=True)
class Step:
    """One kill: at which point, and at which of its passes."""

    point: str
    nth: int = 1

    @property
    def spec(self) -> str:
        return f"{self.point}:{self.nth}:kill"

    @classmethod
    def parse(cls, text: str) -> Step:
        """Read `point` or `point:nth`."""
        point, _, nth = text.partition(":")
        return cls(point, int(nth or 1))

    def __str__(self) -> str:
        return self.point if self.nth == 1 else f"{self.point}:{self.nth}"


@dataclass(frozen=True)
class Life:
    """A life that is over, and what it had acknowledged."""

    number: int
    acks: list[str]


@dataclass(frozen=True)
class Place:
    """Where a scenario happens: a store and a directory of its own, and chance."""

    url: str
    directory: Path
    source: random.Random


class Scenario:
    """Work that is killed, and what must hold afterwards."""

    #: How often a life passes a point that it passes seldom, and why.
    limits: ClassVar[Mapping[str, tuple[int, str]]] = {}
    #: How many passes a life makes of every other point, at least.
    passes_max: ClassVar[int] = 6
    #: How many points are tried in the life after each, if there are so many.
    then_max: ClassVar[int] = 6
    #: Whether the last life works until everything is done.
    is_ending: ClassVar[bool] = False
    #: Whether it begins with a database in which nothing was ever made.
    is_empty: ClassVar[bool] = False

    def __init__(self, place: Place) -> None:
        self.place, self.url, self.directory = place, place.url, place.directory
        #: Work that was done again after a kill, where that is allowed; counted by `check`.
        self.repeated = 0
        #: Those that are over.
        self.lives: list[Life] = []

    def prepare(self, life: int) -> None:
        """Make what a process finds; no crash point is armed here."""

    def work(self, life: int, ack: Ack) -> None:
        """Work until death; what is acknowledged must be there afterwards."""
        raise NotImplementedError

    def finish(self, life: int, ack: Ack) -> None:
        """Run the last process, which is not killed."""
        self.work(life, ack)

    def die(self, step: Step, life: int) -> list[str]:
        """Live until this kill; return what was acknowledged."""
        return live_and_die(self.work, step.spec, life)

    def check(self, lives: Sequence[Life]) -> None:
        """Look at what all of them left, and change nothing; AssertionError if it is wrong."""

    def settle(self, lives: Sequence[Life]) -> None:
        """Go on with what the last of them left, until all is in order; the same if it is not."""

    @classmethod
    def before(cls, step: Step, previous: Step | None) -> Step | None:  # noqa: ARG003 - the shape
        """Return the crash that is needed first, so that a process passes this point."""
        return None

    @classmethod
    def chain(cls, points: Sequence[str]) -> Sequence[str]:
        """Return the order in which one life after the other can die at these points."""
        return points

    @classmethod
    def pairs(cls, points: Sequence[str], source: random.Random) -> list[tuple[str, str]]:
        """Return at which two points in a row lives die: all there are, or some after each."""
        some = min(cls.then_max, len(points))
        return [(p, q) for p in points for q in source.sample(points, some)]


@dataclass(frozen=True)
class Played:
    """What came of a plan."""

    kills: int
    acknowledged: int
    #: From the start of the last life to its first piece of work.
    recover_seconds: float
    repeated: int


def play(scenario: Scenario, plan: Sequence[Step]) -> Played:
    """Let one life after the other die as planned; then one goes on.

    In a plan of two crashes nothing is checked in between: the second finds what the first left.
    """
    lives = scenario.lives
    for number, step in enumerate(plan):
        scenario.prepare(number)
        lives.append(Life(number, scenario.die(step, number)))
        if len(lives) > 1 or len(plan) != PAIR:
            scenario.check(lives)
    number = len(plan)
    scenario.prepare(number)
    acks, seconds = live_on(scenario.finish, number, None if scenario.is_ending else ACKS_MAX)
    lives.append(Life(number, acks))
    scenario.check(lives)
    scenario.settle(lives)
    acknowledged = sum(len(life.acks) for life in lives)
    return Played(len(plan), acknowledged, seconds, scenario.repeated)


def live_and_die(work: Callable[[int, Ack], None], spec: str, life: int) -> list[str]:
    """Fork a child that works until the crash point kills it; return what it acknowledged."""
    child, reader = _born(work, spec, life, None)
    with os.fdopen(reader, "r") as stream:
        acks = stream.read().splitlines()
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"{spec} was not reached"
    assert os.WTERMSIG(status) == signal.SIGKILL, status
    return acks


def live_on(
    work: Callable[[int, Ack], None], life: int, acks_max: int | None
) -> tuple[list[str], float]:
    """Fork a child that is not killed; return what it acknowledged, and when it first did."""
    start = time.monotonic()
    child, reader = _born(work, None, life, acks_max)
    ready, _, _ = select.select([reader], [], [], RECOVERY_SECONDS_MAX)
    seconds = time.monotonic() - start
    if not ready:
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reader, "r") as stream:
        acks = stream.read().splitlines()
    _, status = os.waitpid(child, 0)
    assert ready, f"no work was done in {RECOVERY_SECONDS_MAX} s after the last kill"
    assert status == 0, f"the last life ended with {status}"
    assert acks, "the last life did no work"
    return acks, seconds


def _born(
    work: Callable[[int, Ack], None], spec: str | None, life: int, acks_max: int | None
) -> tuple[int, int]:
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        return child, reader
    os.close(reader)
    crash_points.arm(spec)
    count = itertools.count(1)

    def ack(text: str) -> None:
        os.write(writer, text.encode() + b"\n")
        if next(count) == acks_max:
            os._exit(0)  # In the middle of its work, as a process may end.

    code = 1
    try:
        work(life, ack)
        code = 0
    except BaseException:  # noqa: BLE001 - reported, then the child ends whatever it was
        sys.excepthook(*sys.exc_info())
    os._exit(code)


def scenario_for(point: str, scenarios: Mapping[str, Kind]) -> Kind:
    """Return the scenario that reaches a point."""
    return next(kind for prefix, kind in scenarios.items() if point.startswith(prefix))
