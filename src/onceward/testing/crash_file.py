"""CrashFile: one open file on a simulated disk.

Implements the descriptor: offsets of appends, waiting for the lock, failed syncs. The bytes are
stored by `disk`.
"""

from __future__ import annotations

import errno
import random
from typing import TYPE_CHECKING, Final

from onceward.system import FileStat, mapped_os_errors, sync_error
from onceward.testing.disk import Inode, Truncate, Write, os_error

if TYPE_CHECKING:
    from pathlib import Path

    from onceward.testing.disk import Directory
    from onceward.testing.process import Process

DEVICE: Final = 1


class CrashFile:
    """A descriptor of one process, with a lock of its own, as with flock."""

    def __init__(self, process: Process, path: Path, inode: Inode, *, writable: bool) -> None:
        """Open the file; raise if a sync of the file failed in this process."""
        process.check_trusted(inode, path)
        self._process = process
        self._disk = process.disk
        self._path = path
        self._inode = inode
        self._writable = writable
        self._closed = False

    def stat(self) -> FileStat:
        """Return the current identity and size."""
        self._check_open()
        return file_stat(self._inode)

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes from `offset`, fewer only at the end of the file."""
        self._check_open()
        with self._disk.mutex, mapped_os_errors(self._path, "read"):
            self._process.read_or_raise()
            return bytes(self._inode.content[offset : offset + size])

    def write(self, data: bytes) -> int:
        """Append, and return how many bytes were taken."""
        self._check_open()
        with self._disk.mutex, mapped_os_errors(self._path, "write to"):
            self._check_writable(errno.EBADF)
            offset = len(self._inode.content)
            fault = self._process.begin("write", f"{len(data)} bytes at {offset} to {self._path}")
            if fault is not None and fault.short is None:
                raise os_error(fault.error)
            taken = bytes(data if fault is None else data[: fault.short])
            if taken:
                label = f"write {len(taken)} bytes at {offset} to {self._path}"
                order, inode = self._disk.next_order(), self._inode.number
                self._inode.change(
                    Write(order=order, label=label, inode=inode, offset=offset, data=taken)
                )
            return len(taken)

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes."""
        self._check_open()
        with self._disk.mutex, mapped_os_errors(self._path, "truncate"):
            self._check_writable(errno.EINVAL)
            what = f"{self._path} to {size} bytes"
            self._process.begin_or_raise("truncate", what)
            order, inode = self._disk.next_order(), self._inode.number
            self._inode.change(
                Truncate(order=order, label=f"truncate {what}", inode=inode, size=size)
            )

    def lock(self) -> None:
        """Wait until no other descriptor holds the lock of this file."""
        self._check_open()
        with self._disk.mutex:
            self._disk.mutex.wait_for(lambda: self._inode.holder in (None, self))
            self._process.check_alive()
            self._inode.holder = self
            self._process.locked.add(self._inode)

    def try_lock(self) -> bool:
        """Take the lock if no other descriptor holds it."""
        self._check_open()
        with self._disk.mutex:
            self._process.check_alive()
            if self._inode.holder not in (None, self):
                return False
            self._inode.holder = self
            self._process.locked.add(self._inode)
            return True

    def unlock(self) -> None:
        """Release the lock."""
        self._check_open()
        with self._disk.mutex:
            if self._inode.holder is self:
                self._inode.holder = None
                self._process.locked.discard(self._inode)
                self._disk.mutex.notify_all()

    def sync(self) -> None:
        """Make the content durable, but not the name; a failure is final for this process."""
        self._check_open()
        with self._disk.mutex:
            self._process.check_trusted(self._inode, self._path)
            fault = self._process.begin("sync", str(self._path))
            if fault is None:
                self._inode.sync()
                return
            self._inode.drop_random_pending(random.Random(fault.seed))
            self._process.refused.add(self._inode)
            cause = os_error(fault.error)
            raise sync_error(cause, self._path) from cause

    def close(self) -> None:
        """Close the descriptor and release its lock."""
        self.unlock()
        self._closed = True

    def _check_open(self) -> None:
        assert not self._closed, f"{self._path} is used after close"

    def _check_writable(self, code: int) -> None:
        if not self._writable:
            raise os_error(code)
        self._process.check_trusted(self._inode, self._path)


def file_stat(node: Inode | Directory) -> FileStat:
    """Return identity and size; the size of a directory is 0."""
    size = len(node.content) if isinstance(node, Inode) else 0
    return FileStat(device=DEVICE, inode=node.number, size=size)
