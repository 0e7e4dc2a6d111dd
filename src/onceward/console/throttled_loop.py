"""Throttled loop: call a function repeatedly in a thread; slower calls get longer pauses.

For work that must not slow requests down. An error is logged and does not end the loop.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from onceward.system import Clock, SystemClock

#: Pause per round, as a multiple of its duration: the work takes a twentieth of the time.
REST_PER_ROUND: Final = 19.0
_log: Final = logging.getLogger("onceward.console")


def rest_after(took: float, least: float) -> float:
    """Return how long to pause after a round that took so long."""
    return max(least, REST_PER_ROUND * took)


class ThrottledLoop:
    """A daemon thread that repeats a function."""

    def __init__(
        self,
        name: str,
        go: Callable[[], object],
        *,
        least_seconds: float,
        clock: Clock | None = None,
    ) -> None:
        """Create the loop without starting it."""
        self._name, self._go, self._least = name, go, least_seconds
        self._clock = clock or SystemClock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, unless it is running."""
        if self._thread is None:
            name = f"onceward-{self._name}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop after the current round. Does not wait; idempotent; safe from any thread."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            began = self._clock.monotonic()
            try:
                self._go()
            except Exception:  # noqa: BLE001 - what is known stays, and says how old it is
                if self._stop.is_set():
                    return  # The store was closed while the function ran.
                _log.exception("a round of %s failed", self._name)
            took = self._clock.monotonic() - began
            self._stop.wait(rest_after(took, self._least))
