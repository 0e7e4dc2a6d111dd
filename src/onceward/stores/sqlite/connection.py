"""SQLite connection: a `sqlite3` connection set up for durable commits, and its error mapping.

Every user of a database file in one process must share one SQLite library: POSIX locks belong to
the process, and a second library that closes its descriptor drops the locks of the first. The
standard library's SQLite is the one that ORMs use.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, Self

from onceward.errors import (
    DiskFull,
    ForkedInTransaction,
    NotWritable,
    OncewardError,
    SqlFailed,
    StorageError,
    StoreBusy,
    StoreError,
    UndecodableText,
)
from onceward.stores import fork_safety
from onceward.stores.base import Params, Row, Rows
from onceward.stores.sqlite.shared_connection import LendableConnection, OwnStatements
from onceward.stores.user_statements import several_statements

#: The oldest SQLite whose SQL we use (strict tables, RETURNING, `->>`, one-row upserts).
SQLITE_VERSION_MIN: Final = (3, 40, 0)
#: How long SQLite waits for writers that do not use our write lock: other programs on the file.
BUSY_SECONDS: Final = 10.0
#: Prepared statements cached by one connection.
STATEMENTS_MAX: Final = 256
#: Exceptions of the driver. A second statement in one call is a `Warning` before Python 3.12; text
#: that is not Unicode and integers beyond 64 bits raise Python's built-in errors.
DRIVER_ERRORS: Final = (sqlite3.Error, sqlite3.Warning, UnicodeEncodeError, OverflowError)
DriverError = sqlite3.Error | sqlite3.Warning | UnicodeEncodeError | OverflowError

_FIRST_WORD: Final = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?(?:\*/|$))*(\w*)", re.DOTALL)
#: Statements that may be read-only. Any other statement counts as a write, also if it changes
#: nothing, as `create table if not exists` may.
_READERS: Final = ("select", "values", "with", "pragma")
#: Virtual machine instructions of statements that write without opening a write transaction.
_WRITING_OPCODES: Final = ("Vacuum", "JournalMode", "Checkpoint", "AutoCommit", "Savepoint")
#: Our errors, by SQLite's primary result code.
_ERRORS: Final[dict[int, type[OncewardError]]] = {
    sqlite3.SQLITE_BUSY: StoreBusy,
    sqlite3.SQLITE_LOCKED: StoreBusy,
    sqlite3.SQLITE_FULL: DiskFull,
    sqlite3.SQLITE_READONLY: NotWritable,
    sqlite3.SQLITE_CANTOPEN: NotWritable,
    sqlite3.SQLITE_IOERR: StorageError,
    sqlite3.SQLITE_CORRUPT: StoreError,
    sqlite3.SQLITE_NOTADB: StoreError,
}
_OF_PARENT: Final = "this connection is that of this forked process's parent; nothing was done"
Kind = Literal["read", "write"]


#: Held by a thread that forks: it closes every connection, so no statement may run.
FORK_LOCK: Final = threading.Lock()


def wait_for_fork() -> None:
    """Block while another thread forks: a fork waits for open transactions."""
    if FORK_LOCK.locked():
        with FORK_LOCK:
            pass


class ConnectionInUse(sqlite3.ProgrammingError):
    """Another thread is running a statement on this connection."""


class ConnectionOfParent(sqlite3.ProgrammingError):
    """The connection belongs to the parent of this forked process. Nothing was run."""


class SqliteConnection:
    """One connection; it runs one statement at a time and fetches all of its rows.

    A cursor that is not exhausted keeps its snapshot, blocks checkpoints and makes COMMIT fail, so
    this class returns no cursors.
    """

    def __init__(self, path: Path) -> None:
        """Open the file in WAL mode, every commit synced."""
        self._path = path
        #: Held while a statement runs. `sqlite3` would let a second thread block instead.
        self.busy = threading.Lock()
        self.raw: LendableConnection | OwnStatements = _opened(path)
        self._fork_number = fork_safety.number

    @classmethod
    def of(cls, raw: sqlite3.Connection) -> Self:
        """Wrap the user's connection to run our statements on it."""
        connection = cls.__new__(cls)
        connection.busy = threading.Lock()
        connection.raw = OwnStatements(raw)
        connection._fork_number = fork_safety.number  # noqa: SLF001 - our own
        return connection

    @property
    def is_of_this_process(self) -> bool:
        """Return whether this process opened it, and not the parent of a forked child."""
        return self._fork_number == fork_safety.number

    def own_statements(self) -> OwnStatements:
        """Separate our statements from the user's, so that the connection can be lent."""
        if isinstance(self.raw, LendableConnection):
            self.raw = OwnStatements(self.raw)
        return self.raw

    def execute(self, sql: str, params: Params = ()) -> list[Row]:
        """Run one statement and return its rows.

        A write without RETURNING returns an empty row for each changed row; RETURNING would cost a
        third of a statement's time.
        """
        if self._fork_number != fork_safety.number:
            raise ConnectionOfParent(_OF_PARENT)
        if not self.busy.acquire(blocking=False):
            self._wait_for_fork()
        try:
            cursor = self.raw.execute(sql, params)
            rows = cursor.fetchall()
            return rows if rows or cursor.rowcount <= 0 else [()] * cursor.rowcount
        finally:
            self.busy.release()

    def run(self, sql: str, params: Params = ()) -> Rows:
        """Run one statement; return its rows, and how many it returned or else changed."""
        if self._fork_number != fork_safety.number:
            raise ConnectionOfParent(_OF_PARENT)
        if not self.busy.acquire(blocking=False):
            self._wait_for_fork()
        try:
            cursor = self.raw.execute(sql, params)
            rows = cursor.fetchall()
            # Excludes rows that triggers changed. Unknown (-1) where a WITH clause comes first.
            touched = cursor.rowcount
            if touched < 0 and not rows and first_word(sql) == "with":
                ((touched,),) = self.raw.execute("select changes()").fetchall()
        finally:
            self.busy.release()
        return Rows(rows, len(rows) or max(touched, 0))

    def script(self, sql: str) -> None:
        """Run several statements; `executescript` would commit the open transaction."""
        for statement in statements(sql):
            self.execute(statement)

    def _wait_for_fork(self) -> None:
        """Wait for a fork to end; raise ConnectionInUse for any other concurrent use."""
        with FORK_LOCK:
            is_free = self.busy.acquire(blocking=False)
        if not is_free:
            message = "another thread is running a statement in this transaction"
            raise ConnectionInUse(message)

    @property
    def in_transaction(self) -> bool:
        """Return whether SQLite has a transaction open; safe to ask from any thread."""
        try:
            return self.raw.in_transaction
        except sqlite3.ProgrammingError:  # It is closed: it could not be reopened after a fork.
            return False

    def interrupt(self) -> None:
        """Interrupt the statement that another thread runs on this connection."""
        self.raw.interrupt()

    def close(self) -> None:
        """Close it; uncommitted changes are rolled back."""
        self.raw.close()

    def reopen(self) -> None:
        """Open it again after it was closed."""
        self.raw = _opened(self._path)
        self._fork_number = fork_safety.number


def connect(path: Path) -> SqliteConnection:
    """Open a database file; SQLite's errors are mapped to ours."""
    with mapped_errors(str(path)):
        return SqliteConnection(path)


def _opened(path: Path) -> LendableConnection:
    raw = sqlite3.connect(
        path,
        timeout=BUSY_SECONDS,
        isolation_level=None,  # We send BEGIN ourselves.
        check_same_thread=False,  # A transaction may be ended in another thread than it began in.
        cached_statements=STATEMENTS_MAX,
        factory=LendableConnection,
    )
    try:
        raw.execute("pragma journal_mode = wal").fetchall()
        raw.execute("pragma synchronous = full").fetchall()
        raw.execute("pragma foreign_keys = on").fetchall()
        raw.execute("pragma wal_autocheckpoint = 0").fetchall()  # See `wal_checkpoints`.
    except BaseException:
        raw.close()
        raise
    return raw


# --- kinds of statements --------------------------------------------------------------------------


def kind_of(connection: SqliteConnection, sql: str, params: Params = ()) -> Kind:
    """Return whether a statement reads or writes."""
    kind = _known.get(sql)
    if kind is None:
        word = first_word(sql)
        kind = "read" if word == "explain" else "write"
        if word in _READERS:
            program = connection.execute(f"explain {sql}", _unbound(params))
            kind = "write" if any(_writes(row) for row in program) else "read"
        if len(_known) > KNOWN_MAX:
            _known.clear()
        _known[sql] = kind
    return kind


def _unbound(params: Params) -> Params:
    """Return as many NULL parameters: values do not affect the compiled statement."""
    return dict.fromkeys(params) if isinstance(params, Mapping) else [None] * len(params)


_known: dict[str, Kind] = {}
KNOWN_MAX: Final = 4096


@lru_cache(maxsize=1024)
def first_word(sql: str) -> str:
    """Return the first keyword of a statement, in lower case, after spaces and comments."""
    found = _FIRST_WORD.match(sql)
    return found[1].lower() if found else ""


def _writes(instruction: Row) -> bool:
    """Return whether an instruction of a compiled statement writes (Transaction with P2 set)."""
    _, opcode, _, p2, *_ = instruction
    return opcode in _WRITING_OPCODES or (opcode == "Transaction" and p2 != 0)


def statements(script: str) -> Iterator[str]:
    """Yield the statements of a script; a trigger is one statement."""
    part = ""
    for line in script.splitlines(keepends=True):
        part += line
        if ";" in line and sqlite3.complete_statement(part):
            yield part
            part = ""
    if first_word(part):
        yield part


# --- errors ---------------------------------------------------------------------------------------


@contextmanager
def mapped_errors(what: str) -> Iterator[None]:
    """Raise our errors in place of the driver's."""
    try:
        yield
    except DRIVER_ERRORS as exc:
        raise mapped_error(exc, what) from exc


def mapped_error(exc: DriverError, what: str) -> OncewardError:
    """Return our error for an error of the driver."""
    if isinstance(exc, ConnectionOfParent):
        return ForkedInTransaction(f"{what}: {exc}")
    if "one statement at a time" in str(exc):
        return several_statements()
    if "Could not decode to UTF-8" in str(exc):
        return UndecodableText(f"{what}: {exc}")
    code = getattr(exc, "sqlite_errorcode", 0) & 0xFF
    kind: type[Any] = _ERRORS.get(code, SqlFailed)
    error: OncewardError = kind(f"{what}: {exc}")
    return error
