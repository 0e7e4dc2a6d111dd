"""Directories: check a directory's free space, file system, sync and permissions."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from onceward.doctor.models import Check
from onceward.errors import OncewardError
from onceward.stores.store_urls import HOME_VARIABLE
from onceward.system import SystemClock, SystemFiles

FREE_BYTES_MIN: Final = 1024**3
PROBE_COUNT: Final = 20
#: A sync that is faster than this cannot have reached a disk.
SYNC_MILLIS_MIN: Final = 0.005
MOUNTS: Final = Path("/proc/self/mountinfo")
#: File systems in memory: their files are lost at a restart.
IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
#: Network file systems: SQLite cannot rely on their locks and shared memory.
REMOTE: Final = frozenset(
    {"9p", "afs", "cifs", "fuse.sshfs", "nfs", "nfs4", "smb3", "smbfs", "vboxsf"}
)
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


def examine_place(place: Path, setting: str = HOME_VARIABLE) -> Iterator[Check]:
    """Check the disk of a directory, which need not exist yet.

    `setting` is the option or variable that sets the directory.
    """
    try:
        there = _nearest_existing(place)
        yield _free_space(there)
    except OSError as exc:
        why = "data cannot be stored in a directory that cannot be reached"
        yield unreachable("disk", place, exc, why=why, setting=setting)
        return
    yield _file_system(there, setting)
    yield _sync(there, setting)


def _nearest_existing(place: Path) -> Path:
    """Return the directory itself, or its nearest existing parent."""
    for level in (place, *place.parents):
        try:
            level.lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        if not level.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(level))
        return level
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(place))


def unreachable(name: str, place: Path, exc: OSError, *, why: str, setting: str) -> Check:
    """Return a failed check for a path that cannot be read."""
    said = (exc.strerror or str(exc)).lower()
    return Check(
        name=name,
        status="fail",
        detail=f"{place} cannot be reached: {said}",
        why=why,
        fix=f"give this user access, or {_elsewhere(setting, 'a writable directory')}",
    )


def _elsewhere(setting: str, place: str) -> str:
    """Return the fix that moves the data; a store is set by its URL, a home by its path."""
    if setting in (HOME_VARIABLE, "HOME"):
        return f"set {setting} to {place}"
    return f"set {setting} to a store in {place}"


def _free_space(place: Path) -> Check:
    usage = os.statvfs(place)
    free = usage.f_bavail * usage.f_frsize
    is_enough = free >= FREE_BYTES_MIN
    return Check(
        name="disk",
        status="ok" if is_enough else "warn",
        detail=f"{free / 1024**3:.1f} GiB free at {place}",
        why="work stops when the disk is full; nothing is lost",
        fix="" if is_enough else "free at least 1 GiB",
    )


def _file_system(place: Path, setting: str) -> Check:
    try:
        kind = kind_of_mount(place.resolve(), MOUNTS.read_text(errors="replace"))
    except OSError:
        kind = "unknown"
    elsewhere = _elsewhere(setting, "a directory on a disk of this machine")
    if kind in IN_MEMORY:
        why, fix = "files in memory are lost at the next restart", elsewhere
    elif kind in REMOTE:
        why = "processes that share a file need locks and memory that a network file system lacks"
        fix = f"{elsewhere}, or keep the store in PostgreSQL"
    else:
        why, fix = "the kind of disk decides what survives a power loss", ""
    return Check(
        name="filesystem",
        status="warn" if fix else "ok",
        detail=f"{kind} at {place}",
        why=why,
        fix=fix,
    )


def kind_of_mount(place: Path, mounts: str) -> str:
    """Return the file system type of a path, from the system's list of mounts."""
    found, depth = "unknown", -1
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        if len(fields) < 5 or not right:
            continue
        point = Path(_ESCAPED.sub(lambda code: chr(int(code[1], 8)), fields[4]))
        # A later mount at the same point hides the earlier one.
        if len(point.parts) >= depth and place.is_relative_to(point):
            found, depth = right.split(" ")[0], len(point.parts)
    return found


def _sync(place: Path, setting: str) -> Check:
    """Append to a probe file in the directory and sync it a few times."""
    why = "acknowledged data must be on the disk, not in a cache"
    files, clock = SystemFiles(), SystemClock()
    try:
        with tempfile.TemporaryDirectory(dir=place, prefix=".onceward-doctor-") as directory:
            file = files.open_append(Path(directory) / "probe")
            began = clock.monotonic()
            for _ in range(PROBE_COUNT):
                file.write(b"x" * 512)
                file.sync()
            millis = (clock.monotonic() - began) * 1000 / PROBE_COUNT
            file.close()
    except (OncewardError, OSError) as exc:
        detail = f"cannot write and sync at {place}: {exc}"
        fix = _elsewhere(setting, "a writable directory")
        return Check(name="fsync", status="fail", detail=detail, why=why, fix=fix)
    detail = f"{millis:.2f} ms per sync at {place}"
    if millis >= SYNC_MILLIS_MIN:
        return Check(name="fsync", status="ok", detail=detail, why=why)
    fix = _elsewhere(setting, "a directory on a disk that keeps what was synced")
    detail = f"{detail}: too fast to be a disk, so a power loss may lose acknowledged work"
    return Check(name="fsync", status="warn", detail=detail, why=why, fix=fix)


def examine_permissions(place: Path, setting: str) -> Check:
    """Check that a directory belongs to this user, and that others cannot write to it."""
    why = "a user who can write there can change stored data"
    try:
        found = place.stat()
    except FileNotFoundError:
        detail = f"{place} will be created with mode 0700"
        return Check(name="permissions", status="ok", detail=detail, why=why)
    except OSError as exc:
        return unreachable("permissions", place, exc, why=why, setting=setting)
    if not os.access(place, os.W_OK | os.X_OK):
        is_ours = found.st_uid == os.geteuid()
        fix = f"chmod u+rwx {place}" if is_ours else f"as root: chown -R $(id -un) {place}"
        detail = f"{place} is not writable for this user"
        return Check(name="permissions", status="fail", detail=detail, why=why, fix=fix)
    if found.st_mode & 0o022:
        fix = f"chmod go-w {place}"
        detail = f"{place} is writable by other users"
        return Check(name="permissions", status="warn", detail=detail, why=why, fix=fix)
    return Check(name="permissions", status="ok", detail=str(place), why=why)
