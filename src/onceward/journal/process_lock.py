"""Process lock: a file lock that one process holds while it runs, with its identity in the file.

The kernel releases it when the process ends, for any reason.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from onceward.errors import Conflict
from onceward.system import FILE_MODE, Clock, Files, ProcessIdentity, mapped_os_errors, timestamp

#: A new holder has written its identity into the file after this long.
_NOTE_SECONDS_MAX: Final = 1.0
_LOOK_SECONDS: Final = 0.01
_NOTE_BYTES_MAX: Final = 400
#: `is_process_lock_held` may hold the lock for an instant; a real holder outlasts these attempts.
_TRIES: Final = 3
#: The kernel's list of file locks: process, device and inode. On some file systems the device
#: differs from the one in `stat`.
_LOCKS: Final = Path("/proc/locks")
_LOCK: Final = re.compile(r"FLOCK +ADVISORY +WRITE +(-?[0-9]+) +([0-9a-f]+:[0-9a-f]+):([0-9]+)")
#: A line for people, with the holder's purpose, and a line for programs.
_NOTE: Final = re.compile(
    r"(?P<holder>process (?P<pid>[0-9]+) on (?P<host>\S+) since (?P<since>\S+))"
    r"(?: for (?P<purpose>.+))?(?:\n(?P<process>\S+))?"
)


class HeldProcessLock:
    """A process lock that this process holds."""

    def __init__(self, path: Path, descriptor: int) -> None:
        """Hold it until `release`."""
        self._path, self._descriptor, self._owner = path, descriptor, os.getpid()

    def is_ours(self) -> bool:
        """Return whether the path still leads to our file; else another process may hold a lock."""
        try:
            found = os.stat(self._path)  # noqa: PTH116 - asked before every record
        except OSError:
            return False
        ours = os.fstat(self._descriptor)
        return (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino)

    def release(self) -> None:
        """Release it; a forked child only closes its copy, since the lock is its parent's."""
        if os.getpid() == self._owner:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)


def acquire_process_lock(
    path: Path, files: Files, clock: Clock, *, purpose: Callable[[], str] = str
) -> HeldProcessLock:
    """Acquire the lock, or raise Conflict with its holder and the holder's purpose.

    `purpose` is called once the lock is held; a non-empty result is written to the file.
    The descriptor is closed on exec, so no child process keeps the lock of a killed parent.
    """
    files.make_directories(path.parent)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    with mapped_os_errors(path, "open"):
        descriptor = os.open(path, flags, FILE_MODE)
    if not _is_taken(descriptor, clock):
        try:
            holder = _holder(descriptor, clock)
        finally:
            os.close(descriptor)
        what = f" for {holder['purpose']}" if "purpose" in holder else ""
        message = f"{path} is in use by {holder['holder']}{what}"
        fix = "wait until that process ends, or stop it"
        raise Conflict(message, fix=fix, path=str(path), **holder)
    held = HeldProcessLock(path, descriptor)
    try:
        with closing(files.open_append(path, follow_links=False)) as note:
            note.truncate(0)
            since = timestamp(clock.now())
            own = ProcessIdentity.own()
            shown = f"process {own.pid} on {own.host} since {since}"
            what = purpose()
            shown += f" for {what}" if what else ""
            note.write(f"{shown}\n{own.holder('lock')}\n".encode())
    except BaseException:
        # The caller gets no handle to release it with.
        held.release()
        raise
    return held


def is_process_lock_held(path: Path) -> bool:
    """Return whether a process holds the lock, if possible without acquiring it.

    The kernel lists the locks of our own pid namespace. For a holder in another one, or of another
    boot, the lock is acquired for an instant. A holder on another machine is assumed to be alive.
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
    """Return whether the kernel lists a lock on this file."""
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
    """Return the parts of a note by name."""
    purpose = {"purpose": note["purpose"]} if note["purpose"] else {}
    return {"holder": note["holder"], "pid": int(note["pid"]), "since": note["since"], **purpose}


def _holder(descriptor: int, clock: Clock) -> dict[str, object]:
    """Return the current holder; waits while the file still names a previous, dead holder."""
    until = clock.monotonic() + _NOTE_SECONDS_MAX
    while True:
        note = _note(descriptor)
        found = _NOTE.fullmatch(note)
        holder = _process(found)
        is_current = found is not None and not (holder and holder.is_dead())
        if is_current or clock.monotonic() >= until:
            return _named(found) if found else {"holder": note or "another process"}
        clock.sleep(_LOOK_SECONDS)
