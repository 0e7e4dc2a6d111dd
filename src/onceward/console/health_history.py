"""Health history: the last hour of the console's health measures, kept in memory.

A newly opened page gets the samples taken before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from onceward.client import Onceward
from onceward.console.throttled_loop import ThrottledLoop
from onceward.errors import OncewardError
from onceward.system import Clock, SystemClock, timestamp

MEASURE_SECONDS: Final = 10.0
#: An hour.
KEPT_MAX: Final = 360


@dataclass(frozen=True, kw_only=True, slots=True)
class HealthSample:
    """One sample of a store's health."""

    at: str
    #: Age of the oldest unprocessed message; 0 when there is none.
    lag_seconds: float
    cursors: int
    held: int
    #: Cursors whose lease expired.
    expired: int
    paused: int
    #: Messages processed by all cursors since their creation.
    processed: int


class HealthHistory:
    """Samples of one store's health over the last hour."""

    def __init__(self, ow: Callable[[], Onceward], *, clock: Clock | None = None) -> None:
        """Create an empty history."""
        self._ow = ow
        self._clock = clock or SystemClock()
        self._kept: deque[HealthSample] = deque(maxlen=KEPT_MAX)
        self._thread = ThrottledLoop(
            "health", self._try, least_seconds=MEASURE_SECONDS, clock=clock
        )
        #: Measure in a thread from now on, and no more.
        self.start, self.stop = self._thread.start, self._thread.stop

    def history(self) -> tuple[HealthSample, ...]:
        """Return the samples of the last hour, oldest first."""
        return tuple(self._kept)

    def measure(self) -> HealthSample:
        """Take a sample now."""
        store = self._ow().store
        ((cursors, held, expired, paused, processed),) = store.read("overview_leases")
        ((lag,),) = store.read("overview_lag")
        sample = HealthSample(
            at=timestamp(self._clock.now()),
            lag_seconds=lag or 0.0,
            cursors=cursors,
            held=held,
            expired=expired,
            paused=paused,
            processed=processed,
        )
        self._kept.append(sample)
        return sample

    def _try(self) -> None:
        with suppress(OncewardError):  # An unavailable store has no sample.
            self.measure()
