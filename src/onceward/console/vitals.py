"""Vitals: how the house has done in the last hour, measured now and then, kept in memory.

Whoever opens a page gets what was measured last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from onceward.console.resting import Resting
from onceward.errors import OncewardError
from onceward.handle import Onceward
from onceward.seams import Clock, SystemClock, timestamp

MEASURE_SECONDS: Final = 10.0
#: An hour.
KEPT_MAX: Final = 360


@dataclass(frozen=True, kw_only=True, slots=True)
class Vital:
    """One measure of everything."""

    at: str
    #: How long the oldest message waits that nobody has processed; 0 when there is none.
    lag_seconds: float
    cursors: int
    held: int
    #: Left by holders whose lease ran out.
    expired: int
    paused: int
    #: Messages processed by all cursors in all their lives.
    processed: int


class Vitals:
    """The last hour of one store."""

    def __init__(self, ow: Callable[[], Onceward], *, clock: Clock | None = None) -> None:
        """Know nothing yet."""
        self._ow = ow
        self._clock = clock or SystemClock()
        self._kept: deque[Vital] = deque(maxlen=KEPT_MAX)
        self._thread = Resting("vitals", self._try, least_seconds=MEASURE_SECONDS, clock=clock)
        #: Measure in a thread from now on, and no more.
        self.start, self.stop = self._thread.start, self._thread.stop

    def history(self) -> tuple[Vital, ...]:
        """Return the last hour, the oldest first."""
        return tuple(self._kept)

    def measure(self) -> Vital:
        """Measure now."""
        store = self._ow().store
        ((cursors, held, expired, paused, processed),) = store.read("overview_leases")
        ((lag,),) = store.read("overview_lag")
        vital = Vital(
            at=timestamp(self._clock.now()),
            lag_seconds=lag or 0.0,
            cursors=cursors,
            held=held,
            expired=expired,
            paused=paused,
            processed=processed,
        )
        self._kept.append(vital)
        return vital

    def _try(self) -> None:
        with suppress(OncewardError):  # A store that is away has nothing to tell.
            self.measure()
