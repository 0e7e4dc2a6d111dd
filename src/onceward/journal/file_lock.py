"""File lock: open and lock the file at a path, even if it is being replaced meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from onceward.errors import FileMissing, StorageError, WrongPath
from onceward.system import Files, FileStat, OpenFile

#: How often the file may be replaced while we wait for its lock before we give up.
REOPEN_COUNT_MAX: Final = 1000


def lock_blocking(file: OpenFile) -> None:
    """Lock a file, without a timeout."""
    file.lock()


def open_locked(
    path: Path,
    files: Files,
    *,
    follow_links: bool = True,
    take: Callable[[OpenFile], None] = lock_blocking,
) -> tuple[OpenFile, FileStat]:
    """Open `path` for appending, created with its directories where missing, and lock it.

    The lock belongs to the file, not to its name. If the name leads to another file once the lock
    is acquired, it starts again. `take` acquires the lock, or raises.
    """
    for _ in range(REOPEN_COUNT_MAX):
        try:
            file = files.open_append(path, follow_links=follow_links)
        except FileMissing:
            if path.is_symlink():
                message = f"{path} is a symbolic link to a missing file; nothing was written"
                raise WrongPath(message, fix="create its target, or remove the link") from None
            files.make_directories(path.parent)
            continue
        try:
            take(file)
            found, current = file.stat(), files.stat(path)
        except BaseException:
            unlock_and_close(file)
            raise
        if current is not None and current.identity == found.identity:
            return file, found
        unlock_and_close(file)
    message = (
        f"{path} was replaced {REOPEN_COUNT_MAX} times while this process waited for its lock; "
        "nothing was written"
    )
    raise StorageError(
        message, fix="stop the process that replaces it, then try again", path=str(path)
    )


def unlock_and_close(file: OpenFile) -> None:
    """Unlock and close; closing alone keeps the lock if a forked child has the descriptor."""
    try:
        file.unlock()
    finally:
        file.close()
