"""Takeover delay (SQLite only): do not take a lease over right after a wait for the write lock.

A worker's heartbeat and a candidate for takeover queue for the same write lock. If the candidate
got it first, it could take the lease of a live worker. A candidate that had to wait therefore
retries one heartbeat later. PostgreSQL renewals never block, so this has no effect there.
"""

from __future__ import annotations

from typing import Final

from onceward.cursors.models import CursorState, Epoch

#: A shorter wait for the write lock does not count as waiting.
WAIT_SECONDS_MAX: Final = 0.1
#: Beyond this number of cursors the oldest is discarded, at the cost of one more postponement.
REMEMBERED_MAX: Final = 10_000


class TakeoverDelay:
    """Cursors whose takeover was postponed, by name."""

    def __init__(self) -> None:
        """Begin without any."""
        self._postponed: dict[str, tuple[Epoch, float]] = {}

    def is_postponed(self, seen: CursorState, now: float) -> bool:
        """Return whether this epoch was seen less than one heartbeat ago."""
        epoch, until = self._postponed.get(seen.name, (None, 0.0))
        return epoch == seen.epoch and now < until

    def wait_seconds_max(self, seen: CursorState | None, heartbeat_seconds: float) -> float:
        """Return the wait for the lock that postpones a takeover: longer at the second attempt."""
        if seen is not None and self._postponed.get(seen.name, (None, 0.0))[0] == seen.epoch:
            return max(WAIT_SECONDS_MAX, heartbeat_seconds)
        return WAIT_SECONDS_MAX

    def postpone(self, seen: CursorState, until: float) -> None:
        """Retry this cursor no earlier than `until`."""
        self._postponed.pop(seen.name, None)
        self._postponed[seen.name] = (seen.epoch, until)
        if len(self._postponed) > REMEMBERED_MAX:
            del self._postponed[next(iter(self._postponed))]

    def forget(self, name: str) -> None:
        """Discard a cursor that was acquired."""
        self._postponed.pop(name, None)
