"""Files: what our code does to files, and nothing else. Knows no machine."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol


class FileStat(NamedTuple):
    """Which file it is, and how long; a tuple, because several are made for every append."""

    #: With `inode`, the file's identity: another file under the same name has another one.
    device: int
    inode: int
    size: int

    @property
    def identity(self) -> tuple[int, int]:
        """Return what stays the same while the file grows."""
        return self[:2]


class OpenFile(Protocol):
    """One open file. What is not offered here, our code does not do to files."""

    def stat(self) -> FileStat:
        """Return identity and size as they are now."""

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes from `offset`, fewer only at the end of the file."""

    def write(self, data: bytes) -> int:
        """Append with a single call and return how many bytes were taken, which may be fewer."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""

    def lock(self) -> None:
        """Wait for the exclusive lock on this file; whoever dies gives it back."""

    def try_lock(self) -> bool:
        """Take the lock if nobody has it, and say whether that is so."""

    def unlock(self) -> None:
        """Give the lock back."""

    def sync(self) -> None:
        """Return once the content is on disk. A failure is final: this process refuses the file."""

    def close(self) -> None:
        """Give the descriptor back, and any lock with it."""


class Files(Protocol):
    """The file system, reduced to what can be made to survive a crash."""

    def open_append(self, path: Path, *, follow_links: bool = True) -> OpenFile:
        """Open for appending and reading; create it when missing."""

    def open_read(self, path: Path) -> OpenFile:
        """Open for reading; raise FileMissing when it is not there."""

    def stat(self, path: Path) -> FileStat | None:
        """Return what the name points to now, or None."""

    def names(self, path: Path) -> list[str]:
        """Return what a directory holds, sorted; nothing when it is missing."""

    def replace(self, source: Path, target: Path) -> None:
        """Give `source` the name `target` in one step; durable after sync_directory."""

    def remove(self, path: Path) -> None:
        """Take the name away; durable after sync_directory. A missing file is fine."""

    def make_directories(self, path: Path) -> None:
        """Create the directory and its missing parents, each durable before the next."""

    def sync_directory(self, path: Path) -> None:
        """Return once the names in this directory, and those that lead to it, are on disk."""
