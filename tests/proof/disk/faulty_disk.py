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

import apsw

from tests.proof.disk.platter import SECTOR_BYTES, Platters

#: What SQLite asks of a file system; `any` stands for all that change something.
Operation = Literal["read", "write", "sync", "truncate", "delete", "open", "any"]
CHANGES: Final = frozenset({"write", "sync", "truncate", "delete"})
#: Errors: for this operation, or for all of its kind from then on; a write may leave a half behind.
ERRORS: Final = ("eio", "eio-lasting", "full", "full-lasting", "short")
#: An error, and the process dies as soon as its caller was told.
DYING: Final = ("eio-dying",)
#: The process dies before it, after it, or in the middle of it.
KILLS: Final = ("before", "after", "torn")
#: The power goes before it: what was not synced is there in part.
CUT: Final = "cut"


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


class FaultyDisk(apsw.VFS):
    """SQLite's way to the disk in this process, for all connections that are opened from now on."""

    def __init__(self, fault: Fault | None) -> None:
        """Become the file system of this process."""
        super().__init__("faulty", "unix", makedefault=True)
        self._fault = fault
        self._counts: Counter[str] = Counter()
        self.platters = Platters() if fault is not None and fault.kind == CUT else None
        #: How often it struck; which operation was the first.
        self.hits = 0
        self.first = ""
        #: What the process is at, and was at when it first struck.
        self.phase = ""
        self.struck_in = ""

    def heal(self) -> None:
        """Let everything succeed from now on."""
        self._fault = None

    # --- what SQLite calls ----------------------------------------------------------------------

    def xOpen(  # noqa: N802 - SQLite's name
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> apsw.VFSFile:
        """Open a file; a temporary one has no name, and is left alone."""
        if name is None:
            return super().xOpen(name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self.perform("open", path, lambda: None)
        if self.platters is not None:
            self.platters.open(path)
        return FaultyFile(self, name, path, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 - SQLite's
        """Remove a file."""

        def delete() -> None:
            if self.platters is not None:
                self.platters.delete(filename, is_synced=syncdir)
            super(FaultyDisk, self).xDelete(filename, syncdir)

        self.perform("delete", filename, delete)

    # --- what becomes of it ---------------------------------------------------------------------

    def perform(
        self,
        operation: Operation,
        path: str,
        do: Callable[[], None],
        part: Callable[[], None] = lambda: None,
    ) -> None:
        """Do it, unless the fault strikes here; `part` does a part of it."""
        fault = self._fault
        if fault is None or not self._is_due(fault, operation):
            do()
            return
        if not self.hits:
            self.first, self.struck_in = f"{operation} of {Path(path).suffix}", self.phase
        self.hits += 1
        match fault.kind:
            case "cut":
                self.cut()
            case "before" | "after" | "torn":
                {"before": lambda: None, "after": do, "torn": part}[fault.kind]()
                _die()
            case "full" | "full-lasting" | "short":
                if fault.kind == "short":
                    part()
                message = f"no space left for the {operation}"
                raise apsw.FullError(message)
            case _:
                message = f"the {operation} failed"
                raise apsw.IOError(message)

    def cut(self) -> NoReturn:
        """Lose the power now."""
        assert self.platters is not None
        assert self._fault is not None
        self.platters.cut(self._fault.seed)
        _die()

    def _is_due(self, fault: Fault, operation: Operation) -> bool:
        self._counts[operation] += 1
        self._counts["any"] += operation in CHANGES
        if fault.operation != operation and (fault.operation, operation in CHANGES) != (
            "any",
            True,
        ):
            return False
        count = self._counts[fault.operation]
        return count == fault.nth or (fault.kind.endswith("-lasting") and count > fault.nth)


class FaultyFile(apsw.VFSFile):
    """One open file."""

    def __init__(
        self, disk: FaultyDisk, name: str | apsw.URIFilename, path: str, flags: list[int]
    ) -> None:
        """Open the real one."""
        super().__init__("unix", name, flags)
        self._disk, self._path = disk, path

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802 - SQLite's name
        """Read."""
        found: list[bytes] = []
        read = super().xRead
        self._disk.perform("read", self._path, lambda: found.append(read(amount, offset)))
        return found[0]

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        """Write all of it, or a part."""
        write = super().xWrite

        def some(size: int) -> None:
            if size:
                write(data[:size], offset)
                if self._disk.platters is not None:
                    self._disk.platters.of(self._path).write(offset, data[:size])

        # At the border of a sector in the middle of it, if there is one.
        half = len(data) // 2
        border = half - (offset + half) % SECTOR_BYTES
        part = border if border > 0 else half
        self._disk.perform("write", self._path, lambda: some(len(data)), lambda: some(part))

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        """Have it on disk."""
        # The platters stand for the disk where it matters; the machine's own need not turn.
        del flags

        def sync() -> None:
            if self._disk.platters is not None:
                self._disk.platters.sync(self._path)

        self._disk.perform("sync", self._path, sync)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's name
        """Cut the file."""
        truncate = super().xTruncate

        def cut() -> None:
            truncate(newsize)
            if self._disk.platters is not None:
                self._disk.platters.of(self._path).truncate(newsize)

        self._disk.perform("truncate", self._path, cut)


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError
