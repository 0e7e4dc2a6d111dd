"""Patience: a thief that had to wait for SQLite's write lock looks again one heartbeat later.

While a handler writes, its worker's heartbeat waits for the same lock as a thief does. Whoever
comes first afterwards would win, and a thief must not: the worker is alive. On PostgreSQL renewals
wait for nobody, so nothing here comes into effect.
"""

from __future__ import annotations

from typing import Final

from onceward.cursors.models import CursorState, Epoch

#: To wait less than this for the write lock is not to wait.
WAIT_SECONDS_MAX: Final = 0.1
#: Cursors remembered; beyond it the oldest is forgotten and merely looked at twice again.
REMEMBERED_MAX: Final = 10_000


class Patience:
    """The cursors that were not taken although their leases seemed to have run out."""

    def __init__(self) -> None:
        """Remember nothing."""
        self._looked: dict[str, tuple[Epoch, float]] = {}

    def is_too_early(self, seen: CursorState, now: float) -> bool:
        """Say whether this epoch was looked at less than a heartbeat ago."""
        epoch, again = self._looked.get(seen.name, (None, 0.0))
        return epoch == seen.epoch and now < again

    def wait_seconds_max(self, seen: CursorState | None, heartbeat_seconds: float) -> float:
        """Return the wait from which on a thief gives way: longer at the second look."""
        if seen is not None and self._looked.get(seen.name, (None, 0.0))[0] == seen.epoch:
            return max(WAIT_SECONDS_MAX, heartbeat_seconds)
        return WAIT_SECONDS_MAX

    def gave_way(self, seen: CursorState, until: float) -> None:
        """Remember when to look again."""
        self._looked.pop(seen.name, None)
        self._looked[seen.name] = (seen.epoch, until)
        if len(self._looked) > REMEMBERED_MAX:
            del self._looked[next(iter(self._looked))]

    def forget(self, name: str) -> None:
        """Forget a cursor that is ours now."""
        self._looked.pop(name, None)
