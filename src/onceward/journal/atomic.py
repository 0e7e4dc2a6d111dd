"""Atomic: small files that are read and replaced as a whole: the old one or the new one."""

from __future__ import annotations

from contextlib import closing
from os import PathLike
from pathlib import Path

from onceward.crash import crash_point
from onceward.errors import FileMissing
from onceward.journal.locked import give_back, open_locked
from onceward.seams import Files, SystemFiles


def write(path: str | PathLike[str], data: bytes, *, files: Files | None = None) -> None:
    """Put `data` under `path`, durably and in one step.

    Writers of one path take turns on its temporary, `.<name>.tmp` beside it; a crash leaves at most
    that one behind, and the next write uses it again.
    """
    target, disk = Path(path), files or SystemFiles()
    temporary = target.with_name(f".{target.name}.tmp")
    # A link planted in its place must not lead us to write somewhere else.
    file, _ = open_locked(temporary, disk, follow_links=False)
    try:
        crash_point("atomic.write.after_open")
        file.truncate(0)
        rest = memoryview(data)
        while rest:
            # Nobody reads a temporary, so a short write may go on, and fail, where it stopped.
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
        give_back(file)


def read(path: Path, bytes_max: int, *, files: Files) -> bytes | None:
    """Return the beginning of a file; None when there is none."""
    try:
        opened = files.open_read(path)
    except FileMissing:
        return None
    with closing(opened) as file:
        return file.read(0, bytes_max)
