"""Read-only SQLite: open a SQLite file without changing it or the files beside it.

A plain connection makes `-wal` and `-shm` beside a file in WAL mode, and the last connection to
close one folds them into it. Who only looks must do neither.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path
from typing import Final
from urllib.parse import quote

from onceward.errors import NotWritable, StoreError, WrongPath
from onceward.stores.base import Row
from onceward.stores.queries import Engine
from onceward.stores.sqlite.connection import (
    BUSY_SECONDS,
    DRIVER_ERRORS,
    mapped_error,
    mapped_errors,
)
from onceward.stores.sqlite.database import is_open_here
from onceward.stores.sqlite.transaction import statement
from onceward.system import Clock

#: Beside others: their locks are heeded, the memory that they share is read and not written.
_SHARED: Final = "mode=ro&readonly_shm=1"
#: Alone: without locks, and without the files beside it.
_ALONE: Final = "mode=ro&immutable=1"
_MAGIC: Final = b"SQLite format 3\0"
_HEADER_BYTES: Final = 100
#: Where the header says how the file is written, and what it says of one with a `-wal`.
_VERSION_BYTE, _WAL_VERSION = 18, 2


class UnsettledError(Exception):
    """The file was left in the middle of a commit, and only a writer can bring that to an end."""


class SqliteFile:
    """A file that is read and left as it is."""

    engine: Engine = "sqlite"

    def __init__(self, path: Path, clock: Clock) -> None:
        """Open a file that is there."""
        self.url = f"sqlite:///{path}"
        self._clock = clock
        self._path = path.resolve()  # What is beside it is beside what a link leads to.
        self._wal = self._path.with_name(f"{self._path.name}-wal")
        _check_kind(self._path)
        #: What the file was when it was opened without a lock; None if it was not.
        self._seen = self._path.stat() if self._is_all() else None
        self._connection = _connect(self._path, _SHARED if self._seen is None else _ALONE)

    def _is_all(self) -> bool:
        """Return whether it is in WAL mode without a WAL in use: then no process has it open."""
        if is_open_here(self._path):
            return False  # Then it is ours, and closing a descriptor of it would drop our locks.
        with self._path.open("rb") as file:
            header = file.read(_HEADER_BYTES).ljust(_HEADER_BYTES, b"\0")
        if any(header) and not header.startswith(_MAGIC):
            message = f"{self._path} is not a database of SQLite"
            raise StoreError(message, fix="name another file, or restore it from a backup")
        if header[_VERSION_BYTE] != _WAL_VERSION:
            return False
        if not self._wal.exists():
            return True
        if self._path.with_name(f"{self._path.name}-shm").exists():
            return False
        if self._wal.stat().st_size:
            raise UnsettledError
        return True

    @property
    def is_disturbed(self) -> bool:
        """Return whether another process opened it meanwhile: what was read may be wrong."""
        if self._seen is None:
            return False
        now = self._path.stat()
        same = (now.st_mtime_ns, now.st_size) == (self._seen.st_mtime_ns, self._seen.st_size)
        return self._wal.exists() or not same

    def read(self, name: str, /, **params: object) -> list[Row]:
        """Run one of our own queries that writes nothing."""
        try:
            return self._connection.execute(*statement(self._clock, name, params)).fetchall()
        except DRIVER_ERRORS as exc:
            if getattr(exc, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY:
                raise UnsettledError from exc
            raise mapped_error(exc, name) from exc

    def problems(self) -> list[str]:
        """Return what SQLite's own check finds."""
        with mapped_errors("quick_check"):
            found = [str(row[0]) for row in self._connection.execute("pragma quick_check")]
        return [] if found == ["ok"] else found

    def close(self) -> None:
        """Close it."""
        self._connection.close()


def _check_kind(path: Path) -> None:
    if not stat.S_ISREG(path.stat().st_mode):
        message = f"{path} is not a file"
        raise WrongPath(message)
    if not os.access(path, os.R_OK | os.W_OK):
        message = f"{path} may not be read and written"
        raise NotWritable(message)


def _connect(path: Path, how: str) -> sqlite3.Connection:
    with mapped_errors(str(path)):
        return sqlite3.connect(
            f"file:{quote(str(path))}?{how}", uri=True, timeout=BUSY_SECONDS, isolation_level=None
        )
