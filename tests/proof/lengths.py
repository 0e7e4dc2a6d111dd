"""Lengths: how long a proof goes on, as a slice, as a whole, and for hours."""

from __future__ import annotations

from onceward.handle import Onceward


def examples_for(ow: Onceward, *, prove: bool, soak: bool, short: int = 120) -> int:
    """Return how many examples a state machine tries; PostgreSQL is asked over a connection.

    `short` is the slice: so many that what the machine must come to is sure to happen.
    """
    is_quick = ow.store.engine == "sqlite"
    if soak:
        return 20_000 if is_quick else 1_000
    if prove:
        return 1_000 if is_quick else 300
    return short
