"""SQLite database: state of one file in this process: write lock, connections, checkpoints.

All handles of a process on one file (by device and inode) share it. A second write lock in the same
thread would deadlock, and a forked child must know whether SQLite's memory of the file is clean.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final
from weakref import WeakSet, WeakValueDictionary

from onceward.errors import (
    FileMissing,
    ForkedInTransaction,
    NotWritable,
    OncewardError,
    StoreError,
)
from onceward.stores.sqlite import second_library
from onceward.stores.sqlite.connection import (
    DRIVER_ERRORS,
    FORK_LOCK,
    SQLITE_VERSION_MIN,
    SqliteConnection,
    connect,
)
from onceward.stores.sqlite.shared_connection import LendableConnection
from onceward.stores.sqlite.wal_checkpoints import WalCheckpoints
from onceward.stores.sqlite.write_lock import WriteLock
from onceward.system import Files, SystemFiles

#: How long a fork waits for other threads to end their statements and transactions.
FORK_SECONDS_MAX: Final = 1.0
FORK_WAIT_SECONDS: Final = 0.001
FORK_WAITS_MAX: Final = int(FORK_SECONDS_MAX / FORK_WAIT_SECONDS)


class Database:
    """One database file, shared by all handles of this process."""

    def __init__(self, path: Path, files: Files) -> None:
        """Use this existing file."""
        self.path = path
        self.write_lock = WriteLock(path, files)
        log = files.stat(path.with_name(f"{path.name}-wal"))
        self._checkpoints = WalCheckpoints(0 if log is None else log.size)
        #: Held while a connection is opened or closed. Reentrant: the garbage collector may close a
        #: leaked handle in the thread that holds it.
        self._mutex = threading.RLock()
        #: Held while a row is looked up by its key. `sqlite3` drops the GIL three times in a
        #: statement, so concurrent lookups would only cause GIL contention. Reentrant: a finalizer
        #: that runs in the same thread may look up a row, too.
        self.lookup_lock = threading.RLock()
        self._connections: set[SqliteConnection] = set()
        self._idle: list[SqliteConnection] = []
        self._handles = 0
        #: Set in a child that was forked while a transaction was open.
        self._is_refused = False
        self._abandoned: list[object] = []
        # During a fork: connections locked against other threads, and whether all of them are.
        self._held: list[SqliteConnection] = []
        self._is_clean = self._has_mutex = True
        _all.add(self)

    def attach(self) -> None:
        """Register a handle."""
        with self._mutex:
            self._handles += 1

    def detach(self) -> None:
        """Unregister a handle; the last one closes the connections."""
        with self._mutex:
            self._handles -= 1
        if self._handles == 0:
            self.close()

    # --- connections ------------------------------------------------------------------------------

    def acquire_connection(self) -> SqliteConnection:
        """Check out an idle connection, or open a new one."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._opened()

    def _opened(self) -> SqliteConnection:
        if self._is_refused:
            message = (
                f"{self.path}: this process was forked while its parent had a transaction open"
                "; nothing was done"
            )
            raise ForkedInTransaction(message)
        with self._mutex:
            connection = connect(self.path)
            self._connections.add(connection)
        return connection

    def release_connection(self, connection: SqliteConnection) -> None:
        """Return a connection to the idle ones, or close it if it is not reusable.

        It may be in a transaction, or was lent to the user, or an interrupt left it in use.
        """
        if not connection.is_of_this_process:
            return  # The parent's: closing it here could drop locks or delete the WAL.
        raw = connection.raw
        try:
            is_reusable = isinstance(raw, LendableConnection) and not raw.in_transaction
        except sqlite3.ProgrammingError:  # It is closed.
            is_reusable = False
        if is_reusable and self._handles and not connection.busy.locked():
            self._idle.append(connection)
        else:
            self.discard(connection)

    def committed(self, connection: SqliteConnection, rows: int) -> None:
        """Record a commit of `rows` changed rows; checkpoint if due. Requires the write lock."""
        if self._checkpoints.is_due(rows):
            # The commit is valid even if no second connection can be opened.
            with suppress(OncewardError):
                other = self.acquire_connection()
                try:
                    self._checkpoints.run(connection, other)
                finally:
                    self.release_connection(other)

    def close(self) -> None:
        """Close idle connections; the others are closed when they are released."""
        while self._idle:
            self.discard(self._idle.pop())
        self.write_lock.close()

    def discard(self, connection: SqliteConnection) -> None:
        """Close a connection that is not in use any more."""
        with self._mutex:
            connection.close()
            self._connections.discard(connection)

    # --- forks ------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Close every connection, so that a child inherits no lock state of SQLite.

        SQLite counts the locks of a process in memory. A child that inherits the count would assume
        that it holds its parent's locks. If a transaction stays open, the child rejects the file.
        """
        self._held = []
        self._is_clean = self._has_mutex = self._mutex.acquire(timeout=FORK_SECONDS_MAX)
        waits = iter(range(FORK_WAITS_MAX))
        for connection in list(self._connections):
            self._is_clean = self._is_clean and self._is_quiet(connection, waits)
        if self._is_clean:
            for connection in list(self._connections):
                connection.close()

    def _is_quiet(self, connection: SqliteConnection, waits: Iterator[int]) -> bool:
        """Lock a connection against other threads; False if it stays in use for too long."""
        while True:
            if connection.busy.acquire(blocking=False):
                if not connection.in_transaction:
                    self._held.append(connection)
                    return True
                connection.busy.release()
            # The forking thread would wait for itself.
            if self.write_lock.is_held_by_caller or next(waits, None) is None:
                return False
            threading.Event().wait(FORK_WAIT_SECONDS)

    def after_fork_in_parent(self) -> None:
        """Reopen the connections: other threads may be about to use any of them."""
        if self._is_clean:
            for connection in list(self._connections):
                with suppress(*DRIVER_ERRORS):  # Its user gets an error that it is closed.
                    connection.reopen()
        for connection in self._held:
            connection.busy.release()
        self._held = []
        if self._has_mutex:
            self._mutex.release()

    def after_fork_in_child(self) -> None:
        """Drop the parent's connections; closing them here could drop locks or delete the WAL."""
        self._is_refused = self._is_refused or not self._is_clean
        self._abandoned.append((self._idle, self._connections))
        self._idle, self._connections, self._held = [], set(), []
        # Other threads of the parent may hold the old locks.
        self._mutex, self.lookup_lock = threading.RLock(), threading.RLock()
        self.write_lock.after_fork()


_all: WeakSet[Database] = WeakSet()
_shared: WeakValueDictionary[tuple[int, int], Database] = WeakValueDictionary()
_mutex: Final = threading.Lock()
#: The databases that the current fork has prepared.
_forking: Final[list[Database]] = []


def open_database(path: Path, files: Files | None, *, is_strict: bool = False) -> Database:
    """Return this process's state of a file; create the file, readable by its owner only.

    With `files` passed, as in a simulation of several processes, nothing is shared.
    """
    if sqlite3.sqlite_version_info < SQLITE_VERSION_MIN:
        oldest = ".".join(map(str, SQLITE_VERSION_MIN))
        message = f"Python's SQLite is {sqlite3.sqlite_version}; {oldest} or newer is required"
        raise StoreError(message, fix="use a Python that is built with a newer SQLite")
    if files is not None:
        return Database(path, files)
    files = SystemFiles()
    try:
        files.create(path)
    except FileMissing as exc:
        message = f"{path}: its directory does not exist; no store was created"
        fix = "create the directory, or pass a path in an existing one"
        raise NotWritable(message, fix=fix) from exc
    found = files.stat(path)
    assert found is not None, path
    with _mutex:
        database = _shared.get(found.identity)
        if database is None or _identity(database.path) != found.identity:
            # An earlier file may be gone, and its inode reused.
            second_library.check(path, found.identity, is_strict=is_strict)
            database = _shared[found.identity] = Database(path, files)
        return database


def is_open_here(path: Path) -> bool:
    """Return whether this process has connections to a file."""
    return _identity(path) in _shared


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of the file that a path leads to now."""
    found = SystemFiles().stat(path)
    return None if found is None else found.identity


def _before_fork() -> None:
    FORK_LOCK.acquire()
    _mutex.acquire()
    _forking.extend(_all)
    for database in _forking:
        database.before_fork()


def _after_fork_in_parent() -> None:
    for database in _forking:
        database.after_fork_in_parent()
    _end_fork()


def _after_fork_in_child() -> None:
    for database in _forking:
        database.after_fork_in_child()
    _end_fork()


def _end_fork() -> None:
    _forking.clear()
    _mutex.release()
    FORK_LOCK.release()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
