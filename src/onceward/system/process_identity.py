"""Process identity: identify a process across reboots and containers, and detect its death.

A pid alone is not an identity: pids are reused, and every pid namespace (container) has its own. A
process whose state cannot be read counts as alive.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from onceward.system.clock import SystemClock

_PROC: Final = Path("/proc")
#: States in which a process will never run again.
_DEAD_STATES: Final = frozenset("ZXx")
_PID_MAX: Final = 2**31 - 1
#: Placeholder for an unreadable boot id; two of them may be different boots.
_UNKNOWN_BOOT: Final = "unknown"
_HOLDER: Final = re.compile(
    r"(?P<host>.+)/(?P<pid>\d{1,10})/(?P<boot_id>[^/.]+)\.(?P<pid_namespace>\d{1,20})"
    r"\.(?P<started_ticks>\d{1,20})\.[^/.]+",
    re.ASCII,
)


class ProcessStat(NamedTuple):
    """State and start time of a process, from the kernel."""

    pid: int
    #: One letter; Z is a zombie, T is stopped.
    state: str
    group: int
    #: Clock ticks after the boot; with the pid, the identity of a process within a pid namespace.
    started_ticks: int

    @property
    def is_alive(self) -> bool:
        """Return whether it can still run; a zombie cannot."""
        return self.state not in _DEAD_STATES


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessIdentity:
    """A unique identity of a process, across machines and reboots."""

    host: str
    #: Changes when the machine starts again; `unknown` where it could not be read.
    boot_id: str
    #: Inode of the pid namespace in which `pid` counts; 0 where it could not be read.
    pid_namespace: int
    pid: int
    #: Clock ticks between the boot and the start of the process; 0 where they could not be read.
    started_ticks: int

    @classmethod
    def own(cls) -> Self:
        """Return the identity of this process."""
        # Not by pid: /proc may be mounted for another pid namespace.
        stat = _read_stat("self")
        return cls._here(os.getpid(), stat.started_ticks if stat else 0)

    @classmethod
    def of_child(cls, pid: int) -> Self:
        """Return the identity of a child process that has not been reaped yet."""
        stat = process_stat(pid)
        return cls._here(pid, stat.started_ticks if stat else 0)

    @classmethod
    def _here(cls, pid: int, started_ticks: int) -> Self:
        return cls(
            host=socket.gethostname(),
            boot_id=_boot_id(),
            pid_namespace=_pid_namespace(),
            pid=pid,
            started_ticks=started_ticks,
        )

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self | None:
        """Return a recorded identity; None for an incomplete record."""
        texts, numbers = ("host", "boot_id"), ("pid_namespace", "pid", "started_ticks")
        found: dict[str, Any] = {name: fields.get(name) for name in (*texts, *numbers)}
        if not all(isinstance(found[name], str) for name in texts):
            return None
        # A bool is an int to Python, and no pid.
        if not all(type(found[name]) is int and found[name] >= 0 for name in numbers):
            return None
        made = cls(**found)
        return made if 0 < made.pid <= _PID_MAX else None

    def to_fields(self) -> dict[str, Any]:
        """Return the identity as fields for `from_fields`."""
        return asdict(self)

    @classmethod
    def from_holder(cls, holder: str) -> Self | None:
        """Parse a holder's name; None if it has another form."""
        found = _HOLDER.fullmatch(holder)
        if found is None:
            return None
        parts = found.groupdict()
        numbers = {name: int(parts[name]) for name in ("pid", "pid_namespace", "started_ticks")}
        return cls.from_fields({**parts, **numbers})

    def holder(self, suffix: str) -> str:
        """Return a holder's name `host/pid/…`, as workers use; unique by its suffix."""
        rest = f"{self.boot_id}.{self.pid_namespace}.{self.started_ticks}.{suffix}"
        return f"{self.host}/{self.pid}/{rest}"

    def is_in_this_namespace(self) -> bool:
        """Return whether its pid is valid here: same host, same boot, same pid namespace."""
        is_this_boot = self.boot_id == _boot_id() != _UNKNOWN_BOOT
        is_this_host = is_this_boot and self.host == socket.gethostname()
        return is_this_host and self.pid_namespace == _pid_namespace() != 0

    def is_dead(self) -> bool:
        """Return whether it has certainly ended; False if that cannot be determined."""
        if not self.is_in_this_namespace():
            return False
        try:
            # /proc cannot prove absence: with `hidepid` it hides processes of other users.
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        # The pid may have been reused.
        now = process_stat(self.pid) if self.started_ticks and _has_our_time(self.pid) else None
        return now is not None and now.started_ticks != self.started_ticks


def process_stat(pid: int) -> ProcessStat | None:
    """Return the kernel's state of a pid; None if there is none, or it cannot be read."""
    return _read_stat(str(pid)) if _is_proc_ours(os.getpid(), _pid_namespace()) else None


def _read_stat(name: str) -> ProcessStat | None:
    try:
        text = (_PROC / name / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name is in parentheses and may contain anything, including parentheses.
    pid, _, rest = text.partition(" ")
    fields = rest.rpartition(")")[2].split()
    return ProcessStat(int(pid), fields[0], int(fields[2]), int(fields[19]))


def _boot_id() -> str:
    try:
        return SystemClock().boot_id() or _UNKNOWN_BOOT
    except OSError:
        return _UNKNOWN_BOOT


def _pid_namespace() -> int:
    try:
        return (_PROC / "self" / "ns" / "pid").stat().st_ino
    except OSError:
        return 0


@lru_cache(maxsize=1)
def _is_proc_ours(pid: int, _namespace: int) -> bool:
    """Return whether /proc belongs to our pid namespace; a new one may see the old /proc."""
    try:
        status = (_PROC / "self" / "status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    # One number for each namespace from that of /proc down to our own.
    found = re.search(r"^NSpid:\s*(.*)$", status, re.MULTILINE)
    return found is not None and found[1].split() == [str(pid)]


def _has_our_time(pid: int) -> bool:
    """Return whether a process is in our time namespace; start ticks depend on the reader's."""
    try:
        ours = (_PROC / "self" / "ns" / "time").stat().st_ino
    except OSError:
        return True  # A kernel without time namespaces.
    try:
        return (_PROC / str(pid) / "ns" / "time").stat().st_ino == ours
    except OSError:
        return False
