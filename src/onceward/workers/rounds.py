"""Rounds: a thread that does something again and again, until it is told to stop.

What goes wrong in one round is told, and does not end the next.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from onceward.errors import OncewardError

#: How long a stop waits for a round that is under way; it is a daemon and dies with its process.
STOP_SECONDS: Final = 0.5
#: After a round that failed.
AGAIN_SECONDS: Final = 5.0
_log: Final = logging.getLogger("onceward.workers")


class Over(Exception):
    """Raised by a round after which there is no other, and of which there is nothing to tell."""


@contextmanager
def rounds(
    name: str,
    go: Callable[[], float],
    last: Callable[[], None] = lambda: None,
    *,
    stop_seconds: float = STOP_SECONDS,
) -> Iterator[Callable[[], None]]:
    """Call `go` in a thread while the block runs; it says how many seconds to wait for the next.

    At the end the thread calls `last`, and is waited for so long and no longer. Gives a function
    that lets the next round begin at once.
    """
    thread = _Rounds(name, go, last)
    thread.start()
    try:
        yield thread.hurry
    finally:
        thread.stop(stop_seconds)


class _Rounds(threading.Thread):
    """The thread, and what wakes it."""

    def __init__(self, name: str, go: Callable[[], float], last: Callable[[], None]) -> None:
        super().__init__(name=f"onceward-{name}", daemon=True)
        self._go, self._last = go, last
        self._woken = threading.Event()
        self._is_over = False

    def run(self) -> None:
        """Go round until the end."""
        while not self._is_over:
            self._woken.clear()
            seconds = self._round()
            if not self._is_over:
                self._woken.wait(seconds)
        self._last()

    def hurry(self) -> None:
        """Let the next round begin at once."""
        self._woken.set()

    def stop(self, seconds: float) -> None:
        """Begin no more, and wait so long for the one that runs."""
        self._is_over = True
        self._woken.set()
        self.join(seconds)

    def _round(self) -> float:
        try:
            return self._go()
        except Over:
            self._is_over = True
            return 0.0
        except Exception as exc:  # noqa: BLE001 - told; the next round may do better
            if self._is_over:
                return 0.0  # There is no next one, and the store may be closed already.
            context = exc.context if isinstance(exc, OncewardError) else {}
            facts = {**context, "action": "round_failed", "round": self.name, "error": repr(exc)}
            text = "round failed"
            _log.warning(
                "%s of %s: %s", text, self.name, exc, extra={"event": text, "facts": facts}
            )
            return AGAIN_SECONDS
