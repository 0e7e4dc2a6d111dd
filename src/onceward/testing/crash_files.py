"""CrashFiles: a simulated file system that can lose power, fail operations and list outcomes.

Implements the injectable `Files` over a simulated disk: what running code sees, locks, and planned
failures. `crash_states` decides which disks a crash may leave.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from onceward.system import mapped_os_errors
from onceward.testing.crash_file import CrashFile, file_stat
from onceward.testing.crash_states import STATES_MAX, DiskSnapshot
from onceward.testing.disk import Directory, Disk, Inode, os_error
from onceward.testing.process import Fault, Process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from onceward.system import FileStat, OpenFile
    from onceward.testing.crash_states import Origin
    from onceward.testing.process import Operation


class CrashFiles:
    """One process's view of a simulated disk; an empty one unless it comes from a crash.

    Running code sees every change immediately. Content is durable after `sync`, names after
    `sync_directory`; any other change may or may not survive a crash.
    """

    def __init__(self, disk: Disk | None = None, origin: Origin | None = None) -> None:
        """Use this disk, or an empty one."""
        self._disk = disk or Disk()
        self._origin = origin
        self._process = Process(self._disk)

    @property
    def description(self) -> str:
        """Return what the crash kept and dropped, for failure messages."""
        return str(self._origin or "no crash yet")

    @property
    def pending(self) -> list[str]:
        """Return what a crash could still undo, in the order it was issued."""
        with self._disk.mutex:
            return [operation.label for operation in DiskSnapshot(self._disk).pending]

    @property
    def on_operation(self) -> Callable[[str, int], None] | None:
        """Callback before every change and sync; gets a description and a number, from 1."""
        return self._process.on_operation

    @on_operation.setter
    def on_operation(self, call: Callable[[str, int], None] | None) -> None:
        self._process.on_operation = call

    # --- `Files` -------------------------------------------------------------------------------

    def open_append(self, path: Path, *, follow_links: bool = True) -> OpenFile:
        """Open for appending and reading; create it when missing. There are no symbolic links."""
        del follow_links
        with self._disk.mutex, mapped_os_errors(path, "open"):
            directory, name, node = self._disk.place(path)
            if node is None:
                self._process.begin_or_raise("create", str(path))
                node = self._disk.new_inode()
                self._disk.rename(f"create {path}", (directory.number, name, node.number))
            return self._open(path, node, writable=True)

    def open_read(self, path: Path) -> OpenFile:
        """Open for reading; raise FileMissing when it is not there."""
        with self._disk.mutex, mapped_os_errors(path, "open"):
            return self._open(path, self._disk.find(path), writable=False)

    def stat(self, path: Path) -> FileStat | None:
        """Return the identity and size of a path, or None."""
        with self._disk.mutex, mapped_os_errors(path, "inspect"):
            try:
                return file_stat(self._disk.find(path))
            except FileNotFoundError:
                return None

    def names(self, path: Path) -> list[str]:
        """Return the names in a directory, sorted; none when it is missing."""
        with self._disk.mutex, mapped_os_errors(path, "list"):
            try:
                found = self._disk.find(path)
            except FileNotFoundError:
                return []
            if not isinstance(found, Directory):
                raise os_error(errno.ENOTDIR)
            return sorted(found.live)

    def replace(self, source: Path, target: Path) -> None:
        """Rename over the target, atomically.

        Between two directories the rename is durable once both are synced.
        """
        with self._disk.mutex, mapped_os_errors(target, "replace"):
            self._process.begin_or_raise("replace", f"{target} by {source}")
            from_directory, from_name, moved = self._disk.place(source)
            to_directory, to_name, replaced = self._disk.place(target)
            if moved is None:
                raise os_error(errno.ENOENT)
            if replaced is not None and Directory in (type(moved), type(replaced)):
                raise os_error(errno.EISDIR)
            self._disk.rename(
                f"replace {target} by {source}",
                (from_directory.number, from_name, None),
                (to_directory.number, to_name, moved.number),
            )

    def remove(self, path: Path) -> None:
        """Remove the name; a missing file is no error."""
        with self._disk.mutex, mapped_os_errors(path, "remove"):
            try:
                directory, name, node = self._disk.place(path)
            except FileNotFoundError:
                return
            if isinstance(node, Directory):
                raise os_error(errno.EISDIR)
            if node is not None:
                self._process.begin_or_raise("remove", str(path))
                self._disk.rename(f"remove {path}", (directory.number, name, None))

    def make_directories(self, path: Path) -> None:
        """Create missing directories, from the top, syncing each parent."""
        missing = [level for level in (path, *path.parents) if not self._is_directory(level)]
        for level in reversed(missing):
            with self._disk.mutex, mapped_os_errors(level, "create"):
                directory, name, node = self._disk.place(level)
                if isinstance(node, Inode):
                    raise os_error(errno.EEXIST)
                if node is None:
                    self._process.begin_or_raise("make_directory", str(level))
                    node = self._disk.new_directory()
                    step = (directory.number, name, node.number)
                    self._disk.rename(f"make_directory {level}", step)
            self.sync_directory(level.parent)

    def sync_directory(self, path: Path) -> None:
        """Make the names in this directory durable and, the first time, those that lead to it."""
        with self._disk.mutex:
            number = self._sync_names(path)
            if number in self._process.anchored:
                return
            for above in path.parents:
                self._sync_names(above)
            self._process.anchored.add(number)

    def _sync_names(self, path: Path) -> int:
        with mapped_os_errors(path, "open"):
            directory = self._disk.find(path)
            if not isinstance(directory, Directory):
                raise os_error(errno.ENOTDIR)
        with mapped_os_errors(path, "sync"):
            self._process.begin_or_raise("sync_directory", str(path))
            self._disk.sync_names(directory.number)
        return directory.number

    # --- power loss, kills and faults
    # -------------------------------------------------------------------

    def crash(self, *, index: int = 0, seed: int = 0) -> CrashFiles:
        """Return the disk after a reboot, as a new file system.

        At index 0, every operation that was not synced is lost; `crashes` lists the others.
        """
        with self._disk.mutex:
            return CrashFiles(*DiskSnapshot(self._disk).state(index=index, seed=seed))

    def crashes(self, *, limit: int = STATES_MAX, seed: int = 0) -> Iterator[CrashFiles]:
        """Return the disks that a crash at this moment may leave behind.

        With at most 8 pending operations these are all their subsets, then each subset several
        times more with writes torn, zeroed or full of garbage; beyond that, `limit` samples.
        """
        with self._disk.mutex:
            snapshot = DiskSnapshot(self._disk)
        return (CrashFiles(*state) for state in snapshot.states(limit=limit, seed=seed))

    def killed(self) -> CrashFiles:
        """End this process only and return the view of the next one.

        The next process sees every change, synced or not. Open files and locks of the killed
        process are gone.
        """
        self._process.kill()
        return CrashFiles(self._disk, self._origin)

    def fail(  # noqa: PLR0913 - an operation, and how it fails
        self,
        operation: Operation,
        *,
        nth: int = 1,
        error: int = errno.EIO,
        short: int | None = None,
        seed: int = 0,
        lasting: bool = False,
    ) -> None:
        """Make the nth operation of this kind from now fail: once, or with all later ones.

        A failed sync is final: later operations on the file raise, and `seed` decides which of its
        pending writes are lost. With `short` a write takes that many bytes and reports no error.
        """
        fault = Fault(
            operation=operation, left=nth, error=error, short=short, seed=seed, is_lasting=lasting
        )
        self._process.plan(fault)

    @property
    def failures(self) -> int:
        """Return how many operations have failed, or were cut short."""
        return self._process.failures

    def heal(self) -> None:
        """Cancel the planned failures; files with a failed sync stay unusable."""
        self._process.heal()

    def _open(self, path: Path, node: Inode | Directory, *, writable: bool) -> OpenFile:
        if isinstance(node, Inode):
            return CrashFile(self._process, path, node, writable=writable)
        raise os_error(errno.EISDIR)

    def _is_directory(self, path: Path) -> bool:
        try:
            return isinstance(self._disk.find(path), Directory)
        except OSError:
            return False
