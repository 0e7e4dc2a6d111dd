"""Tallies: how many of everything there are, counted in the background, never when somebody asks.

Spends a twentieth of its time on counting at the most: what takes long to count is counted seldom.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from onceward.console.resting import Resting
from onceward.errors import OncewardError
from onceward.handle import Onceward
from onceward.seams import Clock, SystemClock, timestamp

#: How often it counts at the most.
COUNT_SECONDS: Final = 2.0
#: What is counted, by which query, in the order of its columns.
_QUERIES: Final = {
    "tally_dead": ("dead",),
    "tally_outcomes": ("running", "ambiguous"),
    "tally_alerts": ("alerts",),
    "tally_parked": ("parked",),
    "tally_conversations": ("conversations_dead",),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
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


class Tallies:
    """The counts of one store, as of a moment ago."""

    def __init__(self, ow: Callable[[], Onceward], *, clock: Clock | None = None) -> None:
        """Count what this store holds, once started."""
        self._ow = ow
        self._clock = clock or SystemClock()
        self._counts = Counts()
        self._thread = Resting("tallies", self.count, least_seconds=COUNT_SECONDS, clock=clock)
        #: Count in a thread from now on, and no more.
        self.start, self.stop = self._thread.start, self._thread.stop

    def counts(self) -> Counts:
        """Return the last counts, and when they were true."""
        return self._counts

    def count(self) -> None:
        """Count everything once."""
        with suppress(OncewardError):  # Then the old counts stay, and say how old they are.
            self._counts = self._counted()

    def _counted(self) -> Counts:
        as_of = timestamp(self._clock.now())
        store, found = self._ow().store, dict[str, int]()
        for query, names in _QUERIES.items():
            (row,) = store.read(query)
            found |= dict(zip(names, row, strict=True))
        return Counts(**found, as_of=as_of)
