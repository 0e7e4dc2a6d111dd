"""Timings: how long handlers take, counted in buckets. One addition for each call of a handler."""

from __future__ import annotations

import threading
from bisect import bisect_left
from typing import Final

#: Upper ends of the buckets, in seconds; what takes longer falls into one without an end.
BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Timing:
    """What one consumer's handler took."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        """Begin at nothing."""
        #: By bucket, the one without an end last; not added up.
        self.counts = [0] * (len(BUCKETS) + 1)
        #: All of them together.
        self.seconds = 0.0


class Timings:
    """The handlers of one process."""

    def __init__(self) -> None:
        """Know none."""
        self._mutex = threading.Lock()
        #: By consumer, not by cursor: there may be ten thousand of those.
        self.by_consumer: dict[str, Timing] = {}

    def observe(self, consumer: str, seconds: float) -> None:
        """Count one call of a handler."""
        place = bisect_left(BUCKETS, seconds)
        with self._mutex:
            timing = self.by_consumer.get(consumer)
            if timing is None:
                timing = self.by_consumer[consumer] = Timing()
            timing.counts[place] += 1
            timing.seconds += seconds
