"""Program lock: one wrapped program at a time; what a killed one left running is ended first.

The lock file names the process group of the program that runs. Its group leader ends that group
when the agent dies, and holds the lock until then. When the leader was killed, too, the next
process that takes the lock ends the group.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from onceward.agents.orphan_processes import (
    GONE_SECONDS_MAX,
    AgentRecord,
    end_orphans,
    group_members,
)
from onceward.errors import AgentFailed, InvalidJson
from onceward.keys import compact_json, loads
from onceward.system import FILE_MODE, Clock, ProcessIdentity, find_openers, mapped_os_errors

#: Name of the lock file in the directory of an agent's cache.
FILE_NAME: Final = "program.lock"
_POLL_SECONDS: Final = 0.01
_BYTES_MAX: Final = 4096
_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


class ProgramLock:
    """A lock that this process holds."""

    def __init__(self, path: Path, descriptor: int) -> None:
        """Wrap the descriptor of a locked file; processes that inherit it hold the lock, too."""
        self._path = path
        self.descriptor = descriptor

    def record(self, leader: int, run_id: str) -> None:
        """Write down a group leader, a child of this process, before its program starts."""
        fields = ProcessIdentity.of_child(leader).to_fields()
        self._write(compact_json({**fields, "run_id": run_id}))

    def forget(self, leader: int) -> None:
        """Remove the record, unless a process of the group that we may kill is still dying."""
        if not any(each.is_alive and _may_kill(each.pid) for each in group_members(leader)):
            self._write(b"")

    def end_recorded(self, clock: Clock) -> None:
        """End the recorded group, which has outlived its leader, and remove the record.

        In another pid namespace it cannot be ended from here, so its record stays.
        """
        if (found := self._read()) is not None:
            end_orphans([found], clock=clock)
            if found.is_in_this_namespace():
                self._write(b"")

    def _write(self, content: bytes) -> None:
        with mapped_os_errors(self._path, "write"):
            os.ftruncate(self.descriptor, 0)
            os.pwrite(self.descriptor, content, 0)

    def _read(self) -> AgentRecord | None:
        try:
            found = loads(os.pread(self.descriptor, _BYTES_MAX, 0))
        except InvalidJson:
            return None  # Empty, or written by another program.
        if not isinstance(found, dict):
            return None
        run_id = found.get("run_id")
        return AgentRecord.from_fields(found, run_id if isinstance(run_id, str) else None)


@contextmanager
def program_lock(path: Path, *, seconds: float, clock: Clock) -> Iterator[ProgramLock | None]:
    """Take the lock, and end the program that its file names; yields None after `seconds`."""
    until = clock.monotonic() + seconds
    with mapped_os_errors(path, "open"):
        descriptor = os.open(path, _FLAGS | os.O_CREAT, FILE_MODE)
    try:
        # Polled: a process that blocks in flock could not give up.
        while not _is_locked(descriptor):
            if clock.monotonic() >= until:
                yield None
                return
            clock.sleep(_POLL_SECONDS)
        lock = ProgramLock(path, descriptor)
        lock.end_recorded(clock)
        yield lock
    finally:
        os.close(descriptor)


def end_orphaned_program(path: Path, *, clock: Clock) -> None:
    """End the program of a killed agent; raise AgentFailed if it does not end.

    Its group leader needs a moment to notice the agent's death.
    """
    if not path.exists():
        return
    with program_lock(path, seconds=GONE_SECONDS_MAX, clock=clock) as lock:
        if lock is None:
            message = f"a program still runs and holds {path}; nothing was started"
            shown = f"process PID, which `{find_openers(path)}` prints as /proc/PID/fd"
            fix = f"end the agent that wraps it: {shown}; then try again"
            raise AgentFailed(message, code="AGENT_STUCK", retryable=True, fix=fix)


def _may_kill(pid: int) -> bool:
    """Return whether a process belongs to us; a child of `sudo`, for example, does not."""
    try:
        os.kill(pid, 0)
    except (PermissionError, ProcessLookupError):
        return False
    return True


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
