"""Watch: wake up when something changes in a directory, whoever changed it.

A wake-up is a hint: the caller looks again. Without file events it is a short sleep, and even with
them nobody sleeps long, so a lost event delays and never loses.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol

from onceward.seams import Clock

#: The longest sleep when the system tells us of changes, and when it does not.
WATCHED_SECONDS_MAX: Final = 1.0
POLLED_SECONDS_MAX: Final = 0.05


class _Notifier(Protocol):
    def watch(
        self, debounce_ms: int, step_ms: int, timeout_ms: int, stop_event: None
    ) -> object: ...


class Watch:
    """Changes in one directory, from the moment this is made."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        """Begin to notice; look at the file after this, so that nothing falls in between."""
        self._directory = directory
        self._clock = clock
        self._notifier = _notifier(directory)

    def wait(self, seconds: float) -> None:
        """Return at a change, or after `seconds`, or earlier for no reason at all."""
        if self._notifier is None:
            self._clock.sleep(min(seconds, POLLED_SECONDS_MAX))
            self._notifier = _notifier(self._directory)
            return
        timeout_ms = max(1, int(min(seconds, WATCHED_SECONDS_MAX) * 1000))
        if self._notifier.watch(1, 1, timeout_ms, None) == "signal":
            raise KeyboardInterrupt


def _notifier(directory: Path) -> _Notifier | None:
    if not directory.is_dir():
        return None
    try:
        from watchfiles._rust_notify import RustNotify  # noqa: PLC0415 - only for who waits

        return RustNotify([str(directory)], False, False, 50, False, False)
    except (ImportError, OSError):
        return None  # No file events here, or no watches left: polling is correct without them.
