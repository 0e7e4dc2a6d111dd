"""Process: the state of one process on a simulated disk: planned faults, locks, failed files.

Holds what ends with the process: its operation count, planned faults, files with a failed sync, and
locks. The disk outlives the process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from onceward.system import untrusted_file
from onceward.system.crash_points import Crashed
from onceward.testing.disk import os_error

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from onceward.testing.disk import Disk, Inode

#: Operations that change the disk or make a change durable; and reads, which can also fail.
Operation = Literal[
    "create",
    "make_directory",
    "read",
    "remove",
    "replace",
    "sync",
    "sync_directory",
    "truncate",
    "write",
]


@dataclass(eq=False, kw_only=True, slots=True)
class Fault:
    """A planned failure of one operation, or of all of its kind from then on."""

    operation: Operation
    #: Operations of that kind until the failure; the last of them fails.
    left: int
    #: The error code, as in `errno`.
    error: int
    #: For a write: accept only this many bytes, and report no error.
    short: int | None
    #: Seed for choosing the writes that a failed sync loses.
    seed: int
    #: Whether later operations of that kind fail as well.
    is_lasting: bool = False


class Process:
    """A simulated process, alive until it is killed."""

    def __init__(self, disk: Disk) -> None:
        """Start on this disk, without operations, failed files or planned faults."""
        self.disk = disk
        self.on_operation: Callable[[str, int], None] | None = None
        self.refused: set[Inode] = set()
        self.locked: set[Inode] = set()
        #: Directories whose path from the root this process has synced.
        self.anchored: set[int] = set()
        self._faults: list[Fault] = []
        #: Number of failed or cut-short operations.
        self.failures = 0
        self._operations = 0
        self._dead = False

    def plan(self, fault: Fault) -> None:
        """Plan a failure of a later operation."""
        assert fault.left > 0, fault
        assert fault.short is None or fault.operation == "write", fault
        self._faults.append(fault)

    def heal(self) -> None:
        """Cancel the planned faults."""
        self._faults.clear()

    def begin(self, operation: Operation, what: str) -> Fault | None:
        """Report an operation to the callback, and return its fault, if any."""
        self.check_alive()
        self._operations += 1
        if self.on_operation is not None:
            self.on_operation(f"{operation} {what}", self._operations)
        return self._take_fault(operation)

    def _take_fault(self, operation: Operation) -> Fault | None:
        """Count an operation, and return its fault, if any."""
        due = []
        for fault in self._faults:
            if fault.operation == operation:
                fault.left -= 1
                if not fault.left or (fault.left < 0 and fault.is_lasting):
                    due.append(fault)
        self.failures += bool(due)
        return due[0] if due else None

    def read_or_raise(self) -> None:
        """Raise if a fault is planned for this read; reads are not reported to the callback."""
        fault = self._take_fault("read")
        if fault is not None:
            raise os_error(fault.error)

    def begin_or_raise(self, operation: Operation, what: str) -> None:
        """Report an operation to the callback, and raise if a fault is planned for it."""
        fault = self.begin(operation, what)
        if fault is not None:
            raise os_error(fault.error)

    def check_trusted(self, inode: Inode, path: Path) -> None:
        """Raise if a sync of this file failed in this process."""
        if inode in self.refused:
            raise untrusted_file(path)

    def check_alive(self) -> None:
        """Raise once killed, so that `finally` clauses change nothing either."""
        if self._dead:
            message = "this process was killed"
            raise Crashed(message)

    def kill(self) -> None:
        """End the process, and release its locks."""
        with self.disk.mutex:
            self._dead = True
            for inode in self.locked:
                inode.holder = None
            self.disk.mutex.notify_all()
