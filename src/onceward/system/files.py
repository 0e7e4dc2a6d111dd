"""Files: the interface for all file operations of our code, implemented by `SystemFiles`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol


class FileStat(NamedTuple):
    """Identity and size of a file; a tuple for speed, since each append creates several."""

    #: With `inode`, the file's identity: a replaced file has a different one.
    device: int
    inode: int
    size: int

    @property
    def identity(self) -> tuple[int, int]:
        """Return device and inode, which stay the same while the file grows."""
        return self[:2]


class OpenFile(Protocol):
    """One open file. Our code uses no file operations but these."""

    def stat(self) -> FileStat:
        """Return identity and size as they are now."""

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes from `offset`, fewer only at the end of the file."""

    def write(self, data: bytes) -> int:
        """Append with a single call and return how many bytes were written, possibly fewer."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""

    def lock(self) -> None:
        """Wait for the exclusive lock on this file; released when its holder dies."""

    def try_lock(self) -> bool:
        """Acquire the lock if it is free, and return whether it was."""

    def unlock(self) -> None:
        """Release the lock."""

    def sync(self) -> None:
        """Return once the content is on disk. After a failure this process rejects the file."""

    def close(self) -> None:
        """Close the descriptor, which releases the lock."""


class Files(Protocol):
    """The file system operations that can be made crash-safe."""

    def open_append(self, path: Path, *, follow_links: bool = True) -> OpenFile:
        """Open for appending and reading; create it when missing."""

    def open_read(self, path: Path) -> OpenFile:
        """Open for reading; raise FileMissing if it does not exist."""

    def stat(self, path: Path) -> FileStat | None:
        """Return identity and size of the file at the path, or None."""

    def names(self, path: Path) -> list[str]:
        """Return the names in a directory, sorted; none if it is missing."""

    def replace(self, source: Path, target: Path) -> None:
        """Rename `source` to `target` atomically; durable after sync_directory."""

    def remove(self, path: Path) -> None:
        """Remove the file if it exists; durable after sync_directory."""

    def make_directories(self, path: Path) -> None:
        """Create the directory and its missing parents, each durable before the next."""

    def sync_directory(self, path: Path) -> None:
        """Return once the names in this directory, and of its parents, are on disk."""
