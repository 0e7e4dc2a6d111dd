"""Patience: how long anybody waits for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_SECONDS = 60.0


def until(happened: Callable[[], bool], what: str) -> float:
    """Ask until it is so; return when it was."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not happened():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)
    return time.monotonic()
