"""Crash points: named places where a process can be made to die, freeze or fail.

Owns the registry and the switch. A point costs one comparison until it is armed, by the
environment (`ONCEWARD_CRASH="name:nth[:kill|stop|raise]"`) or `arm()`; then it acts, at its nth
pass.
"""

from __future__ import annotations

import os
import signal
from typing import Final

#: Every crash point, with the two states it separates. A name used but not listed fails the tests.
POINTS: Final[dict[str, str]] = {
    "journal.append.before_write": "lock taken | nothing written",
    "journal.append.after_write": "record written, lock held | not yet synced",
    "journal.append.after_unlock": "lock released | not yet synced",
    "journal.append.before_return": "record and name durable | not yet acknowledged",
    "journal.durable.after_sync": "content synced | the file's name not yet synced",
    "journal.read.before_sync": "page read | not yet known to be on disk",
    "journal.read.before_return": "page known to be on disk | cursor not yet given out",
    "atomic.write.after_open": "temporary exists and is locked | still holds what it held",
    "atomic.write.after_write": "temporary written | not synced",
    "atomic.write.after_sync": "temporary synced | target still the old file",
    "atomic.write.after_rename": "target is the new file | its name not synced",
    "atomic.write.before_return": "new file and name durable | not yet acknowledged",
}
ACTIONS: Final = ("kill", "stop", "raise")


class Crashed(BaseException):
    """Raised by a point armed with `raise`; no `except Exception` swallows it."""


class _Armed:
    """One armed point, counting its passes."""

    def __init__(self, spec: str) -> None:
        name, _, rest = spec.partition(":")
        nth, _, action = rest.partition(":")
        self.name, self.action = name, action or "kill"
        if name not in POINTS:
            message = f"no crash point is named {name!r}; onceward.crash.POINTS lists them"
            raise ValueError(message)
        if not (nth.isascii() and nth.isdigit() and int(nth) > 0) or self.action not in ACTIONS:
            message = f"crash point {spec!r} must read name:nth[:{'|'.join(ACTIONS)}]"
            raise ValueError(message)
        self.left = int(nth)

    def passed(self, name: str) -> None:
        if name != self.name:
            return
        self.left -= 1
        if self.left:
            return
        if self.action == "raise":
            raise Crashed(name)
        os.kill(os.getpid(), signal.SIGKILL if self.action == "kill" else signal.SIGSTOP)


_armed: _Armed | None = None


def arm(spec: str | None) -> None:
    """Arm one point of this process, or none; children made by fork inherit it."""
    global _armed  # noqa: PLW0603 - one process has one switch
    _armed = _Armed(spec) if spec else None


def crash_point(name: str) -> None:
    """Mark a place between two states that a crash may separate."""
    if _armed is not None:
        _armed.passed(name)


arm(os.environ.get("ONCEWARD_CRASH"))
