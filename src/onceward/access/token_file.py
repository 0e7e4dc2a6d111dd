"""Token file: the token of this user's servers, stable over restarts, for its owner only."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final

from onceward.errors import FileMissing, NotWritable, StorageError
from onceward.journal import atomic
from onceward.journal.locked import give_back, open_locked
from onceward.seams import Ids, SystemFiles, translated
from onceward.stores.opening import HOME_VARIABLE, home

_NAME: Final = "token"
_BYTES_MAX: Final = 1024
_TOKEN: Final = re.compile(rb"[A-Za-z0-9_-]{16,200}\n?")


def token_path() -> Path:
    """Return where the token is."""
    return home() / _NAME


def open_token() -> str:
    """Return the token; the first call of this user makes it. Concurrent calls agree on one."""
    found = read_token()
    return _make(is_new=False) if found is None else found


def rotate_token() -> str:
    """Replace the token in one step. A server that is running keeps the one it has read."""
    return _make(is_new=True)


def read_token() -> str | None:
    """Return the token; None when there is none yet. Refuses a file that others could have read."""
    path = token_path()
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with translated(path, "open"):
            descriptor = os.open(path, flags)
    except FileMissing:
        return None
    try:
        _check_private(path, os.fstat(descriptor))
        text = os.read(descriptor, _BYTES_MAX)
    finally:
        os.close(descriptor)
    if not _TOKEN.fullmatch(text):
        message = f"{path} does not hold a token"
        raise StorageError(message, fix="replace the token: onceward token rotate", path=str(path))
    return text.decode("ascii").strip()


def _check_private(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        message = f"{path} is not a file"
        raise StorageError(message, fix="remove it, and start again", path=str(path))
    if found.st_uid != os.geteuid():
        message = f"{path} belongs to the user with the id {found.st_uid}, not to {os.geteuid()}"
        fix = f"remove it, or set {HOME_VARIABLE} to a directory of your own"
        raise StorageError(message, fix=fix, path=str(path))
    if found.st_mode & 0o077:
        message = (
            f"{path} has the mode {stat.S_IMODE(found.st_mode):04o}: others may know the token"
        )
        fix = f"replace the token: onceward token rotate. To keep it: chmod 600 {path}"
        raise StorageError(message, fix=fix, path=str(path))


def _make(*, is_new: bool) -> str:
    path, files = token_path(), SystemFiles()
    try:
        lock, _ = open_locked(path.with_name(f".{_NAME}.lock"), files, follow_links=False)
    except NotWritable as exc:
        fix = f"make it writable, or set {HOME_VARIABLE} to a directory that you may write"
        raise NotWritable(exc.message, fix=fix, path=str(path.parent)) from exc
    try:
        found = None if is_new else read_token()
        if found is not None:
            return found
        token = Ids().new("tok")
        # What lies there is from a crash, or planted; a new one is made exclusively, as 0600.
        temporary = path.with_name(f".{_NAME}.tmp")
        files.remove(temporary)
        files.create(temporary)
        atomic.write(path, f"{token}\n".encode(), files=files)
    finally:
        give_back(lock)
    written = read_token()
    assert written is not None, path
    return written
