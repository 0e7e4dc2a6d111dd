"""Wait until: poll for what another process does, up to a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable

WAIT_SECONDS_MAX = 60.0


def until(happened: Callable[[], bool], what: str) -> float:
    """Ask until it is so; return when it was."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not happened():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)
    return time.monotonic()
