"""Lag trend: classify a cursor's recent lag samples, and reduce them to a sparkline.

Derived from the backlog and the messages processed between two samples. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from statistics import mean
from typing import Final, Literal, NamedTuple

#: `climb`: messages arrive faster than they are processed. `staircase`: the cursor stops
#: repeatedly, and its backlog grows. `plateau`: there is a backlog, and no progress. `saw-tooth`:
#: the cursor falls behind and catches up. `quiet`: there is no backlog. `unknown`: too few samples.
Shape = Literal["climb", "staircase", "plateau", "saw-tooth", "quiet", "unknown"]
#: Minimum number of samples for a trend.
SAMPLES_MIN: Final = 4
#: Samples in a row without progress after which the cursor counts as stopped.
_STILL_MIN: Final = 3
#: Minimum change of the backlog, as a share of its maximum, to count as growing or falling.
_GROWTH_MIN: Final = 0.2


class Sample(NamedTuple):
    """One lag sample."""

    #: Age of the sample in seconds.
    seconds_ago: float
    processed: int
    #: The backlog; None when the source cannot count.
    left: int | None


def shape_of(samples: Sequence[Sample]) -> Shape:
    """Return the trend of samples, given oldest first."""
    left = [each.left for each in samples if each.left is not None]
    if len(left) < max(SAMPLES_MIN, len(samples)):
        return "unknown"
    if _is_quiet(left):
        return "quiet"
    steps = [later.processed - earlier.processed for earlier, later in pairwise(samples)]
    if left[-1] > 0 and not any(steps[-max(_STILL_MIN, len(steps) // 3) :]):
        return "plateau"
    growth = _growth(left)
    if _stops_repeatedly(steps) and growth > -_GROWTH_MIN:
        return "staircase"
    return "climb" if growth > _GROWTH_MIN else "saw-tooth"


def spark_of(samples: Sequence[Sample]) -> list[int]:
    """Return the backlog over time, or messages processed per interval if it is unknown."""
    if samples and all(each.left is not None for each in samples):
        return [each.left or 0 for each in samples]
    return [max(0, later.processed - earlier.processed) for earlier, later in pairwise(samples)]


def _is_quiet(left: Sequence[int]) -> bool:
    """Return whether the backlog is almost empty, now and most of the time."""
    return left[-1] == 0 and sum(each == 0 for each in left) * 4 >= len(left) * 3


def _growth(left: Sequence[int]) -> float:
    """Return the growth of the backlog, as a share of its maximum."""
    third = max(1, len(left) // 3)
    return (mean(left[-third:]) - mean(left[:third])) / max(left)


def _stops_repeatedly(steps: Sequence[int]) -> bool:
    """Return whether the cursor stopped at least twice and progressed in between."""
    runs = [(moved, len(list(run))) for moved, run in groupby(steps, key=lambda step: step > 0)]
    stands = [length for moved, length in runs if not moved and length >= _STILL_MIN]
    return len(stands) > 1 and any(moved for moved, _ in runs)
