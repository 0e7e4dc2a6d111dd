"""System files: the machine's own, synced up to the root, and distrusted after one failed fsync."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path
from typing import ClassVar, Final

from onceward.errors import FileRefused, NotWritable
from onceward.seams.files import FileStat, OpenFile
from onceward.seams.refusals import distrust, refusal, sync_failure, translated

FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700


class SystemFiles:
    """The machine's file system."""

    #: Directories whose way from the root this process knows to be on disk.
    _anchored: ClassVar[set[tuple[int, int]]] = set()

    def open_append(self, path: Path, *, follow_links: bool = True) -> OpenFile:
        """Open for appending and reading; create it readable by its owner only."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | (0 if follow_links else os.O_NOFOLLOW)
        return _SystemFile(path, flags)

    def create(self, path: Path) -> None:
        """Create an empty file with mode 0600; one that exists is not opened."""
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
        except FileExistsError:
            pass
        except OSError as exc:
            raise refusal(exc, path, "create") from exc

    def open_read(self, path: Path) -> OpenFile:
        """Open for reading; opening never waits, not even for a pipe's other end."""
        return _SystemFile(path, os.O_RDONLY | os.O_NONBLOCK)

    def stat(self, path: Path) -> FileStat | None:
        """Return what the name points to now, or None."""
        try:
            return _file_stat(os.stat(path))  # noqa: PTH116 - a third of pathlib's cost
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise refusal(exc, path, "look at") from exc

    def names(self, path: Path) -> list[str]:
        """List the directory."""
        try:
            return sorted(os.listdir(path))  # noqa: PTH208 - names are what is wanted
        except FileNotFoundError:
            return []
        except OSError as exc:
            raise refusal(exc, path, "list") from exc

    def replace(self, source: Path, target: Path) -> None:
        """Rename over the target."""
        with translated(target, "replace"):
            source.replace(target)

    def remove(self, path: Path) -> None:
        """Unlink."""
        with translated(path, "remove"):
            path.unlink(missing_ok=True)

    def make_directories(self, path: Path) -> None:
        """Create what is missing, from the top, syncing each parent."""
        missing = [level for level in (path, *path.parents) if not level.is_dir()]
        for level in reversed(missing):
            with translated(level, "create"):
                level.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
            self.sync_directory(level.parent)

    def sync_directory(self, path: Path) -> None:
        """Fsync the directory and, the first time, those above it."""
        identity = _sync_directory(path)
        if identity in self._anchored:
            return
        # Whoever made them may have died before it synced them.
        for above in path.resolve().parents:
            with contextlib.suppress(NotWritable):  # We may pass through it, but not open it.
                _sync_directory(above)
        self._anchored.add(identity)


class _SystemFile:
    """A descriptor, and the memory of which files failed to sync in this process."""

    #: Linux may drop the pages it failed to write and report success next time: once is for ever.
    _refused: ClassVar[set[tuple[int, int]]] = set()

    def __init__(self, path: Path, flags: int) -> None:
        self._path = path
        try:
            self._descriptor = os.open(path, flags | os.O_CLOEXEC, FILE_MODE)
        except OSError as exc:
            raise refusal(exc, path, "open") from exc
        try:
            self._check_trusted()
        except FileRefused:
            self.close()
            raise

    def stat(self) -> FileStat:
        return _file_stat(os.fstat(self._descriptor))

    def read(self, offset: int, size: int) -> bytes:
        try:
            return os.pread(self._descriptor, size, offset)
        except OSError as exc:
            raise refusal(exc, self._path, "read") from exc

    def write(self, data: bytes) -> int:
        self._check_trusted()
        try:
            return os.write(self._descriptor, data)
        except OSError as exc:
            raise refusal(exc, self._path, "write to") from exc

    def truncate(self, size: int) -> None:
        with translated(self._path, "truncate"):
            os.ftruncate(self._descriptor, size)

    def lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        except OSError as exc:
            raise refusal(exc, self._path, "lock") from exc

    def try_lock(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as exc:
            raise refusal(exc, self._path, "lock") from exc
        return True

    def unlock(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def sync(self) -> None:
        self._check_trusted()
        try:
            os.fdatasync(self._descriptor)
        except OSError as exc:
            self._refused.add(self.stat().identity)
            raise sync_failure(exc, self._path) from exc

    def close(self) -> None:
        os.close(self._descriptor)

    def _check_trusted(self) -> None:
        if self._refused and self.stat().identity in self._refused:
            raise distrust(self._path)


def _file_stat(found: os.stat_result) -> FileStat:
    return FileStat(found.st_dev, found.st_ino, found.st_size)


def _sync_directory(path: Path) -> tuple[int, int]:
    with translated(path, "open"):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as exc:
        if exc.errno != errno.EINVAL:  # Some file systems keep no directories to sync.
            raise refusal(exc, path, "sync") from exc
    finally:
        identity = _file_stat(os.fstat(descriptor)).identity
        os.close(descriptor)
    return identity
