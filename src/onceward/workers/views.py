"""Cursor JSON: the fields of a cursor and its lag on the command line and in the console."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

from onceward.cursors import CursorState
from onceward.workers.lag_records import LagMeasurement

#: `expired`: its holder's lease expired, and no worker has taken over.
StateName = Literal["held", "free", "expired", "paused"]


def state_name(state: CursorState) -> StateName:
    """Return the state of a cursor's lease in one word."""
    if state.is_paused:
        return "paused"
    if state.is_held:
        return "held"
    return "expired" if state.lease_owner else "free"


def cursor_json(state: CursorState, measure: LagMeasurement | None) -> dict[str, Any]:
    """Return a cursor with its lag."""
    return {**asdict(state), "measure": lag_json(measure)}


def lag_json(measure: LagMeasurement | None) -> dict[str, Any] | None:
    """Return a lag measurement, or None if there is none."""
    if measure is None:
        return None
    return {
        "lag_messages": measure.messages,
        "lag_seconds": measure.lag_seconds,
        "oldest_at": measure.oldest_at,
        "held_back_by": measure.held_back_by,
        "rate_per_minute": measure.rate_per_minute,
        "drain_seconds": measure.drain_seconds,
        "measured_at": measure.measured_at,
        "measure_age": measure.age_seconds,
    }
