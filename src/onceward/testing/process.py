"""Process: one process's dealings with a simulated disk.

Owns what ends with the process: the count of its operations, the faults planned for them, the files
it refuses and the locks it holds. The disk outlives it.
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

#: Everything that changes the disk or makes a change durable; and reading, which can fail as well.
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
    """One operation that will fail, or all of its kind from then on."""

    operation: Operation
    #: How many operations of that kind it takes; the last of them is hit.
    left: int
    #: What the system answers, as in `errno`.
    error: int
    #: For a write: take only so many bytes, and report no error.
    short: int | None
    #: Decides what a failed sync loses.
    seed: int
    #: Whether those behind it fail as well.
    is_lasting: bool = False


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
        #: How many operations a fault has hit.
        self.failures = 0
        self._operations = 0
        self._dead = False

    def plan(self, fault: Fault) -> None:
        """Let an operation fail later."""
        assert fault.left > 0, fault
        assert fault.short is None or fault.operation == "write", fault
        self._faults.append(fault)

    def heal(self) -> None:
        """Let nothing fail that has not failed yet."""
        self._faults.clear()

    def begin(self, operation: Operation, what: str) -> Fault | None:
        """Announce an operation, and return the fault that hits it."""
        self.check_alive()
        self._operations += 1
        if self.on_operation is not None:
            self.on_operation(f"{operation} {what}", self._operations)
        return self._struck(operation)

    def _struck(self, operation: Operation) -> Fault | None:
        """Count an operation, and return the fault that hits it."""
        due = []
        for fault in self._faults:
            if fault.operation == operation:
                fault.left -= 1
                if not fault.left or (fault.left < 0 and fault.is_lasting):
                    due.append(fault)
        self.failures += bool(due)
        return due[0] if due else None

    def read_or_raise(self) -> None:
        """Let a read fail if a fault hits it; it changes nothing, so that it is not reported."""
        fault = self._struck("read")
        if fault is not None:
            raise os_error(fault.error)

    def begin_or_raise(self, operation: Operation, what: str) -> None:
        """Announce an operation that does not happen when a fault hits it."""
        fault = self.begin(operation, what)
        if fault is not None:
            raise os_error(fault.error)

    def check_trusted(self, inode: Inode, path: Path) -> None:
        """Refuse a file that failed to sync in this process."""
        if inode in self.refused:
            raise untrusted_file(path)

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
