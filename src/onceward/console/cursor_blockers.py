"""Cursor blockers: explain in one sentence why a cursor makes no progress. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from onceward.cursors import CursorState
from onceward.workers.lag_records import LagMeasurement
from onceward.workers.views import state_name

#: A free cursor with waiting messages is reported after this: a live worker polls sooner.
UNSEEN_SECONDS: Final = 60.0
_QUOTED_CHARACTERS_MAX: Final = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class FailingMessage:
    """A message that fails, and that later messages wait for."""

    position: str | None
    #: How often it failed.
    attempt: int
    due_at: str | None
    first_failed_at: str | None
    error: str | None


class CursorDetails(NamedTuple):
    """Details of a cursor: a row of `cursor_details`."""

    cursor: str
    #: Number of the last entry in the cursor's history.
    last_entry: int | None
    #: Actor and reason of the pause, while the cursor is paused.
    paused_by: str | None
    pause_reason: str | None
    #: The failing message that blocks the cursor.
    failing_position: str | None
    attempt: int | None
    due_at: str | None
    first_failed_at: str | None
    error: str | None
    #: Numbers of parked messages and of dead letters, as far as they were counted.
    parked: int
    dead: int
    #: Seconds since the lease expired; negative while the lease is valid.
    expired_seconds: float | None
    #: Seconds until the failing message is retried.
    due_seconds: float | None

    @property
    def failing(self) -> FailingMessage | None:
        """Return the failing message that blocks the cursor, if there is one."""
        if self.attempt is None:
            return None
        return FailingMessage(
            position=self.failing_position,
            attempt=self.attempt,
            due_at=self.due_at,
            first_failed_at=self.first_failed_at,
            error=self.error,
        )


def blocked_because(
    state: CursorState, measure: LagMeasurement | None, beside: CursorDetails
) -> str | None:
    """Return why a cursor makes no progress; None if nothing blocks it."""
    if state.is_paused:
        return _paused(beside)
    if beside.attempt is not None:
        return (
            f"a failing message blocks it: attempt {beside.attempt} failed, {_retry_text(beside)}"
        )
    if state_name(state) == "expired":
        ago = _expired_ago(beside)
        return f"the lease of {state.lease_owner} expired{ago}, and no worker took over"
    return _waiting(state, measure) if measure else None


def _waiting(state: CursorState, measure: LagMeasurement) -> str | None:
    is_behind = measure.messages != 0 and bool(measure.lag_seconds)
    if is_behind and not state.is_held and measure.age_seconds > UNSEEN_SECONDS:
        return f"no worker has polled for {_duration_text(measure.age_seconds)}, and messages wait"
    return f"its source is held back by {measure.held_back_by}" if measure.held_back_by else None


def _paused(beside: CursorDetails) -> str:
    if beside.paused_by is None:
        return "paused"
    reason = (beside.pause_reason or "")[:_QUOTED_CHARACTERS_MAX]
    return f"paused by {beside.paused_by}" + (f' ("{reason}")' if reason else "")


def _retry_text(beside: CursorDetails) -> str:
    seconds = beside.due_seconds or 0.0
    return f"the next one is due {f'in {_duration_text(seconds)}' if seconds > 0 else 'now'}"


def _expired_ago(beside: CursorDetails) -> str:
    seconds = beside.expired_seconds
    return "" if seconds is None or seconds < 0 else f" {_duration_text(seconds)} ago"


def _duration_text(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
