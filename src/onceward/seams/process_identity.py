"""Process identity: which process holds a lease or was started, and whether it is certainly dead.

A pid alone names nothing: it is reused, and every pid namespace (container) has its own numbers.
What cannot be read is not dead. Knows neither leases nor agents.
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

from onceward.seams.clock import SystemClock

_PROC: Final = Path("/proc")
#: States in which a process will never run again.
_DEAD_STATES: Final = frozenset("ZXx")
_PID_MAX: Final = 2**31 - 1
_HOLDER: Final = re.compile(
    r"(?P<host>.+)/(?P<pid>\d{1,10})/(?P<boot_id>[^/.]+)\.(?P<pid_namespace>\d{1,20})"
    r"\.(?P<started_ticks>\d{1,20})\.[^/.]+",
    re.ASCII,
)


class ProcessStat(NamedTuple):
    """What the kernel says about a process."""

    pid: int
    #: One letter; Z is a zombie, T is stopped.
    state: str
    group: int
    #: Clock ticks after the boot; with the pid, the identity of a process within a pid namespace.
    started_ticks: int

    @property
    def is_alive(self) -> bool:
        """Say whether it can still do something; a zombie cannot."""
        return self.state not in _DEAD_STATES


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessIdentity:
    """One process among all that ever ran on all machines that share a store or a directory."""

    host: str
    #: Changes when the machine starts again.
    boot_id: str
    #: Inode of the pid namespace in which `pid` counts; 0 where it could not be read.
    pid_namespace: int
    pid: int
    #: Clock ticks between the boot and the start of the process; 0 where they could not be read.
    started_ticks: int

    @classmethod
    def own(cls) -> Self:
        """Return the identity of this process."""
        # Not by number: /proc may have been mounted for another pid namespace.
        stat = _read_stat("self")
        return cls._here(os.getpid(), stat.started_ticks if stat else 0)

    @classmethod
    def of_child(cls, pid: int) -> Self:
        """Return the identity of a process that this one has started and not reaped yet."""
        stat = process_stat(pid)
        return cls._here(pid, stat.started_ticks if stat else 0)

    @classmethod
    def _here(cls, pid: int, started_ticks: int) -> Self:
        return cls(
            host=socket.gethostname(),
            boot_id=SystemClock().boot_id(),
            pid_namespace=_pid_namespace(),
            pid=pid,
            started_ticks=started_ticks,
        )

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self | None:
        """Return a recorded identity; None for a record that lacks a part of it."""
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
        """Return what `from_fields` reads."""
        return asdict(self)

    @classmethod
    def from_holder(cls, holder: str) -> Self | None:
        """Return the process that a holder's name names; None for a name of another form."""
        found = _HOLDER.fullmatch(holder)
        if found is None:
            return None
        parts = found.groupdict()
        numbers = {name: int(parts[name]) for name in ("pid", "pid_namespace", "started_ticks")}
        return cls.from_fields({**parts, **numbers})

    def holder(self, suffix: str) -> str:
        """Return a holder's name: `host/pid/…`, like every worker's, and unique by the suffix."""
        rest = f"{self.boot_id}.{self.pid_namespace}.{self.started_ticks}.{suffix}"
        return f"{self.host}/{self.pid}/{rest}"

    def is_in_this_namespace(self) -> bool:
        """Say whether its pid means the same to us: same host, same boot, same pid namespace."""
        return (self.host, self.boot_id) == (socket.gethostname(), SystemClock().boot_id()) and (
            self.pid_namespace == _pid_namespace() != 0
        )

    def is_dead(self) -> bool:
        """Say whether it has certainly ended; False whenever that cannot be determined."""
        if not self.is_in_this_namespace():
            return False
        try:
            # /proc is no witness for an absence: with `hidepid` it hides what other users run.
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        # Another process may have the number by now.
        now = process_stat(self.pid) if self.started_ticks and _has_our_time(self.pid) else None
        return now is not None and now.started_ticks != self.started_ticks


def process_stat(pid: int) -> ProcessStat | None:
    """Return what the kernel says about this pid; None if there is none, or it cannot be read."""
    return _read_stat(str(pid)) if _is_proc_ours(os.getpid(), _pid_namespace()) else None


def _read_stat(name: str) -> ProcessStat | None:
    try:
        text = (_PROC / name / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name stands in parentheses and may hold anything, parentheses included.
    pid, _, rest = text.partition(" ")
    fields = rest.rpartition(")")[2].split()
    return ProcessStat(int(pid), fields[0], int(fields[2]), int(fields[19]))


def _pid_namespace() -> int:
    try:
        return (_PROC / "self" / "ns" / "pid").stat().st_ino
    except OSError:
        return 0


@lru_cache(maxsize=1)
def _is_proc_ours(pid: int, _namespace: int) -> bool:
    """Say whether /proc counts pids as we do; a new namespace may still see the old one's /proc."""
    try:
        status = (_PROC / "self" / "status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    # One number for each namespace from that of /proc down to our own.
    found = re.search(r"^NSpid:\s*(.*)$", status, re.MULTILINE)
    return found is not None and found[1].split() == [str(pid)]


def _has_our_time(pid: int) -> bool:
    """Say whether a process is in our time namespace; start ticks are shown in the reader's."""
    try:
        ours = (_PROC / "self" / "ns" / "time").stat().st_ino
    except OSError:
        return True  # A kernel without time namespaces.
    try:
        return (_PROC / str(pid) / "ns" / "time").stat().st_ino == ours
    except OSError:
        return False
