"""Read-only SQLite: open a SQLite file without changing it or the files beside it.

A plain connection makes `-wal` and `-shm` beside a file in WAL mode, and the last connection to
close one folds them into it. A check must do neither.
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

#: Shared mode: respects other processes' locks; reads their shared memory without writing it.
_SHARED: Final = "mode=ro&readonly_shm=1"
#: Exclusive mode: without locks, and without the `-wal` and `-shm` files.
_ALONE: Final = "mode=ro&immutable=1"
_MAGIC: Final = b"SQLite format 3\0"
_HEADER_BYTES: Final = 100
#: Offset of the write version in the file header, and its value in WAL mode.
_VERSION_BYTE, _WAL_VERSION = 18, 2


class UnsettledError(Exception):
    """The file was left in the middle of a commit, and only a writer can recover it."""


class SqliteFile:
    """A SQLite file, opened without any change to it."""

    engine: Engine = "sqlite"

    def __init__(self, path: Path, clock: Clock) -> None:
        """Open an existing file."""
        self.url = f"sqlite:///{path}"
        self._clock = clock
        self._path = path.resolve()  # The `-wal` and `-shm` files are beside a link's target.
        self._wal = self._path.with_name(f"{self._path.name}-wal")
        _check_kind(self._path)
        #: The file's state when it was opened without locks; None if it was opened with locks.
        self._seen = self._path.stat() if self._is_all() else None
        self._connection = _connect(self._path, _SHARED if self._seen is None else _ALONE)

    def _is_all(self) -> bool:
        """Return whether the file is in WAL mode without a WAL, so that no process has it open."""
        if is_open_here(self._path):
            return False  # Closing a descriptor would drop this process's locks.
        with self._path.open("rb") as file:
            header = file.read(_HEADER_BYTES).ljust(_HEADER_BYTES, b"\0")
        if any(header) and not header.startswith(_MAGIC):
            message = f"{self._path} is not a SQLite database"
            raise StoreError(message, fix="pass another file, or restore this one from a backup")
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
        """Return whether another process opened the file since, so that results may be wrong."""
        if self._seen is None:
            return False
        now = self._path.stat()
        same = (now.st_mtime_ns, now.st_size) == (self._seen.st_mtime_ns, self._seen.st_size)
        return self._wal.exists() or not same

    def read(self, name: str, /, **params: object) -> list[Row]:
        """Run one of Onceward's read-only queries."""
        try:
            return self._connection.execute(*statement(self._clock, name, params)).fetchall()
        except DRIVER_ERRORS as exc:
            if getattr(exc, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY:
                raise UnsettledError from exc
            raise mapped_error(exc, name) from exc

    def problems(self) -> list[str]:
        """Return the problems that SQLite's integrity check finds."""
        with mapped_errors("quick_check"):
            found = [str(row[0]) for row in self._connection.execute("pragma quick_check")]
        return [] if found == ["ok"] else found

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def _check_kind(path: Path) -> None:
    if not stat.S_ISREG(path.stat().st_mode):
        message = f"{path} is not a file"
        raise WrongPath(message)
    if not os.access(path, os.R_OK | os.W_OK):
        message = f"this user may not read and write {path}"
        raise NotWritable(message)


def _connect(path: Path, how: str) -> sqlite3.Connection:
    with mapped_errors(str(path)):
        return sqlite3.connect(
            f"file:{quote(str(path))}?{how}", uri=True, timeout=BUSY_SECONDS, isolation_level=None
        )
