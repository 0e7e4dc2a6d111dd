"""Pruning: remove history that is older than the configured retention.

Every worker process and every `onceward up` does it, a few rows per commit and with pauses, so that
other writers do not wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from onceward.client import Onceward
from onceward.errors import StoreBusy, StoreUnavailable
from onceward.stores.batched_deletes import BATCH_ROWS, in_batches
from onceward.system import Clock, Randomness, SystemClock, SystemRandomness
from onceward.workers.periodic import repeating
from onceward.workers.retention import DAY_SECONDS, Retention

#: Limit of stored grants and of rejected writes, however young: partitions change every second.
LEASE_HISTORY_ROWS_MAX: Final = 1_000_000
#: Recorded as the actor that drops an old dead letter.
ACTOR: Final = "onceward"
#: Samples further in the future come from a wrong clock.
AHEAD_SECONDS: Final = 3600.0
#: Pruning interval of one process.
PRUNE_SECONDS: Final = 60.0
#: Commits per table and run.
BATCHES_MAX: Final = 20


def queries(kept: Retention) -> dict[str, dict[str, Any]]:
    """Return the statements that remove old rows, each with its parameters.

    Without the cursors' history, most of whose rows may stay: see `Pruner`.
    """
    grants = {"seconds": kept.grants_days * DAY_SECONDS, "most": LEASE_HISTORY_ROWS_MAX}
    found: dict[str, dict[str, Any]] = {
        "grant_prune": grants,
        "rejected_write_prune": grants,
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


class Pruner:
    """Removes old history on behalf of one process."""

    def __init__(
        self,
        ow: Onceward,
        retention: Retention | None = None,
        *,
        clock: Clock | None = None,
        randomness: Randomness | None = None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """Start at a random moment of the first minute, since many processes start together.

        `is_over` returns whether the store will be closed, so that no further batch starts.
        """
        self._ow, self._is_over = ow, is_over
        kept = retention or Retention()
        self._queries = queries(kept)
        self._history_seconds = kept.history_days * DAY_SECONDS
        #: The last examined entry of the cursors' history; 0 to start from the beginning.
        self._history_position = 0
        self._clock = clock or SystemClock()
        self._randomness = randomness or SystemRandomness()
        self._due = self._clock.monotonic() + PRUNE_SECONDS * self._randomness.fraction()

    def run_if_due(self) -> int:
        """Remove old rows if a run is due; return how many."""
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
        """Examine the next entries of the cursors' history, and remove old ones.

        The last entries of each cursor stay, however old. So a run resumes where the previous one
        stopped, and restarts at the end. It stops at a window without old entries, although later
        ones may be old if a clock was ahead.
        """
        store, seconds, removed = self._ow.store, self._history_seconds, 0

        def commit(rows: int) -> int:
            nonlocal removed
            if self._is_over():
                return 0
            after = self._history_position
            params = {"after": after, "limit": rows, "seconds": seconds}
            ((upto, count, old),) = store.read("history_window", **params)
            if old:
                params = {"after": after, "upto": upto, "seconds": seconds}
                removed += len(store.write_query("history_prune", **params))
            is_full = count == rows
            self._history_position = upto if is_full else 0
            return rows if is_full and old else 0

        in_batches(commit, rows=BATCH_ROWS, batches_max=BATCHES_MAX, clock=self._clock)
        return removed


@contextmanager
def pruning(ow: Callable[[], Onceward], retention: Retention | None = None) -> Iterator[None]:
    """Prune in a thread while the block runs; `ow` is called there, again until it succeeds."""
    made: list[Pruner] = []
    over = threading.Event()

    def go() -> float:
        if not made:
            made.append(Pruner(ow(), retention, is_over=over.is_set))
        # An unavailable store is logged by its users; the next run tries again.
        with suppress(StoreUnavailable, StoreBusy):
            made[0].run_if_due()
        return PRUNE_SECONDS / 4

    with repeating("pruning", go):
        try:
            yield
        finally:
            over.set()
