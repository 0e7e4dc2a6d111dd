"""Counts: how many rows each area has, counted in the background, never in a request.

Spends at most a twentieth of its time on counting, so slow counts run rarely.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from onceward.client import Onceward
from onceward.console.throttled_loop import ThrottledLoop
from onceward.errors import OncewardError
from onceward.system import Clock, SystemClock, timestamp

#: Minimum interval between counts.
COUNT_SECONDS: Final = 2.0
#: The counts of each query, in the order of its columns.
_QUERIES: Final = {
    "area_count_dead": ("dead",),
    "area_count_outcomes": ("running", "ambiguous"),
    "area_count_alerts": ("alerts",),
    "area_count_parked": ("parked",),
    "area_count_conversations": ("conversations_dead",),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class AreaCounts:
    """The counts of one store."""

    #: Dead letters of workers that wait for a decision.
    dead: int = 0
    #: Running keys, and ambiguous keys.
    running: int = 0
    ambiguous: int = 0
    #: Firing alerts.
    alerts: int = 0
    #: Parked messages.
    parked: int = 0
    #: Dead letters of conversations that wait for a decision.
    conversations_dead: int = 0
    #: When the counts were taken; None before the first count.
    as_of: str | None = None


class CountSampler:
    """Counts the rows of one store in a background thread."""

    def __init__(self, ow: Callable[[], Onceward], *, clock: Clock | None = None) -> None:
        """Count this store's rows after `start`."""
        self._ow = ow
        self._clock = clock or SystemClock()
        self._counts = AreaCounts()
        self._thread = ThrottledLoop(
            "counts_sampler", self.count, least_seconds=COUNT_SECONDS, clock=clock
        )
        #: Start and stop the background thread.
        self.start, self.stop = self._thread.start, self._thread.stop

    def counts(self) -> AreaCounts:
        """Return the last counts and their time."""
        return self._counts

    def count(self) -> None:
        """Count everything once."""
        with suppress(OncewardError):  # After an error the old counts stay, with their time.
            self._counts = self._counted()

    def _counted(self) -> AreaCounts:
        as_of = timestamp(self._clock.now())
        store, found = self._ow().store, dict[str, int]()
        for query, names in _QUERIES.items():
            (row,) = store.read(query)
            found |= dict(zip(names, row, strict=True))
        return AreaCounts(**found, as_of=as_of)
