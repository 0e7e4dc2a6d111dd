"""Refusals: how the system's errors become ours; test doubles of `Files` use the same."""

from __future__ import annotations

import contextlib
import errno
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


def refusal(exc: OSError, path: Path, doing: str) -> StorageError:
    """Return our error for what the system answered."""
    kind = _KINDS.get(exc.errno or 0, StorageError)
    message = f"cannot {doing} {path}: {exc.strerror or exc}"
    if kind is FileMissing and doing == "open":
        message = f"{path} does not exist"
    return kind(message, path=str(path))


@contextlib.contextmanager
def translated(path: Path, doing: str) -> Iterator[None]:
    """Turn the system's refusals into ours."""
    try:
        yield
    except OSError as exc:
        raise refusal(exc, path, doing) from exc


def read_named(path: Path, *, name: str = "", fix: str) -> bytes:
    """Return what stands in a file that somebody named, in an argument called `name` if any."""
    prefix = f"{name}: " if name else ""
    try:
        return path.read_bytes()
    except FileNotFoundError as exc:
        message = f"{prefix}{path} does not exist"
        raise FileMissing(message, fix=fix, path=str(path)) from exc
    except OSError as exc:
        message = f"{prefix}cannot read {path}: {exc.strerror}"
        raise StorageError(message, fix=fix, path=str(path)) from exc


def sync_failure(exc: OSError, path: Path) -> FileRefused:
    """Return the error for an fsync that failed, which is final for that file."""
    return FileRefused(f"fsync of {path} failed: {exc.strerror or exc}", path=str(path))


def distrust(path: Path) -> FileRefused:
    """Return the error for a file whose fsync failed earlier."""
    message = f"an earlier fsync of {path} failed; this process trusts it no more"
    return FileRefused(message, path=str(path))
