"""Counts: how many rows each area has, counted in the background, never in a request.

Spends a twentieth of its time on counting at the most: what takes long to count is counted seldom.
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

#: How often it counts at the most.
COUNT_SECONDS: Final = 2.0
#: What is counted, by which query, in the order of its columns.
_QUERIES: Final = {
    "area_count_dead": ("dead",),
    "area_count_outcomes": ("running", "ambiguous"),
    "area_count_alerts": ("alerts",),
    "area_count_parked": ("parked",),
    "area_count_conversations": ("conversations_dead",),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class AreaCounts:
    """How many of everything there are."""

    #: Messages that were given up and wait for a person.
    dead: int = 0
    #: Keys at work, and keys whose work was begun and fell silent.
    running: int = 0
    ambiguous: int = 0
    #: Alerts that fire.
    alerts: int = 0
    #: Messages that were set aside and are tried again.
    parked: int = 0
    #: Deliveries to agents that were given up and wait for a person.
    conversations_dead: int = 0
    #: When this was so; None before the first count.
    as_of: str | None = None


class CountSampler:
    """The counts of one store, as of a moment ago."""

    def __init__(self, ow: Callable[[], Onceward], *, clock: Clock | None = None) -> None:
        """Count what this store holds, once started."""
        self._ow = ow
        self._clock = clock or SystemClock()
        self._counts = AreaCounts()
        self._thread = ThrottledLoop(
            "counts_sampler", self.count, least_seconds=COUNT_SECONDS, clock=clock
        )
        #: Count in a thread from now on, and no more.
        self.start, self.stop = self._thread.start, self._thread.stop

    def counts(self) -> AreaCounts:
        """Return the last counts, and when they were true."""
        return self._counts

    def count(self) -> None:
        """Count everything once."""
        with suppress(OncewardError):  # Then the old counts stay, and say how old they are.
            self._counts = self._counted()

    def _counted(self) -> AreaCounts:
        as_of = timestamp(self._clock.now())
        store, found = self._ow().store, dict[str, int]()
        for query, names in _QUERIES.items():
            (row,) = store.read(query)
            found |= dict(zip(names, row, strict=True))
        return AreaCounts(**found, as_of=as_of)
