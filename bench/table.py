"""Hold what was compared with what, and decide whether each goal was met.

`cells` formats it. Ratios count; absolute times are those of one machine.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from bench.timing import Seconds, Spread, spread

#: Shows the seconds of a piece of work in the unit that people expect.
Shown = Callable[[float], str]
#: `peer` does the same work, `limit` is the bare loop below it, `growth` is ours on less, and
#: `bound` is a number that was set beforehand.
Kind = Literal["peer", "limit", "growth", "bound"]
KINDS: tuple[Kind, ...] = ("peer", "limit", "growth", "bound")


@dataclass(frozen=True, kw_only=True, slots=True)
class Beside:
    """What our work is held against."""

    kind: Kind
    #: Who or what it is, with its version.
    name: str = ""
    #: Of a piece of work, one for each repetition; none for a bound, or where it is missing.
    seconds: Seconds = ()
    #: A ratio; for a bound, seconds. None where nothing was promised.
    goal: float | None = None
    #: Why the goal is missed, from what was measured; shown only then.
    why: str = ""
    #: Why it could not be had.
    missing: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One kind of work."""

    work: str
    #: Of a piece of work, one for each repetition.
    ours: Seconds
    shown: Shown
    #: At most one of each kind.
    besides: tuple[Beside, ...]
    #: Whether it is one of the few that the README shows.
    is_headline: bool = False

    def beside(self, kind: Kind) -> Beside | None:
        """Return what of this kind stands beside it."""
        return next((each for each in self.besides if each.kind == kind), None)

    def ratio(self, beside: Beside) -> Spread:
        """Return how many times as fast we are, our share, how much it grew, or seconds.

        Each repetition has a ratio of its own, since both sides of it met the same machine.
        """
        if beside.kind == "bound":
            return spread(self.ours)
        if beside.missing:
            return Spread(math.nan, math.nan, math.nan)
        pairs = zip(self.ours, beside.seconds, strict=True)
        if beside.kind == "growth":
            return spread(tuple(mine / other for mine, other in pairs))
        return spread(tuple(other / mine for mine, other in pairs))

    def is_met(self, beside: Beside) -> bool | None:
        """Say whether the goal was reached; None without a goal or a peer."""
        if beside.goal is None or beside.missing:
            return None
        median = self.ratio(beside).median
        if beside.kind in ("growth", "bound"):
            return median <= beside.goal
        return median >= beside.goal

    @property
    def missing(self) -> list[str]:
        """Return what could not be had, and why."""
        return [each.missing for each in self.besides if each.missing]

    @property
    def missed(self) -> list[Beside]:
        """Return the goals that were not reached."""
        return [each for each in self.besides if self.is_met(each) is False]


def limit(name: str, seconds: Seconds, goal: float | None = None, why: str = "") -> Beside:
    """Return a bare loop that does only what cannot be left out."""
    return Beside(kind="limit", name=name, seconds=seconds, goal=goal, why=why)


def growth(name: str, seconds: Seconds, goal: float | None = None, why: str = "") -> Beside:
    """Return the same work of ours with less around it."""
    return Beside(kind="growth", name=name, seconds=seconds, goal=goal, why=why)


def bound(goal: float, why: str = "") -> Beside:
    """Return a number that ours must stay below."""
    return Beside(kind="bound", goal=goal, why=why)


def itself(name: str, seconds: Seconds, goal: float, why: str = "") -> Beside:
    """Return another way of ours to do the work, as a peer."""
    return Beside(kind="peer", name=name, seconds=seconds, goal=goal, why=why)
