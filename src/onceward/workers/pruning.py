"""Pruning: what is only kept to be looked at is not kept for ever.

Every worker process and every `onceward up` removes what is older than the retention, a few rows in
a commit, with pauses, so that other writers do not wait for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from onceward.errors import StoreBusy, StoreUnavailable
from onceward.handle import Onceward
from onceward.seams import Clock, Randomness, SystemClock, SystemRandomness
from onceward.stores.batches import BATCH_ROWS, in_batches
from onceward.workers.retention import DAY_SECONDS, Retention
from onceward.workers.rounds import rounds

#: More grants, and more rejected writes, are not kept, however young: partitions come and go by the
#: second.
TRACES_ROWS_MAX: Final = 1_000_000
#: Who drops a dead letter that is too old, as its record says.
ACTOR: Final = "onceward"
#: A sample that is further ahead is of a clock that was wrong.
AHEAD_SECONDS: Final = 3600.0
#: How often one process looks.
PRUNE_SECONDS: Final = 60.0
#: Commits for one table in one look.
BATCHES_MAX: Final = 20


def queries(kept: Retention) -> dict[str, dict[str, Any]]:
    """Return the statements that remove what is too old, each with what it is told.

    All but that of the cursors' history, most of which may stay: see `Pruning`.
    """
    grants = {"seconds": kept.grants_days * DAY_SECONDS, "most": TRACES_ROWS_MAX}
    found: dict[str, dict[str, Any]] = {
        "grant_prune": grants,
        "refusal_prune": grants,
        "sample_prune": {"seconds": kept.samples_days * DAY_SECONDS, "ahead": AHEAD_SECONDS},
        "worker_prune": {"seconds": kept.workers_days * DAY_SECONDS},
        "dead_prune": {"seconds": kept.settled_letters_days * DAY_SECONDS},
    }
    if kept.dead_letters_days is not None:
        found["dead_expire"] = {
            "seconds": kept.dead_letters_days * DAY_SECONDS,
            "actor": ACTOR,
            "reason": f"dead for {kept.dead_letters_days:g} days",
        }
    return found


class Pruning:
    """What one process removes."""

    def __init__(
        self,
        ow: Onceward,
        retention: Retention | None = None,
        *,
        clock: Clock | None = None,
        randomness: Randomness | None = None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """Begin at some moment of the first minute: many processes start at once.

        `is_over` says that no further batch is wanted, since the store will be closed.
        """
        self._ow, self._is_over = ow, is_over
        kept = retention or Retention()
        self._queries = queries(kept)
        self._history_seconds = kept.history_days * DAY_SECONDS
        #: The last entry of the cursors' history that was looked at; 0 to begin again.
        self._history_place = 0
        self._clock = clock or SystemClock()
        self._randomness = randomness or SystemRandomness()
        self._due = self._clock.monotonic() + PRUNE_SECONDS * self._randomness.fraction()

    def tick(self) -> int:
        """Remove what is too old, if it is time to look; return how much."""
        now = self._clock.monotonic()
        if now < self._due:
            return 0
        self._due = now + PRUNE_SECONDS * (0.9 + 0.2 * self._randomness.fraction())
        removed = sum(self._prune(name, params) for name, params in self._queries.items())
        return removed + self._prune_history()

    def _prune(self, name: str, params: dict[str, Any]) -> int:
        def commit(rows: int) -> int:
            if self._is_over():
                return 0
            return len(self._ow.store.write_query(name, **params, limit=rows))

        return in_batches(commit, rows=BATCH_ROWS, batches_max=BATCHES_MAX, clock=self._clock)

    def _prune_history(self) -> int:
        """Look at the next entries of the cursors' history, and remove what is too old of them.

        The last entries of cursors stay, however old, and there may be any number of them. So a
        look goes on where the one before ended, and at the end begins again. It ends where none is
        old. What follows may still be: a clock may have been ahead.
        """
        store, seconds, removed = self._ow.store, self._history_seconds, 0

        def commit(rows: int) -> int:
            nonlocal removed
            if self._is_over():
                return 0
            after = self._history_place
            params = {"after": after, "limit": rows, "seconds": seconds}
            ((upto, count, old),) = store.read("history_window", **params)
            if old:
                params = {"after": after, "upto": upto, "seconds": seconds}
                removed += len(store.write_query("history_prune", **params))
            is_full = count == rows
            self._history_place = upto if is_full else 0
            return rows if is_full and old else 0

        in_batches(commit, rows=BATCH_ROWS, batches_max=BATCHES_MAX, clock=self._clock)
        return removed


@contextmanager
def pruning(ow: Callable[[], Onceward], retention: Retention | None = None) -> Iterator[None]:
    """Prune in a thread while the block runs; `ow` is called there, again until it succeeds."""
    made: list[Pruning] = []
    over = threading.Event()

    def go() -> float:
        if not made:
            made.append(Pruning(ow(), retention, is_over=over.is_set))
        # A store that is away is told of by what works in it; the next round looks again.
        with suppress(StoreUnavailable, StoreBusy):
            made[0].tick()
        return PRUNE_SECONDS / 4

    with rounds("pruning", go):
        try:
            yield
        finally:
            over.set()
