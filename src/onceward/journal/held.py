"""Held: a lock that one process keeps for as long as it lives, with a note that says who it is.

The kernel gives it back whatever happens to the process. Knows nothing of what it protects.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
from contextlib import closing
from pathlib import Path
from typing import Final

from onceward.errors import Conflict
from onceward.seams import FILE_MODE, Clock, Files, timestamp, translated

#: Whoever has taken the lock has written down who it is after so long.
_NOTE_SECONDS_MAX: Final = 1.0
_LOOK_SECONDS: Final = 0.01
_NOTE_BYTES_MAX: Final = 200
#: Where the kernel tells who has which file locked: process, device and inode. On some file systems
#: the device is not the one that the file says.
_LOCKS: Final = Path("/proc/locks")
_LOCK: Final = re.compile(r"FLOCK +ADVISORY +WRITE +(-?[0-9]+) +([0-9a-f]+:[0-9a-f]+):([0-9]+)")
_NOTE: Final = re.compile(r"process ([0-9]+) on (\S+) since \S+")


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


def hold(path: Path, files: Files, clock: Clock) -> Held:
    """Take the lock, or raise Conflict that names its holder."""
    files.make_directories(path.parent)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    with translated(path, "open"):
        descriptor = os.open(path, flags, FILE_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        try:
            holder = _holder(descriptor, clock)
        finally:
            os.close(descriptor)
        message = f"{path} is in use by {holder}"
        raise Conflict(message, fix="stop that one first", path=str(path), holder=holder) from None
    held = Held(path, descriptor)
    try:
        with closing(files.open_append(path, follow_links=False)) as note:
            note.truncate(0)
            since = timestamp(clock.now())
            note.write(f"process {os.getpid()} on {socket.gethostname()} since {since}\n".encode())
    except BaseException:
        # Nobody would ever give back what nobody was given.
        held.release()
        raise
    return held


def is_held(path: Path) -> bool:
    """Say whether somebody has the lock, without asking for it: who asks would be in the way.

    Of a holder on another machine, whose locks are not seen here, the note is believed.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            found = os.fstat(descriptor)
            note = os.pread(descriptor, _NOTE_BYTES_MAX, 0).decode(errors="replace").strip()
        finally:
            os.close(descriptor)
        locks = _LOCKS.read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    named = _NOTE.fullmatch(note)
    if named is not None and named[2] != socket.gethostname():
        return True
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
    process = named[1] if named else ""
    return any(
        inode == str(found.st_ino) and (where == device or who == process)
        for who, where, inode in _LOCK.findall(locks)
    )


def _holder(descriptor: int, clock: Clock) -> str:
    """Return who has it: not who had it before, whose note may stand there for a moment still."""
    until = clock.monotonic() + _NOTE_SECONDS_MAX
    while True:
        note = os.pread(descriptor, _NOTE_BYTES_MAX, 0).decode(errors="replace").strip()
        if _is_current(note) or clock.monotonic() >= until:
            return note or "somebody"
        clock.sleep(_LOOK_SECONDS)


def _is_current(note: str) -> bool:
    """Say whether the process that a note names may be there; of other machines nobody knows."""
    found = _NOTE.fullmatch(note)
    if found is None:
        return False
    return found[2] != socket.gethostname() or Path(f"/proc/{found[1]}").exists()
