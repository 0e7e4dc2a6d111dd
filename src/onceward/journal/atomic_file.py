"""Atomic files: replace a small file so that readers see either the old or the new content."""

from __future__ import annotations

from contextlib import closing
from os import PathLike
from pathlib import Path

from onceward.errors import FileMissing
from onceward.journal.file_lock import open_locked, unlock_and_close
from onceward.system import Files, SystemFiles
from onceward.system.crash_points import crash_point


def write(path: str | PathLike[str], data: bytes, *, files: Files | None = None) -> None:
    """Replace the content of `path` atomically and durably.

    Writers of one path lock its temporary file, `.<name>.tmp` beside it. A crash leaves at most
    that file, and the next write reuses it.
    """
    target, disk = Path(path), files or SystemFiles()
    temporary = target.with_name(f".{target.name}.tmp")
    # A symbolic link at the temporary's path must not redirect the write.
    file, _ = open_locked(temporary, disk, follow_links=False)
    try:
        crash_point("atomic.write.after_open")
        file.truncate(0)
        rest = memoryview(data)
        while rest:
            # The temporary has no readers, so a short write may continue, and may fail.
            written = file.write(bytes(rest))
            assert written > 0, temporary
            rest = rest[written:]
        crash_point("atomic.write.after_write")
        file.sync()
        crash_point("atomic.write.after_sync")
        disk.replace(temporary, target)
        crash_point("atomic.write.after_rename")
        disk.sync_directory(target.parent)
        crash_point("atomic.write.before_return")
    finally:
        unlock_and_close(file)


def read(path: Path, bytes_max: int, *, files: Files) -> bytes | None:
    """Return up to `bytes_max` bytes from the start of a file; None if it does not exist."""
    try:
        opened = files.open_read(path)
    except FileMissing:
        return None
    with closing(opened) as file:
        return file.read(0, bytes_max)
