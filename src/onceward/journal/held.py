"""Held: a lock that one process keeps for as long as it lives, with a note that says who it is.

The kernel gives it back whatever happens to the process. Knows nothing of what it protects.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from onceward.errors import Conflict
from onceward.seams import FILE_MODE, Clock, Files, timestamp, translated


def hold(path: Path, files: Files, clock: Clock) -> Callable[[], None]:
    """Take the lock, or raise Conflict that names its holder; return what gives it back."""
    files.make_directories(path.parent)
    owner = os.getpid()
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

    def release() -> None:
        if os.getpid() == owner:  # A forked child only closes its copy; the lock is its parent's.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)

    with closing(files.open_append(path, follow_links=False)) as note:
        note.truncate(0)
        since = timestamp(clock.now())
        note.write(f"process {owner} on {socket.gethostname()} since {since}\n".encode())
    return release
