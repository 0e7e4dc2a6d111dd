"""Held: a lock that one process keeps for as long as it lives, with a note that says who it is.

The kernel gives it back whatever happens to the process. Knows nothing of what it protects.
"""

from __future__ import annotations

import fcntl
import os
import socket
from contextlib import closing
from pathlib import Path

from onceward.errors import Conflict
from onceward.seams import FILE_MODE, Clock, Files, timestamp, translated


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
        holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "somebody"
        os.close(descriptor)
        message = f"{path} is in use by {holder}"
        raise Conflict(message, fix="stop that one first", path=str(path), holder=holder) from None
    with closing(files.open_append(path, follow_links=False)) as note:
        note.truncate(0)
        since = timestamp(clock.now())
        note.write(f"process {os.getpid()} on {socket.gethostname()} since {since}\n".encode())
    return Held(path, descriptor)
