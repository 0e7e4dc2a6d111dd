"""System files: crash-safe file operations of the machine; rejects a file after a failed fsync."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path
from typing import ClassVar, Final

from onceward.errors import FileRefused, NotWritable
from onceward.system.files import FileStat, OpenFile
from onceward.system.os_errors import file_error, mapped_os_errors, sync_error, untrusted_file

FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700


class SystemFiles:
    """The machine's file system."""

    #: Directories whose names, up to the root, are known to be on disk.
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
            raise file_error(exc, path, "create") from exc

    def open_read(self, path: Path) -> OpenFile:
        """Open for reading; never blocks, not even for the other end of a pipe."""
        return _SystemFile(path, os.O_RDONLY | os.O_NONBLOCK)

    def stat(self, path: Path) -> FileStat | None:
        """Return identity and size of the file at the path, or None."""
        try:
            return _file_stat(os.stat(path))  # noqa: PTH116 - a third of pathlib's cost
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise file_error(exc, path, "inspect") from exc

    def names(self, path: Path) -> list[str]:
        """List the directory."""
        try:
            return sorted(os.listdir(path))  # noqa: PTH208 - names are what is wanted
        except FileNotFoundError:
            return []
        except OSError as exc:
            raise file_error(exc, path, "list") from exc

    def replace(self, source: Path, target: Path) -> None:
        """Rename over the target."""
        with mapped_os_errors(target, "replace"):
            source.replace(target)

    def remove(self, path: Path) -> None:
        """Unlink."""
        with mapped_os_errors(path, "remove"):
            path.unlink(missing_ok=True)

    def make_directories(self, path: Path) -> None:
        """Create what is missing, from the top, syncing each parent."""
        missing = [level for level in (path, *path.parents) if not level.is_dir()]
        for level in reversed(missing):
            with mapped_os_errors(level, "create"):
                level.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
            self.sync_directory(level.parent)

    def sync_directory(self, path: Path) -> None:
        """Fsync the directory and, the first time, those above it."""
        identity = _sync_directory(path)
        if identity in self._anchored:
            return
        # The process that created them may have died before it synced them.
        for above in path.resolve().parents:
            with contextlib.suppress(NotWritable):  # It may be traversable, but not readable.
                _sync_directory(above)
        self._anchored.add(identity)


class _SystemFile:
    """An open file; remembers which files failed to sync in this process."""

    #: Linux may drop pages that it failed to write, and report success for the next fsync.
    _refused: ClassVar[set[tuple[int, int]]] = set()

    def __init__(self, path: Path, flags: int) -> None:
        self._path = path
        try:
            self._descriptor = os.open(path, flags | os.O_CLOEXEC, FILE_MODE)
        except OSError as exc:
            raise file_error(exc, path, "open") from exc
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
            raise file_error(exc, self._path, "read") from exc

    def write(self, data: bytes) -> int:
        self._check_trusted()
        try:
            return os.write(self._descriptor, data)
        except OSError as exc:
            raise file_error(exc, self._path, "write to") from exc

    def truncate(self, size: int) -> None:
        with mapped_os_errors(self._path, "truncate"):
            os.ftruncate(self._descriptor, size)

    def lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        except OSError as exc:
            raise file_error(exc, self._path, "lock") from exc

    def try_lock(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as exc:
            raise file_error(exc, self._path, "lock") from exc
        return True

    def unlock(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def sync(self) -> None:
        self._check_trusted()
        try:
            os.fdatasync(self._descriptor)
        except OSError as exc:
            self._refused.add(self.stat().identity)
            raise sync_error(exc, self._path) from exc

    def close(self) -> None:
        os.close(self._descriptor)

    def _check_trusted(self) -> None:
        if self._refused and self.stat().identity in self._refused:
            raise untrusted_file(self._path)


def _file_stat(found: os.stat_result) -> FileStat:
    return FileStat(found.st_dev, found.st_ino, found.st_size)


def _sync_directory(path: Path) -> tuple[int, int]:
    with mapped_os_errors(path, "open"):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as exc:
        if exc.errno != errno.EINVAL:  # Some file systems cannot sync directories.
            raise file_error(exc, path, "sync") from exc
    finally:
        identity = _file_stat(os.fstat(descriptor)).identity
        os.close(descriptor)
    return identity
