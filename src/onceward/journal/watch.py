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
#: How often what the system told us is looked at. Each look costs 14 microseconds: 1.4 % of a core
#: for somebody who waits for one answer, 0.2 % for a worker that waits all day.
STEP_MILLISECONDS: Final = 1
PATIENT_STEP_MILLISECONDS: Final = 10


class Stop(Protocol):
    """Says that nobody waits any more; an Event of `threading` does."""

    def is_set(self) -> bool:
        """Say whether it is time to stop."""


class _Notifier(Protocol):
    def watch(
        self, debounce_ms: int, step_ms: int, timeout_ms: int, stop_event: Stop | None
    ) -> object: ...


class Watch:
    """Changes in one directory, from the moment this is made."""

    def __init__(
        self, directory: Path, clock: Clock, *, step_milliseconds: int = STEP_MILLISECONDS
    ) -> None:
        """Begin to notice; look at the file after this, so that nothing falls in between."""
        self._directory = directory
        self._clock = clock
        self._step = step_milliseconds
        self._notifier = _notifier(directory)

    def wait(self, seconds: float, stop: Stop | None = None) -> set[str] | None:
        """Return at a change, or after `seconds`, or earlier for no reason at all.

        What is returned are the names of what changed, or None: without file events nobody knows.
        """
        if self._notifier is None:
            self._clock.sleep(min(seconds, POLLED_SECONDS_MAX))
            self._notifier = _notifier(self._directory)
            return None
        timeout_ms = max(1, int(min(seconds, WATCHED_SECONDS_MAX) * 1000))
        found = self._notifier.watch(1, self._step, timeout_ms, stop)
        if found == "signal":
            raise KeyboardInterrupt
        return {Path(path).name for _, path in found} if isinstance(found, set) else set()


def _notifier(directory: Path) -> _Notifier | None:
    if not directory.is_dir():
        return None
    try:
        from watchfiles._rust_notify import RustNotify  # noqa: PLC0415 - only for who waits

        return RustNotify([str(directory)], False, False, 50, False, False)
    except (ImportError, OSError, RuntimeError):
        return None  # No file events here, or no watches left: polling is correct without them.
