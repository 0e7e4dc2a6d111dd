"""Cursor blockers: why a cursor makes no progress, in a sentence. No store."""

from __future__ import annotations

from typing import Final, NamedTuple

from onceward.cursors import CursorState
from onceward.workers.lag_records import LagMeasurement
from onceward.workers.views import state_name

#: A free cursor with waiting messages is reported after this: a live worker polls sooner.
UNSEEN_SECONDS: Final = 60.0
_QUOTED_CHARACTERS_MAX: Final = 200


class CursorDetails(NamedTuple):
    """What else is known of a cursor: a row of `cursor_beside`."""

    cursor: str
    #: The last entry of its history.
    last_entry: int | None
    #: Who paused it, and why, while it is paused.
    paused_by: str | None
    pause_reason: str | None
    #: The message that fails and holds it.
    failing_position: str | None
    attempt: int | None
    due_at: str | None
    first_failed_at: str | None
    error: str | None
    #: How many messages wait beside it, and how many were given up, as far as they were counted.
    parked: int
    dead: int
    #: How long ago its lease expired; negative while it is valid.
    expired_seconds: float | None
    #: How long until the failing message is tried again.
    due_seconds: float | None

    @property
    def failing(self) -> dict[str, object] | None:
        """Return the message that fails and holds it, if there is one."""
        if self.attempt is None:
            return None
        return {
            "position": self.failing_position,
            "attempt": self.attempt,
            "due_at": self.due_at,
            "first_failed_at": self.first_failed_at,
            "error": self.error,
        }


def blocked_because(
    state: CursorState, measure: LagMeasurement | None, beside: CursorDetails
) -> str | None:
    """Return why a cursor does not go on; None when nothing is in its way."""
    if state.is_paused:
        return _paused(beside)
    if beside.attempt is not None:
        return f"a failing message holds it: attempt {beside.attempt} failed, {_next(beside)}"
    if state_name(state) == "expired":
        return f"the lease of {state.lease_owner} expired{_ago(beside)}, and no worker took over"
    return _waiting(state, measure) if measure else None


def _waiting(state: CursorState, measure: LagMeasurement) -> str | None:
    is_behind = measure.messages != 0 and bool(measure.lag_seconds)
    if is_behind and not state.is_held and measure.age_seconds > UNSEEN_SECONDS:
        return f"no worker has looked for {_told(measure.age_seconds)}, and messages wait"
    return f"its source is held back by {measure.held_back_by}" if measure.held_back_by else None


def _paused(beside: CursorDetails) -> str:
    if beside.paused_by is None:
        return "paused"
    reason = (beside.pause_reason or "")[:_QUOTED_CHARACTERS_MAX]
    return f"paused by {beside.paused_by}" + (f' ("{reason}")' if reason else "")


def _next(beside: CursorDetails) -> str:
    seconds = beside.due_seconds or 0.0
    return f"the next one is due {f'in {_told(seconds)}' if seconds > 0 else 'now'}"


def _ago(beside: CursorDetails) -> str:
    seconds = beside.expired_seconds
    return "" if seconds is None or seconds < 0 else f" {_told(seconds)} ago"


def _told(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
