"""FaultyDisk: the file system under SQLite, with one fault at the n-th operation of a kind.

Owns when the fault strikes and what it does: an error, a write that is cut short, a kill, a power
cut. Everything else goes to the real file system. Knows nothing of what is stored.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NoReturn, Self

from tests.proof.disk.unsynced_writes import SECTOR_BYTES, UnsyncedFiles
from tests.proof.disk.vfs import (
    CANTOPEN,
    FULL,
    IOERR_DELETE,
    IOERR_FSYNC,
    IOERR_READ,
    IOERR_TRUNCATE,
    IOERR_WRITE,
    OK,
    Vfs,
)

#: What SQLite asks of a file system; `any` stands for all that change something.
Operation = Literal["read", "write", "sync", "truncate", "delete", "open", "any"]
CHANGES: Final = frozenset({"write", "sync", "truncate", "delete"})
#: Errors: for this operation, or for all of its kind from then on; a write may be cut in half.
ERRORS: Final = ("eio", "eio-lasting", "full", "full-lasting", "short")
FULLS: Final = ("full", "full-lasting", "short")
#: An error, and the process dies as soon as it was raised.
DYING: Final = ("eio-dying",)
#: The process dies before it, after it, or in the middle of it.
KILLS: Final = ("before", "after", "torn")
#: The power goes before it: what was not synced is there in part.
CUT: Final = "cut"
#: What SQLite's own file system answers when the operating system reports EIO.
CODES: Final = {
    "read": IOERR_READ,
    "write": IOERR_WRITE,
    "sync": IOERR_FSYNC,
    "truncate": IOERR_TRUNCATE,
    "delete": IOERR_DELETE,
    "open": CANTOPEN,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """What goes wrong, and when."""

    operation: Operation
    #: Counted from 1, of operations of this kind.
    nth: int
    kind: str
    #: Decides what survives a power cut.
    seed: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `str` wrote."""
        operation, nth, kind, seed = text.split(":")
        return cls(operation=operation, nth=int(nth), kind=kind, seed=int(seed))  # type: ignore[arg-type]  # ours

    def __str__(self) -> str:
        return f"{self.operation}:{self.nth}:{self.kind}:{self.seed}"


class FaultyDisk(Vfs):
    """SQLite's way to the disk in this process, for all connections that are opened from now on."""

    def __init__(self, fault: Fault | None) -> None:
        """Become the file system of this process."""
        super().__init__("faulty")
        self._fault = fault
        #: How many operations of each kind there were.
        self.counts: Counter[str] = Counter()
        self.unsynced = UnsyncedFiles() if fault is not None and fault.kind == CUT else None
        #: How often it struck.
        self.hits = 0
        #: Which operation was the first, unless its error was ignored.
        self.first = ""
        #: What the process is at, and was at when that one struck.
        self.phase = ""
        self.struck_in = ""

    def heal(self) -> None:
        """Let everything succeed from now on."""
        self._fault = None

    # --- what SQLite calls ----------------------------------------------------------------------

    def open(self, path: str, real: Callable[[], int]) -> int:
        """Open a file, and know what it holds on disk."""

        def do() -> int:
            if self.unsynced is not None:
                self.unsynced.open(path)
            return real()

        return self.perform("open", path, do)

    def delete(self, path: str, real: Callable[[], int], *, is_synced: bool) -> int:
        """Remove a file."""

        def do() -> int:
            if self.unsynced is not None:
                self.unsynced.delete(path, is_synced=is_synced)
            return real()

        return self.perform("delete", path, do)

    def read(self, path: str, real: Callable[[], int]) -> int:
        """Read."""
        return self.perform("read", path, real)

    def write(self, path: str, real: Callable[[int], int], offset: int, data: bytes) -> int:
        """Write all of it, or a part."""

        def some(size: int) -> int:
            if self.unsynced is not None and size:
                self.unsynced.of(path).write(offset, data[:size])
            return real(size)

        # At the border of a sector in the middle of it, if there is one.
        half = len(data) // 2
        border = half - (offset + half) % SECTOR_BYTES
        part = border if border > 0 else half
        return self.perform("write", path, lambda: some(len(data)), lambda: some(part))

    def truncate(self, path: str, real: Callable[[], int], size: int) -> int:
        """Cut the file."""

        def do() -> int:
            if self.unsynced is not None:
                self.unsynced.of(path).truncate(size)
            return real()

        return self.perform("truncate", path, do)

    def sync(self, path: str, real: Callable[[], int]) -> int:
        """Have it on disk."""
        # `unsynced` stands for the disk where it matters; the machine's own need not sync.
        del real

        def do() -> int:
            if self.unsynced is not None:
                self.unsynced.sync(path)
            return OK

        return self.perform("sync", path, do)

    # --- what becomes of it ---------------------------------------------------------------------

    def perform(
        self,
        operation: Operation,
        path: str,
        do: Callable[[], int],
        part: Callable[[], int] = lambda: OK,
    ) -> int:
        """Do it, unless the fault strikes here; `part` does a part of it."""
        self.counts[operation] += 1
        self.counts["any"] += operation in CHANGES
        fault = self._fault
        if fault is None or not self._is_due(fault, operation):
            return do()
        if not self.first:
            self.first, self.struck_in = f"{operation} of {Path(path).suffix}", self.phase
        self.hits += 1
        if fault.kind == CUT:
            self.cut()
        if fault.kind in KILLS:
            {"before": lambda: OK, "after": do, "torn": part}[fault.kind]()
            _die()
        if fault.kind == "short":
            part()
        return FULL if fault.kind in FULLS else CODES[operation]

    def cut(self) -> NoReturn:
        """Lose the power now."""
        assert self.unsynced is not None
        assert self._fault is not None
        self.unsynced.cut(self._fault.seed)
        _die()

    def _is_due(self, fault: Fault, operation: Operation) -> bool:
        if fault.operation != operation and (fault.operation, operation in CHANGES) != (
            "any",
            True,
        ):
            return False
        count = self.counts[fault.operation]
        return count == fault.nth or (fault.kind.endswith("-lasting") and count > fault.nth)


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError
