"""Cursor views: the fields of a cursor and its lag on the command line and in the console."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

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


@dataclass(frozen=True, kw_only=True, slots=True)
class CursorLag:
    """The last measured lag of a cursor; see `LagMeasurement`."""

    lag_messages: int | None
    lag_seconds: float | None
    oldest_at: str | None
    held_back_by: str | None
    rate_per_minute: float | None
    drain_seconds: float | None
    measured_at: str
    #: Age of the measurement in seconds.
    measure_age: float


@dataclass(frozen=True, kw_only=True, slots=True)
class CursorView(CursorState):
    """A cursor with its lag."""

    #: None before the first measurement.
    measure: CursorLag | None


def cursor_view(state: CursorState, measure: LagMeasurement | None) -> CursorView:
    """Return a cursor with its lag."""
    known = {each.name: getattr(state, each.name) for each in fields(CursorState)}
    return CursorView(**known, measure=lag_view(measure))


def lag_view(measure: LagMeasurement | None) -> CursorLag | None:
    """Return a lag measurement, or None if there is none."""
    if measure is None:
        return None
    return CursorLag(
        lag_messages=measure.messages,
        lag_seconds=measure.lag_seconds,
        oldest_at=measure.oldest_at,
        held_back_by=measure.held_back_by,
        rate_per_minute=measure.rate_per_minute,
        drain_seconds=measure.drain_seconds,
        measured_at=measure.measured_at,
        measure_age=measure.age_seconds,
    )
