"""Clock: injectable wall-clock and monotonic time, with a manual clock for tests."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Protocol


class Clock(Protocol):
    """Wall-clock time, monotonic time and sleeping."""

    def now(self) -> datetime:
        """Return the wall-clock time in UTC; it may jump, so no decision depends on it."""

    def monotonic(self) -> float:
        """Return monotonic seconds within this process."""

    def boot_seconds(self) -> float:
        """Return seconds since boot, including suspend; the same in all processes."""

    def boot_id(self) -> str:
        """Return the id of the current boot of the machine."""

    def sleep(self, seconds: float) -> None:
        """Sleep."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the machine's wall-clock time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the machine's monotonic time in seconds."""
        return time.monotonic()

    def boot_seconds(self) -> float:
        """Return the kernel's time since boot."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def boot_id(self) -> str:
        """Return the kernel's id of this boot."""
        return _boot_id()

    def sleep(self, seconds: float) -> None:
        """Block this thread."""
        time.sleep(seconds)


class ManualClock:
    """A clock for tests: `advance` and `sleep` move it."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        """Start at `start`."""
        self._start = start
        self._elapsed_seconds = 0.0
        self._boots = 1

    def now(self) -> datetime:
        """Return the start plus the time advanced so far."""
        return self._start + timedelta(seconds=self._elapsed_seconds)

    def monotonic(self) -> float:
        """Return the seconds advanced so far."""
        return self._elapsed_seconds

    def boot_seconds(self) -> float:
        """Return the seconds advanced so far, as if the machine had started at `start`."""
        return self._elapsed_seconds

    def boot_id(self) -> str:
        """Return an id that changes with each `reboot`."""
        return f"manual-{self._boots}"

    def reboot(self) -> None:
        """Simulate a reboot: change the boot id."""
        self._boots += 1

    def sleep(self, seconds: float) -> None:
        """Advance instead of waiting."""
        self.advance(seconds=seconds)

    def advance(self, *, seconds: float) -> None:
        """Move time forward."""
        assert seconds >= 0, seconds
        self._elapsed_seconds += seconds


@cache
def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def timestamp(moment: datetime) -> str:
    """Format a time as `YYYY-MM-DDTHH:MM:SS.mmmZ`, the only form in our files."""
    utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return utc.isoformat(timespec="milliseconds")[: -len("+00:00")] + "Z"
