"""Views: a cursor and its lag as JSON, the same to whoever asks: command line or console."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

from onceward.cursors import CursorState
from onceward.workers.measures import Measure

#: `expired`: its holder's lease ran out, and nobody took over.
StateWord = Literal["held", "free", "expired", "paused"]


def state_word(state: CursorState) -> StateWord:
    """Return in one word who has a cursor."""
    if state.is_paused:
        return "paused"
    if state.is_held:
        return "held"
    return "expired" if state.lease_owner else "free"


def plain(state: CursorState, measure: Measure | None) -> dict[str, Any]:
    """Return everything about a cursor, and how far behind it is."""
    return {**asdict(state), "measure": measured(measure)}


def measured(measure: Measure | None) -> dict[str, Any] | None:
    """Return what is known of a cursor's lag."""
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
