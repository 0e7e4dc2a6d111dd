"""Lag trend: the last lag measures of a cursor, as one word and as a small line.

Derived from the backlog and the messages processed between two measures. Knows no store.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from statistics import mean
from typing import Final, Literal, NamedTuple

#: `climb`: more comes in than goes out. `staircase`: it stands again and again, and what is left
#: grows meanwhile. `plateau`: something is left, and nothing moves. `saw-tooth`: it falls behind
#: and catches up. `quiet`: there is no backlog. `unknown`: not measured.
Shape = Literal["climb", "staircase", "plateau", "saw-tooth", "quiet", "unknown"]
#: Fewer measures give no trend.
SAMPLES_MIN: Final = 4
#: So many measures in a row without any progress, and it stands.
_STILL_MIN: Final = 3
#: It grew, or it fell, by so much of the most there was.
_GROWTH_MIN: Final = 0.2


class Sample(NamedTuple):
    """One measure."""

    #: How long ago it was taken.
    seconds_ago: float
    processed: int
    #: The backlog; None when the source cannot count.
    left: int | None


def shape_of(samples: Sequence[Sample]) -> Shape:
    """Return the shape of measures, the oldest first."""
    left = [each.left for each in samples if each.left is not None]
    if len(left) < max(SAMPLES_MIN, len(samples)):
        return "unknown"
    if _is_quiet(left):
        return "quiet"
    steps = [later.processed - earlier.processed for earlier, later in pairwise(samples)]
    if left[-1] > 0 and not any(steps[-max(_STILL_MIN, len(steps) // 3) :]):
        return "plateau"
    growth = _growth(left)
    if _stands(steps) and growth > -_GROWTH_MIN:
        return "staircase"
    return "climb" if growth > _GROWTH_MIN else "saw-tooth"


def spark_of(samples: Sequence[Sample]) -> list[int]:
    """Return what was left over time, or what was processed between measures if that is unknown."""
    if samples and all(each.left is not None for each in samples):
        return [each.left or 0 for each in samples]
    return [max(0, later.processed - earlier.processed) for earlier, later in pairwise(samples)]


def _is_quiet(left: Sequence[int]) -> bool:
    """Say whether next to nothing is left, most of the time, and now."""
    return left[-1] == 0 and sum(each == 0 for each in left) * 4 >= len(left) * 3


def _growth(left: Sequence[int]) -> float:
    """Return how much more was left in the end than at first, as a part of the most there was."""
    third = max(1, len(left) // 3)
    return (mean(left[-third:]) - mean(left[:third])) / max(left)


def _stands(steps: Sequence[int]) -> bool:
    """Say whether it stood at least twice for a while, and moved in between."""
    runs = [(moved, len(list(run))) for moved, run in groupby(steps, key=lambda step: step > 0)]
    stands = [length for moved, length in runs if not moved and length >= _STILL_MIN]
    return len(stands) > 1 and any(moved for moved, _ in runs)
