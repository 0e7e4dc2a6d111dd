"""SQLite store: one database file, shared by any number of processes on one machine."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from onceward.stores.base import Params, Row, Transaction
from onceward.stores.commit import commit
from onceward.stores.fork_safety import reset_after_fork
from onceward.stores.framework_transaction import JoinedTransaction, join
from onceward.stores.migrations import read_applied
from onceward.stores.placeholders import for_sqlite
from onceward.stores.queries import Engine
from onceward.stores.semaphore import FairSemaphore
from onceward.stores.sqlite.connection import (
    DRIVER_ERRORS,
    SqliteConnection,
    mapped_error,
    mapped_errors,
    wait_for_fork,
)
from onceward.stores.sqlite.database import Database, open_database
from onceward.stores.sqlite.framework_connection import JoinedSqliteTransaction
from onceward.stores.sqlite.group_commit import GroupCommitWriter
from onceward.stores.sqlite.transaction import SqliteTransaction, statement
from onceward.stores.sqlite.write_lock import same_thread_check
from onceward.stores.transaction_context import TransactionContext
from onceward.system import Clock, Files, SystemClock, SystemFiles

T = TypeVar("T")


class SqliteStore(TransactionContext[SqliteTransaction]):
    """A handle on a database file."""

    engine: Engine = "sqlite"
    #: Unlimited: any number of transactions may be open, one of them writes.
    transaction_slots: FairSemaphore | None = None

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
        strict: bool = False,
    ) -> None:
        """Set the path; the file is opened on first use, separately in every process.

        With `strict`, a file that another SQLite library of this process has open raises
        SecondSqlite.
        """
        super().__init__(SqliteTransaction)
        self.path = path.absolute()
        self.url = self.address = f"sqlite:///{self.path}"
        self.clock = clock or SystemClock()
        self.files = files or SystemFiles()
        self._own_files = files
        self._is_strict = strict
        self._opening = threading.Lock()
        self._opened: Database | None = None
        #: Detaches a handle that was never closed. Until then the registry keeps its connections
        #: alive: in a garbage cycle their own finalizers, which warn, could run first.
        self._finalizer: weakref.finalize[..., SqliteStore] | None = None
        self._reset_writer()
        reset_after_fork(self)

    def _reset_writer(self) -> None:
        self._local = threading.local()
        self._writer = GroupCommitWriter(self)

    def after_fork(self) -> None:
        """Reset, in a forked child, the parent's thread state and write queue."""
        self._opening = threading.Lock()
        self._reset_writer()

    @property
    def database(self) -> Database:
        """Return this process's state of the file, shared by all handles on it."""
        return self._opened or self._open()

    @property
    def writer_identity(self) -> object:
        """Return the file's state: all handles on it share one writer."""
        return self.database

    def _open(self) -> Database:
        with self._opening:
            if self._opened is None:
                path = self.path.resolve()  # SQLite's WAL is beside the target of a link.
                database = open_database(path, self._own_files, is_strict=self._is_strict)
                database.attach()
                self._finalizer = weakref.finalize(self, _detach_quietly, database)
                self._opened = database
            return self._opened

    @contextmanager
    def transaction(self, *, immediate: bool = False) -> Iterator[SqliteTransaction]:
        """Open a transaction for the user, or join the one that is open in this context."""
        joined = self.current()
        if joined is not None:
            if immediate:
                joined.begin()
            yield joined
            return
        # Like `detached` and `joined`, but inlined: this is the hot path of writes.
        database = self.database
        connection = database.acquire_connection()
        transaction = SqliteTransaction(connection, self.clock, database, same_thread_check())
        outer = self._current.get()
        self._current.set(transaction)
        try:
            if immediate:
                transaction.begin()
            yield transaction
            commit(transaction)
        finally:
            # See `joined`.
            if self._current.get() is transaction:
                self._current.set(outer)
            _end(transaction, database, connection)

    def join(self, connection: object) -> AbstractContextManager[JoinedTransaction]:
        """Run inside a transaction that a framework has begun on this connection."""
        make = partial(JoinedSqliteTransaction, connection, self.clock, self.database)
        return join(self, connection, make)

    @contextmanager
    def detached(
        self, is_inside: Callable[[], bool] | None = None, /, *, has_slot: bool = False
    ) -> Iterator[SqliteTransaction]:
        """Open a transaction outside of any context; it may be ended in any thread."""
        del has_slot  # SQLite limits no transactions.
        database = self.database
        connection = database.acquire_connection()
        is_inside = is_inside or same_thread_check()
        transaction = SqliteTransaction(connection, self.clock, database, is_inside)
        try:
            yield transaction
            commit(transaction)
        finally:
            _end(transaction, database, connection)

    def run_in_own_transaction(self, operation: Callable[[Transaction], T]) -> T:
        """Run a short operation in its own transaction, group-committed with other threads."""
        joined, write_lock = self.current(), self.database.write_lock
        # By thread, or by context: the block may be open in another thread.
        if write_lock.is_held_by_caller or (joined is not None and joined.is_writing):
            raise write_lock.held_error()
        return self._writer.run(operation)

    def write_query(self, name: str, /, **params: object) -> list[Row]:
        """Run one of our statements in its own transaction."""
        joined, write_lock = self._current.get(), (self._opened or self._open()).write_lock
        if write_lock.is_held_by_caller or (
            joined is not None and joined.is_joinable and joined.is_writing
        ):
            raise write_lock.held_error()
        return self._writer.run_query(name, params)

    def read(self, name: str, /, **params: object) -> list[Row]:
        """Run a query that writes nothing."""
        return self._read(name, params, None)

    def _read(
        self, name: str, params: dict[str, object], lock: AbstractContextManager[object] | None
    ) -> list[Row]:
        joined = self._current.get()
        if joined is not None and joined.is_joinable:
            return joined.query(name, **params)
        sql, bound = statement(self.clock, name, params)
        snapshot: SqliteConnection | None = getattr(self._local, "snapshot", None)
        # Like `_reader`, but inlined: this is the hot path of replays.
        database = self._opened or self._open()
        connection = snapshot or database.acquire_connection()
        try:
            if lock is None:
                return connection.execute(sql, bound)
            # Only the query runs under the lock: its waiters may hold other locks.
            with lock:
                return connection.execute(sql, bound)
        except DRIVER_ERRORS as exc:
            raise mapped_error(exc, name) from exc
        finally:
            if snapshot is None:
                database.release_connection(connection)

    def find(self, name: str, /, **params: object) -> list[Row]:
        """Run a query like `read` that is a fast lookup of a row by its key."""
        return self._read(name, params, (self._opened or self._open()).lookup_lock)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Run the reads of this block on one snapshot of the database."""
        if self.current() is not None or getattr(self._local, "snapshot", None) is not None:
            yield
            return
        wait_for_fork()
        with self._reader() as connection:
            with mapped_errors("begin"):
                connection.execute("begin")
            self._local.snapshot = connection
            try:
                yield
            finally:
                self._local.snapshot = None
                connection.execute("rollback")

    def select(self, sql: str, params: Params = ()) -> list[Row]:
        """Run a read-only statement on a connection without a transaction."""
        with self._reader() as connection, mapped_errors("select"):
            return connection.execute(for_sqlite(sql), params)

    @contextmanager
    def _reader(self) -> Iterator[SqliteConnection]:
        """Yield a connection for a read: the snapshot's, if this thread is inside one."""
        connection: SqliteConnection | None = getattr(self._local, "snapshot", None)
        if connection is not None:
            yield connection
            return
        database = self.database
        connection = database.acquire_connection()
        try:
            yield connection
        finally:
            database.release_connection(connection)

    def applied(self) -> dict[int, str]:
        """Return the migrations applied to this file: their names by number."""
        self.files.make_directories(self.path.parent)
        # A read does not wait for a writer, which may be frozen.
        return read_applied(self)

    def apply(self, number: int, name: str, sql: str) -> bool:
        """Apply and record a migration in one transaction."""

        def operation(transaction: Transaction) -> bool:
            if number in _applied(transaction):
                return False
            assert isinstance(transaction, SqliteTransaction)
            transaction.script(sql)
            transaction.query("note_migration", number=number, name=name)
            return True

        return self.run_in_own_transaction(operation)

    def problems(self) -> list[str]:
        """Return the problems that SQLite's `quick_check` finds."""
        with self._reader() as connection, mapped_errors("quick_check"):
            found = [str(row[0]) for row in connection.execute("pragma quick_check")]
        return [] if found == ["ok"] else found

    def close(self) -> None:
        """Close this handle and the connections that no thread uses."""
        with self._opening:
            database, self._opened = self._opened, None
            finalizer, self._finalizer = self._finalizer, None
        if database is None or finalizer is None or finalizer.detach() is None:
            return
        # Wait for our own threads that are writing, such as a heartbeat.
        with (
            nullcontext()
            if database.write_lock.is_held_by_caller
            else database.write_lock.block_this_process()
        ):
            self._reset_writer()
            database.detach()


def _detach_quietly(database: Database) -> None:
    """Detach a leaked handle without waiting: no thread writes with it any more."""
    with suppress(Exception):
        database.detach()


def _end(transaction: SqliteTransaction, database: Database, connection: SqliteConnection) -> None:
    """End a transaction and release its connection, unless this is a forked child."""
    if transaction.is_of_this_process:
        transaction.end()
        database.release_connection(connection)


def _applied(transaction: Transaction) -> dict[int, str]:
    transaction.query("create_migrations")
    return dict(transaction.query("list_migrations"))
