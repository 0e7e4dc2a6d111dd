"""Token file: read, create or rotate the token of this user's servers; private to the user."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final

from onceward.errors import FileMissing, NotWritable, WrongPath
from onceward.journal import atomic_file
from onceward.journal.file_lock import open_locked, unlock_and_close
from onceward.stores.store_urls import HOME_VARIABLE, home
from onceward.system import Ids, SystemFiles, mapped_os_errors

_NAME: Final = "token"
_BYTES_MAX: Final = 1024
_TOKEN: Final = re.compile(rb"[A-Za-z0-9_-]{16,200}\n?")

#: The fix for something else at the path of the token.
_REMOVE: Final = "remove it; the next start of a server creates a token"


def token_path() -> Path:
    """Return the path of the token file."""
    return home() / _NAME


def open_token() -> str:
    """Return the token; create it on first use. Concurrent calls agree on one token."""
    found = read_token()
    return _create(is_new=False) if found is None else found


def rotate_token() -> str:
    """Replace the token atomically. Running servers keep the old one until they restart."""
    return _create(is_new=True)


def read_token() -> str | None:
    """Return the token, or None if there is none. Rejects a file that other users can read."""
    path = token_path()
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with mapped_os_errors(path, "open"):
            descriptor = os.open(path, flags)
    except FileMissing:
        return None
    except WrongPath as exc:
        message = f"{path} is a link or not a regular file; no token was read"
        raise WrongPath(message, fix=_REMOVE, path=str(path)) from exc
    try:
        _check_private(path, os.fstat(descriptor))
        text = os.read(descriptor, _BYTES_MAX)
    finally:
        os.close(descriptor)
    if not _TOKEN.fullmatch(text):
        message = f"{path} does not hold a token; it was left unchanged"
        fix = "create a new one: onceward token rotate --yes"
        raise WrongPath(message, fix=fix, path=str(path))
    return text.decode("ascii").strip()


def _check_private(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        message = f"{path} is not a regular file; no token was read"
        raise WrongPath(message, fix=_REMOVE, path=str(path))
    if found.st_uid != os.geteuid():
        message = f"{path} belongs to user {found.st_uid}, not to {os.geteuid()}; it was not read"
        fix = f"set {HOME_VARIABLE} to a directory of your own, or let the file's owner remove it"
        raise WrongPath(message, fix=fix, path=str(path))
    if found.st_mode & 0o077:
        mode = f"{stat.S_IMODE(found.st_mode):04o}"
        message = f"{path} has mode {mode}, so other users may know the token; it was not read"
        create = "onceward token rotate --yes"
        fix = f"create a new token: {create}; or keep this one: chmod 600 {path}"
        raise WrongPath(message, fix=fix, path=str(path))


def _create(*, is_new: bool) -> str:
    path, files = token_path(), SystemFiles()
    try:
        lock, _ = open_locked(path.with_name(f".{_NAME}.lock"), files, follow_links=False)
    except NotWritable as exc:
        place = f"set {HOME_VARIABLE} to a directory that you can write to"
        fix = f"make {path.parent} writable for this user, or {place}"
        raise NotWritable(exc.message, fix=fix, path=str(path.parent)) from exc
    try:
        found = None if is_new else read_token()
        if found is not None:
            return found
        token = Ids().new("tok")
        # An existing temporary is from a crash, or planted. Ours is created exclusively, as 0600.
        temporary = path.with_name(f".{_NAME}.tmp")
        files.remove(temporary)
        files.create(temporary)
        atomic_file.write(path, f"{token}\n".encode(), files=files)
    finally:
        unlock_and_close(lock)
    written = read_token()
    assert written is not None, path
    return written
