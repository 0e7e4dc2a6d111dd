"""Pruning: what is only kept to be looked at is not kept for ever.

Grants, refusals, samples and workers of long ago are removed by whoever runs anyway, a few at a
time, so that nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from onceward.handle import Onceward
from onceward.seams import Clock, Randomness, SystemClock, SystemRandomness
from onceward.stores.batches import BATCH_ROWS, in_batches
from onceward.workers.rounds import rounds

DAY_SECONDS: Final = 24 * 3600.0
#: How long who had a cursor, and who was refused, is kept.
TRACES_SECONDS: Final = 7 * DAY_SECONDS
#: More of each are not kept, however young: partitions come and go by the second.
TRACES_ROWS_MAX: Final = 1_000_000
#: How long where a cursor was, and which workers there were, is kept.
SAMPLES_SECONDS: Final = DAY_SECONDS
WORKERS_SECONDS: Final = DAY_SECONDS
#: A sample that is further ahead is of a clock that was wrong.
AHEAD_SECONDS: Final = 3600.0
#: How often one process looks.
PRUNE_SECONDS: Final = 60.0
#: Commits for one table in one look.
BATCHES_MAX: Final = 20
_QUERIES: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("grant_prune", {"seconds": TRACES_SECONDS, "most": TRACES_ROWS_MAX}),
    ("refusal_prune", {"seconds": TRACES_SECONDS, "most": TRACES_ROWS_MAX}),
    ("sample_prune", {"seconds": SAMPLES_SECONDS, "ahead": AHEAD_SECONDS}),
    ("worker_prune", {"seconds": WORKERS_SECONDS}),
)


class Pruning:
    """What one process removes."""

    def __init__(
        self, ow: Onceward, *, clock: Clock | None = None, randomness: Randomness | None = None
    ) -> None:
        """Begin at some moment of the first minute: many processes start at once."""
        self._ow = ow
        self._clock = clock or SystemClock()
        self._randomness = randomness or SystemRandomness()
        self._due = self._clock.monotonic() + PRUNE_SECONDS * self._randomness.fraction()

    def tick(self) -> int:
        """Remove what is too old, if it is time to look; return how much."""
        now = self._clock.monotonic()
        if now < self._due:
            return 0
        self._due = now + PRUNE_SECONDS * (0.9 + 0.2 * self._randomness.fraction())
        return sum(self._prune(name, params) for name, params in _QUERIES)

    def _prune(self, name: str, params: dict[str, Any]) -> int:
        def commit(rows: int) -> int:
            return len(self._ow.store.write_query(name, **params, limit=rows))

        return in_batches(commit, rows=BATCH_ROWS, batches_max=BATCHES_MAX, clock=self._clock)


@contextmanager
def pruning(ow: Callable[[], Onceward]) -> Iterator[None]:
    """Prune in a thread while the block runs; `ow` is called there, again until it succeeds."""
    made: list[Pruning] = []

    def go() -> float:
        if not made:
            made.append(Pruning(ow()))
        made[0].tick()
        return PRUNE_SECONDS / 4

    # Nothing of it matters at an end, and a store that is away would be waited for.
    with rounds("pruning", go, stop_seconds=0.0):
        yield
