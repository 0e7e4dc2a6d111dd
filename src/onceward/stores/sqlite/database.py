"""Database: one SQLite file as this process uses it: its write lock, connections and checkpoints.

All handles of a process on one file share it, known by device and inode: a second write lock in the
same thread would wait for itself, and after a fork the child must know whether SQLite's memory of
the file is clean.
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
from onceward.seams import Files, SystemFiles
from onceward.stores.sqlite import second_library
from onceward.stores.sqlite.checkpoints import Checkpoints
from onceward.stores.sqlite.connection import (
    DRIVER_ERRORS,
    FORKING,
    SQLITE_VERSION_MIN,
    Connection,
    connect,
)
from onceward.stores.sqlite.lent import LendableConnection
from onceward.stores.sqlite.turns import Turns

#: How long a fork waits for other threads to end their statements and transactions.
FORK_SECONDS_MAX: Final = 1.0
FORK_WAIT_SECONDS: Final = 0.001
FORK_WAITS_MAX: Final = int(FORK_SECONDS_MAX / FORK_WAIT_SECONDS)


class Database:
    """One database file."""

    def __init__(self, path: Path, files: Files) -> None:
        """Use this file, which exists."""
        self.path = path
        self.turns = Turns(path, files)
        log = files.stat(path.with_name(f"{path.name}-wal"))
        self._checkpoints = Checkpoints(0 if log is None else log.size)
        #: Held while a connection is opened or closed. The garbage collector may close a forgotten
        #: handle in the very thread that holds it.
        self._mutex = threading.RLock()
        #: Held while a row is found by its key, by one thread at a time: `sqlite3` drops the GIL
        #: three times in a statement, and many threads at once would only hand it to and fro. A
        #: finalizer that runs in this thread meanwhile may find one, too.
        self.finding = threading.RLock()
        self._connections: set[Connection] = set()
        self._idle: list[Connection] = []
        self._handles = 0
        #: Set in a child that was forked while a transaction was open.
        self._is_refused = False
        self._abandoned: list[object] = []
        # During a fork: the connections kept from other threads, and whether those are all.
        self._held: list[Connection] = []
        self._is_clean = self._has_mutex = True
        _all.add(self)

    def attach(self) -> None:
        """Count a handle that uses the file."""
        with self._mutex:
            self._handles += 1

    def detach(self) -> None:
        """Count a handle less; the last one closes the connections."""
        with self._mutex:
            self._handles -= 1
        if self._handles == 0:
            self.close()

    # --- connections ------------------------------------------------------------------------------

    def lend(self) -> Connection:
        """Return a connection that no other thread uses."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._opened()

    def _opened(self) -> Connection:
        if self._is_refused:
            message = (
                f"{self.path}: this process was forked while its parent had a transaction open"
            )
            raise ForkedInTransaction(message)
        with self._mutex:
            connection = connect(self.path)
            self._connections.add(connection)
        return connection

    def give_back(self, connection: Connection) -> None:
        """Take a connection back; close one that the next user must not get.

        It may be in a transaction, or was lent to the user, or an interrupt left it in use.
        """
        if not connection.is_of_this_process:
            return  # The parent's: closing it here could drop locks or delete the log.
        raw = connection.raw
        try:
            is_reusable = isinstance(raw, LendableConnection) and not raw.in_transaction
        except sqlite3.ProgrammingError:  # It is closed.
            is_reusable = False
        if is_reusable and self._handles and not connection.busy.locked():
            self._idle.append(connection)
        else:
            self.discard(connection)

    def committed(self, connection: Connection, rows: int) -> None:
        """Note a commit that changed so many rows; checkpoint if it is time. Needs the turn."""
        if self._checkpoints.is_due(rows):
            # The commit stands, also where no second connection can be opened.
            with suppress(OncewardError):
                other = self.lend()
                try:
                    self._checkpoints.run(connection, other)
                finally:
                    self.give_back(other)

    def close(self) -> None:
        """Close the connections that are not in use; the others are closed when they come back."""
        while self._idle:
            self.discard(self._idle.pop())
        self.turns.close()

    def discard(self, connection: Connection) -> None:
        """Close a connection, which nobody uses any more."""
        with self._mutex:
            connection.close()
            self._connections.discard(connection)

    # --- forks ------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Close every connection, so that a child inherits nothing of SQLite's memory of the file.

        SQLite counts the locks of a process in its memory. A child that inherits the count takes
        its parent's locks for its own. If a transaction stays open, the child refuses the file.
        """
        self._held = []
        self._is_clean = self._has_mutex = self._mutex.acquire(timeout=FORK_SECONDS_MAX)
        waits = iter(range(FORK_WAITS_MAX))
        for connection in list(self._connections):
            self._is_clean = self._is_clean and self._is_quiet(connection, waits)
        if self._is_clean:
            for connection in list(self._connections):
                connection.close()

    def _is_quiet(self, connection: Connection, waits: Iterator[int]) -> bool:
        """Keep a connection from other threads; False if its transaction does not end in time."""
        while True:
            if connection.busy.acquire(blocking=False):
                if not connection.in_transaction:
                    self._held.append(connection)
                    return True
                connection.busy.release()
            # The thread that forks would wait for itself.
            if self.turns.is_mine or next(waits, None) is None:
                return False
            threading.Event().wait(FORK_WAIT_SECONDS)

    def after_fork_in_parent(self) -> None:
        """Open the connections again: other threads may be about to use any of them."""
        if self._is_clean:
            for connection in list(self._connections):
                with suppress(*DRIVER_ERRORS):  # Its user is told that it is closed.
                    connection.reopen()
        for connection in self._held:
            connection.busy.release()
        self._held = []
        if self._has_mutex:
            self._mutex.release()

    def after_fork_in_child(self) -> None:
        """Forget what is the parent's; closing it here could drop locks or delete the log."""
        self._is_refused = self._is_refused or not self._is_clean
        self._abandoned.append((self._idle, self._connections))
        self._idle, self._connections, self._held = [], set(), []
        # Other threads of the parent may hold the old ones.
        self._mutex, self.finding = threading.RLock(), threading.RLock()
        self.turns.after_fork()


_all: WeakSet[Database] = WeakSet()
_shared: WeakValueDictionary[tuple[int, int], Database] = WeakValueDictionary()
_mutex: Final = threading.Lock()
#: The databases of a fork that is under way.
_forking: Final[list[Database]] = []


def open_database(path: Path, files: Files | None, *, is_strict: bool = False) -> Database:
    """Return what this process knows of a file; creates one that only its owner can read.

    With `files` of its own, as in a simulation of several processes, nothing is shared.
    """
    if sqlite3.sqlite_version_info < SQLITE_VERSION_MIN:
        oldest = ".".join(map(str, SQLITE_VERSION_MIN))
        message = f"Python's SQLite is {sqlite3.sqlite_version}; {oldest} or newer is needed"
        raise StoreError(message, fix="use a Python that is built with a newer SQLite")
    if files is not None:
        return Database(path, files)
    files = SystemFiles()
    try:
        files.create(path)
    except FileMissing as exc:
        message = f"{path}: its directory does not exist"
        raise NotWritable(message) from exc
    found = files.stat(path)
    assert found is not None, path
    with _mutex:
        database = _shared.get(found.identity)
        if database is None or _identity(database.path) != found.identity:
            # A file of before may be gone, and its inode given to another one.
            second_library.check(path, found.identity, is_strict=is_strict)
            database = _shared[found.identity] = Database(path, files)
        return database


def is_open_here(path: Path) -> bool:
    """Return whether this process has connections to a file."""
    return _identity(path) in _shared


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of what a path leads to now."""
    found = SystemFiles().stat(path)
    return None if found is None else found.identity


def _before_fork() -> None:
    FORKING.acquire()
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
    FORKING.release()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
