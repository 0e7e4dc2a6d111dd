"""Connection: one apsw connection, set up so that a commit survives a power loss."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal

import apsw
import apsw.ext

from onceward.errors import (
    DiskFull,
    NotWritable,
    OncewardError,
    SqlFailed,
    StorageError,
    StoreBusy,
    StoreError,
)

#: For writers that do not queue with us: other programs on the same file.
BUSY_MILLISECONDS: Final = 10_000
_CONTROL: Final = re.compile(
    r"\s*(?:begin|commit|end|rollback|savepoint|release|attach|detach|vacuum)\b", re.IGNORECASE
)
_KINDS: Final[tuple[tuple[type[apsw.Error], type[OncewardError]], ...]] = (
    (apsw.BusyError, StoreBusy),
    (apsw.LockedError, StoreBusy),
    (apsw.FullError, DiskFull),
    (apsw.ReadOnlyError, NotWritable),
    (apsw.CantOpenError, NotWritable),
    (apsw.IOError, StorageError),
    (apsw.CorruptError, StoreError),
    (apsw.NotADBError, StoreError),
)
Kind = Literal["read", "write", "control"]


def connect(path: Path) -> apsw.Connection:
    """Open the file in WAL mode, every commit synced."""
    with translated(str(path)):
        connection = apsw.Connection(str(path), statementcachesize=200)
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        connection.execute("pragma journal_mode = wal").fetchall()
        connection.execute("pragma synchronous = full").fetchall()
        connection.execute("pragma foreign_keys = on").fetchall()
    return connection


def kind_of(connection: apsw.Connection, sql: str) -> Kind:
    """Say whether a statement reads, writes, or would meddle with the transaction itself."""
    found = _kinds(sql)
    if found is not None:
        return found
    info = apsw.ext.query_info(connection, sql)
    if info.query_remaining and info.query_remaining.strip():
        message = "one call runs one statement"
        raise SqlFailed(message, fix="call execute once for each statement")
    kind: Kind = "read" if info.is_readonly else "write"
    _known[sql] = kind
    return kind


@lru_cache(maxsize=1024)
def _control(sql: str) -> bool:
    return _CONTROL.match(sql) is not None


_known: dict[str, Kind] = {}
KNOWN_MAX: Final = 4096


def _kinds(sql: str) -> Kind | None:
    if len(_known) > KNOWN_MAX:
        _known.clear()
    return "control" if _control(sql) else _known.get(sql)


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn SQLite's refusals into ours, once, here."""
    try:
        yield
    except apsw.Error as exc:
        raise refusal(exc, what) from exc


def refusal(exc: apsw.Error, what: str) -> OncewardError:
    """Return our error for one of SQLite's."""
    kind: type[Any] = next((ours for theirs, ours in _KINDS if isinstance(exc, theirs)), SqlFailed)
    error: OncewardError = kind(f"{what}: {exc}")
    return error
