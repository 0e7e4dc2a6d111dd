"""Locked: the file that has a name now, with its lock held."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from onceward.errors import FileMissing, StorageError, WrongPath
from onceward.seams import Files, FileStat, OpenFile

#: How often the file may be replaced while we wait for its lock before we give up.
REOPEN_COUNT_MAX: Final = 1000


def wait_for_ever(file: OpenFile) -> None:
    """Take a lock, however long its holder keeps it."""
    file.lock()


def open_locked(
    path: Path,
    files: Files,
    *,
    follow_links: bool = True,
    take: Callable[[OpenFile], None] = wait_for_ever,
) -> tuple[OpenFile, FileStat]:
    """Open `path` for appending, created with its directories where missing, and lock it.

    The lock lies on the file, not on its name: whoever got it may find that the name points to
    another file by now, and begins again. `take` takes it, or raises.
    """
    for _ in range(REOPEN_COUNT_MAX):
        try:
            file = files.open_append(path, follow_links=follow_links)
        except FileMissing:
            if path.is_symlink():
                message = f"{path} is a link to a place that does not exist"
                raise WrongPath(message, fix="make that place, or remove the link") from None
            files.make_directories(path.parent)
            continue
        try:
            take(file)
            found, current = file.stat(), files.stat(path)
        except BaseException:
            give_back(file)
            raise
        if current is not None and current.identity == found.identity:
            return file, found
        give_back(file)
    message = f"{path} is being replaced over and over"
    raise StorageError(message, fix="find out who else replaces it", path=str(path))


def give_back(file: OpenFile) -> None:
    """Unlock and close: to close is not enough when a forked child has a copy of the descriptor."""
    try:
        file.unlock()
    finally:
        file.close()
