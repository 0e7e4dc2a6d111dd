"""Held: a lock that one process keeps for as long as it lives, with a note that says who it is.

The kernel gives it back whatever happens to the process. Knows nothing of what it protects.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from onceward.errors import Conflict
from onceward.seams import FILE_MODE, Clock, Files, ProcessIdentity, timestamp, translated

#: Whoever has taken the lock has written down who it is after so long.
_NOTE_SECONDS_MAX: Final = 1.0
_LOOK_SECONDS: Final = 0.01
_NOTE_BYTES_MAX: Final = 400
#: `is_held` may have the lock for an instant; whoever works keeps it for longer than these looks.
_TRIES: Final = 3
#: Where the kernel tells who has which file locked: process, device and inode. On some file systems
#: the device is not the one that the file says.
_LOCKS: Final = Path("/proc/locks")
_LOCK: Final = re.compile(r"FLOCK +ADVISORY +WRITE +(-?[0-9]+) +([0-9a-f]+:[0-9a-f]+):([0-9]+)")
#: A line for people, with what the lock is held for, and a line for programs.
_NOTE: Final = re.compile(
    r"(?P<holder>process (?P<pid>[0-9]+) on (?P<host>\S+) since (?P<since>\S+))"
    r"(?: for (?P<purpose>.+))?(?:\n(?P<process>\S+))?"
)


class Held:
    """A lock that this process has."""

    def __init__(self, path: Path, descriptor: int) -> None:
        """Keep it until it is released."""
        self._path, self._descriptor, self._owner = path, descriptor, os.getpid()

    def is_ours(self) -> bool:
        """Say whether the name still leads to what we hold; else somebody else may hold it too."""
        try:
            found = os.stat(self._path)  # noqa: PTH116 - asked before every record
        except OSError:
            return False
        ours = os.fstat(self._descriptor)
        return (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino)

    def release(self) -> None:
        """Give it back; a forked child only closes its copy, for the lock is its parent's."""
        if os.getpid() == self._owner:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)


def hold(path: Path, files: Files, clock: Clock, *, purpose: str = "") -> Held:
    """Take the lock, or raise Conflict that names its holder and the holder's purpose.

    The descriptor is closed on exec: no child keeps the lock of a parent that was killed.
    """
    files.make_directories(path.parent)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    with translated(path, "open"):
        descriptor = os.open(path, flags, FILE_MODE)
    if not _is_taken(descriptor, clock):
        try:
            told = _holder(descriptor, clock)
        finally:
            os.close(descriptor)
        purpose = f" for {told['purpose']}" if "purpose" in told else ""
        message = f"{path} is in use by {told['holder']}{purpose}"
        raise Conflict(message, fix="stop that one first", path=str(path), **told)
    held = Held(path, descriptor)
    try:
        with closing(files.open_append(path, follow_links=False)) as note:
            note.truncate(0)
            since = timestamp(clock.now())
            own = ProcessIdentity.own()
            shown = f"process {own.pid} on {own.host} since {since}"
            shown += f" for {purpose}" if purpose else ""
            note.write(f"{shown}\n{own.holder('lock')}\n".encode())
    except BaseException:
        # Nobody would ever give back what nobody was given.
        held.release()
        raise
    return held


def is_held(path: Path) -> bool:
    """Say whether somebody has the lock, without asking for it where that can be avoided.

    The kernel lists the locks of our own pid namespace. Of a holder in another one, or of another
    boot, the lock itself tells, for an instant. A holder on another machine is believed.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        found = _NOTE.fullmatch(_note(descriptor))
        if found is not None and found["host"] != socket.gethostname():
            return True
        holder = _process(found)
        if holder is not None and holder.is_in_this_namespace():
            with suppress(FileNotFoundError, PermissionError):  # /proc may show processes only.
                return _is_listed(descriptor, holder.pid)
        return not _is_free(descriptor)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _is_taken(descriptor: int, clock: Clock) -> bool:
    for _ in range(_TRIES):
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        clock.sleep(_LOOK_SECONDS)
    return False


def _is_free(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return True


def _is_listed(descriptor: int, process: int) -> bool:
    """Say whether the kernel lists a lock on this file."""
    locks = _LOCKS.read_text(encoding="ascii", errors="replace")
    file = os.fstat(descriptor)
    device = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}"
    return any(
        inode == str(file.st_ino) and (where == device or who == str(process))
        for who, where, inode in _LOCK.findall(locks)
    )


def _note(descriptor: int) -> str:
    return os.pread(descriptor, _NOTE_BYTES_MAX, 0).decode(errors="replace").strip()


def _process(note: re.Match[str] | None) -> ProcessIdentity | None:
    return ProcessIdentity.from_holder(note["process"] or "") if note else None


def _named(note: re.Match[str]) -> dict[str, object]:
    """Return what a note says, by name."""
    purpose = {"purpose": note["purpose"]} if note["purpose"] else {}
    return {"holder": note["holder"], "pid": int(note["pid"]), "since": note["since"], **purpose}


def _holder(descriptor: int, clock: Clock) -> dict[str, object]:
    """Return who has it, by name, and not who had it before: that note may still stand there."""
    until = clock.monotonic() + _NOTE_SECONDS_MAX
    while True:
        note = _note(descriptor)
        found = _NOTE.fullmatch(note)
        holder = _process(found)
        is_current = found is not None and not (holder and holder.is_dead())
        if is_current or clock.monotonic() >= until:
            return _named(found) if found else {"holder": note or "another process"}
        clock.sleep(_LOOK_SECONDS)
