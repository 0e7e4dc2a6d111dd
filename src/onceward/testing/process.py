"""Process: one process's dealings with a simulated disk.

Owns what ends with the process: the count of its operations, the faults planned for them, the files
it refuses and the locks it holds. The disk outlives it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from onceward.crash import Crashed
from onceward.seams import distrust
from onceward.testing.disk import os_error

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from onceward.testing.disk import Disk, Inode

#: Everything that changes the disk or makes a change durable.
Operation = Literal[
    "create",
    "make_directory",
    "remove",
    "replace",
    "sync",
    "sync_directory",
    "truncate",
    "write",
]


@dataclass(eq=False, kw_only=True, slots=True)
class Fault:
    """One operation that will fail, once."""

    operation: Operation
    #: How many operations of that kind it takes; the last of them is hit.
    left: int
    #: What the system answers, as in `errno`.
    error: int
    #: For a write: take only so many bytes, and report no error.
    short: int | None
    #: Decides what a failed sync loses.
    seed: int


class Process:
    """A process that is alive until it is killed."""

    def __init__(self, disk: Disk) -> None:
        """Start on this disk; nothing was done, nothing is refused, nothing will fail."""
        self.disk = disk
        self.on_operation: Callable[[str, int], None] | None = None
        self.refused: set[Inode] = set()
        self.locked: set[Inode] = set()
        #: Directories whose way from the root this process has synced.
        self.anchored: set[int] = set()
        self._faults: list[Fault] = []
        self._operations = 0
        self._dead = False

    def plan(self, fault: Fault) -> None:
        """Let an operation fail later."""
        assert fault.left > 0, fault
        assert fault.short is None or fault.operation == "write", fault
        self._faults.append(fault)

    def begin(self, operation: Operation, what: str) -> Fault | None:
        """Announce an operation, and return the fault that hits it."""
        self.check_alive()
        self._operations += 1
        if self.on_operation is not None:
            self.on_operation(f"{operation} {what}", self._operations)
        hits = [fault for fault in self._faults if fault.operation == operation]
        for fault in hits:
            fault.left -= 1
        self._faults = [fault for fault in self._faults if fault.left]
        return next((fault for fault in hits if not fault.left), None)

    def begin_or_raise(self, operation: Operation, what: str) -> None:
        """Announce an operation that does not happen when a fault hits it."""
        fault = self.begin(operation, what)
        if fault is not None:
            raise os_error(fault.error)

    def check_trusted(self, inode: Inode, path: Path) -> None:
        """Refuse a file that failed to sync in this process."""
        if inode in self.refused:
            raise distrust(path)

    def check_alive(self) -> None:
        """Do nothing more once killed, whatever the code's `finally` clauses try."""
        if self._dead:
            message = "this process was killed"
            raise Crashed(message)

    def kill(self) -> None:
        """Die, and give the locks back."""
        with self.disk.mutex:
            self._dead = True
            for inode in self.locked:
                inode.holder = None
            self.disk.mutex.notify_all()
