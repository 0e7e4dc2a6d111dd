"""Periodic tasks: run a task repeatedly in a thread while a block runs.

A failed run is logged, and the task runs again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from onceward.errors import OncewardError

#: How long a stop waits for a run in progress; the thread is a daemon and dies with its process.
STOP_SECONDS: Final = 0.5
#: Pause after a failed run.
RETRY_SECONDS: Final = 5.0
_log: Final = logging.getLogger("onceward.workers")


class StopRepeating(Exception):
    """Raised by a task to end its repetition without a log message."""


@contextmanager
def repeating(
    name: str,
    task: Callable[[], float],
    on_stop: Callable[[], None] = lambda: None,
    *,
    stop_seconds: float = STOP_SECONDS,
) -> Iterator[Callable[[], None]]:
    """Repeat `task` in a thread while the block runs; it returns the seconds until its next run.

    At the end the thread calls `on_stop`; the block waits at most `stop_seconds` for it. Yields a
    function that starts the next run immediately.
    """
    thread = _PeriodicThread(name, task, on_stop)
    thread.start()
    try:
        yield thread.run_now
    finally:
        thread.stop(stop_seconds)


class _PeriodicThread(threading.Thread):
    """The thread, and the event that wakes it."""

    def __init__(self, name: str, task: Callable[[], float], on_stop: Callable[[], None]) -> None:
        super().__init__(name=f"onceward-{name}", daemon=True)
        self._task, self._on_stop = task, on_stop
        self._woken = threading.Event()
        self._is_stopping = False

    def run(self) -> None:
        """Repeat the task until it is stopped."""
        while not self._is_stopping:
            self._woken.clear()
            seconds = self._run_task()
            if not self._is_stopping:
                self._woken.wait(seconds)
        self._on_stop()

    def run_now(self) -> None:
        """Start the next run immediately."""
        self._woken.set()

    def stop(self, seconds: float) -> None:
        """Start no further run, and wait at most this long for the current one."""
        self._is_stopping = True
        self._woken.set()
        self.join(seconds)

    def _run_task(self) -> float:
        try:
            return self._task()
        except StopRepeating:
            self._is_stopping = True
            return 0.0
        except Exception as exc:  # noqa: BLE001 - logged; the next run may succeed
            if self._is_stopping:
                return 0.0  # No run follows, and the store may be closed already.
            context = exc.context if isinstance(exc, OncewardError) else {}
            facts = {
                **context,
                "action": "periodic_task_failed",
                "task": self.name,
                "error": repr(exc),
            }
            text = "periodic task failed"
            _log.warning("%s: %s: %s", text, self.name, exc, extra={"event": text, "facts": facts})
            return RETRY_SECONDS
