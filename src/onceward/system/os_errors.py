"""OS errors: map `OSError` to our errors; also used by fakes of `Files`."""

from __future__ import annotations

import contextlib
import errno
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from onceward.errors import (
    DiskFull,
    FileMissing,
    FileRefused,
    NotWritable,
    StorageError,
    WrongPath,
)

_KINDS: Final[dict[int, type[StorageError]]] = {
    errno.ENOENT: FileMissing,
    errno.ENOSPC: DiskFull,
    errno.EDQUOT: DiskFull,
    errno.EROFS: NotWritable,
    errno.EACCES: NotWritable,
    errno.EPERM: NotWritable,
    errno.EISDIR: WrongPath,
    errno.ENOTDIR: WrongPath,
    errno.EEXIST: WrongPath,
    errno.ELOOP: WrongPath,
    errno.ENAMETOOLONG: WrongPath,
    errno.ESPIPE: WrongPath,
}


def file_error(exc: OSError, path: Path, doing: str) -> StorageError:
    """Return our error for an `OSError`."""
    kind = _KINDS.get(exc.errno or 0, StorageError)
    message = f"cannot {doing} {path}: {exc.strerror or exc}"
    if kind is FileMissing and doing == "open":
        message = f"{path} does not exist"
    fix = "use a shorter path" if exc.errno == errno.ENAMETOOLONG else ""
    return kind(message, fix=fix, path=str(path))


def find_openers(path: Path) -> str:
    """Return the command that prints /proc/PID/fd of each process that has a file open.

    Every system has `find`; `fuser` and `lsof` are often missing.
    """
    named = shlex.quote(str(path.resolve()))
    return f"find /proc/[0-9]*/fd -lname {named} 2>/dev/null"


@contextlib.contextmanager
def mapped_os_errors(path: Path, doing: str) -> Iterator[None]:
    """Raise our errors in place of `OSError`."""
    try:
        yield
    except OSError as exc:
        raise file_error(exc, path, doing) from exc


def read_user_file(path: Path, *, name: str = "", fix: str) -> bytes:
    """Read a file that the user passed; `name` is the argument, for error messages."""
    prefix = f"{name}: " if name else ""
    try:
        return path.read_bytes()
    except FileNotFoundError as exc:
        message = f"{prefix}{path} does not exist"
        raise FileMissing(message, fix=fix, path=str(path)) from exc
    except OSError as exc:
        message = f"{prefix}cannot read {path}: {exc.strerror}"
        raise StorageError(message, fix=fix, path=str(path)) from exc


def sync_error(exc: OSError, path: Path) -> FileRefused:
    """Return the error for a failed fsync; this process rejects the file from then on."""
    message = (
        f"fsync of {path} failed: {exc.strerror or exc}; its last writes may be lost, "
        "and this process does not use it any more"
    )
    return FileRefused(message, path=str(path))


def untrusted_file(path: Path) -> FileRefused:
    """Return the error for a file whose fsync failed earlier."""
    message = f"an earlier fsync of {path} failed; this process does not use it any more"
    return FileRefused(message, path=str(path))
