"""Waiting for what another thread or process does, by looking again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

FIRST_PAUSE_SECONDS: Final = 0.002
#: Each pause is a little longer than the one before, so that a long wait leaves the machine alone.
PAUSE_GROWTH: Final = 1.1
PAUSE_SECONDS_MAX: Final = 0.05
#: Looks and not seconds: a machine that has much else to do takes longer for each of them.
LOOKS_MAX: Final = 3_000


def until(happened: Callable[[], Any], what: object = "it did not happen") -> Any:
    """Return what happened once that is true; `what` says what did not."""
    pause = FIRST_PAUSE_SECONDS
    for _ in range(LOOKS_MAX):
        if found := happened():
            return found
        time.sleep(pause)
        pause = min(PAUSE_GROWTH * pause, PAUSE_SECONDS_MAX)
    raise AssertionError(what() if callable(what) else what)
