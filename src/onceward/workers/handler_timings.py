"""Handler timings: count the durations of handler calls in a histogram, per consumer."""

from __future__ import annotations

import threading
from bisect import bisect_left
from typing import Final

#: Upper bounds of the buckets in seconds; the last, implicit bucket is unbounded.
BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class HandlerTiming:
    """The durations of one consumer's handler."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        """Start at zero."""
        #: Calls per bucket, not cumulative; the unbounded bucket is last.
        self.counts = [0] * (len(BUCKETS) + 1)
        #: Sum of all durations.
        self.seconds = 0.0


class HandlerTimings:
    """The handler durations of one process. Safe to use from several threads."""

    def __init__(self) -> None:
        """Start empty."""
        self._mutex = threading.Lock()
        #: By consumer, not by cursor: there may be ten thousand cursors.
        self.by_consumer: dict[str, HandlerTiming] = {}

    def observe(self, consumer: str, seconds: float) -> None:
        """Count one handler call."""
        bucket = bisect_left(BUCKETS, seconds)
        with self._mutex:
            timing = self.by_consumer.get(consumer)
            if timing is None:
                timing = self.by_consumer[consumer] = HandlerTiming()
            timing.counts[bucket] += 1
            timing.seconds += seconds
