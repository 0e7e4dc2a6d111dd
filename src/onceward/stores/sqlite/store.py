"""Store: one SQLite file, shared by any number of processes on one machine."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from onceward.errors import SqlFailed
from onceward.seams import Clock, Files, SystemClock, SystemFiles
from onceward.stores.base import Params, Row, Transaction
from onceward.stores.commit import commit
from onceward.stores.forks import reset_after_fork
from onceward.stores.joined import JoinedTransaction, join
from onceward.stores.joining import Joining
from onceward.stores.placeholders import for_sqlite
from onceward.stores.queries import Engine
from onceward.stores.semaphore import FairSemaphore
from onceward.stores.sqlite.connection import (
    DRIVER_ERRORS,
    Connection,
    refusal,
    translated,
    wait_for_fork,
)
from onceward.stores.sqlite.database import Database, open_database
from onceward.stores.sqlite.joined import JoinedSqliteTransaction
from onceward.stores.sqlite.transaction import SqliteTransaction, statement
from onceward.stores.sqlite.turns import in_this_thread
from onceward.stores.sqlite.writer import Writer

T = TypeVar("T")


class SqliteStore(Joining[SqliteTransaction]):
    """A database file, as one handle uses it."""

    engine: Engine = "sqlite"
    #: Any number of transactions may be open; one of them writes.
    places: FairSemaphore | None = None

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
        strict: bool = False,
    ) -> None:
        """Name the file; it is opened when it is used, in every process anew.

        With `strict`, a file that another SQLite library of this process has open is refused.
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
        #: Detaches a handle that was never closed. The registry keeps the connections alive until
        #: then: in a cycle of garbage their own finalizers, which warn, could come first.
        self._at_collection: weakref.finalize[..., SqliteStore] | None = None
        self._begin_anew()
        reset_after_fork(self)

    def _begin_anew(self) -> None:
        self._local = threading.local()
        self._writer = Writer(self)

    def after_fork(self) -> None:
        """Forget, in a child, the threads and the writer of the parent."""
        self._opening = threading.Lock()
        self._begin_anew()

    @property
    def database(self) -> Database:
        """Return the file as this process uses it, shared with other handles on it."""
        return self._opened or self._open()

    @property
    def shared_writer(self) -> object:
        """Return the file: its handles have one writer."""
        return self.database

    def _open(self) -> Database:
        with self._opening:
            if self._opened is None:
                path = self.path.resolve()  # SQLite's log lies beside what a link leads to.
                database = open_database(path, self._own_files, is_strict=self._is_strict)
                database.attach()
                self._at_collection = weakref.finalize(self, _detach_quietly, database)
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
        # As `detached` and `joined` do, but in one piece: this is the way most writes take.
        database = self.database
        connection = database.lend()
        transaction = SqliteTransaction(connection, self.clock, database, in_this_thread())
        outer = self._current.get()
        self._current.set(transaction)
        try:
            if immediate:
                transaction.begin()
            yield transaction
            commit(transaction)
        finally:
            # As `joined` does.
            if self._current.get() is transaction:
                self._current.set(outer)
            _end(transaction, database, connection)

    def join(self, connection: object) -> AbstractContextManager[JoinedTransaction]:
        """Run inside a transaction that a framework has begun on this connection."""
        make = partial(JoinedSqliteTransaction, connection, self.clock, self.database)
        return join(self, connection, make)

    @contextmanager
    def detached(
        self, is_inside: Callable[[], bool] | None = None, /, *, has_place: bool = False
    ) -> Iterator[SqliteTransaction]:
        """Open a transaction that no context is part of; it may be ended in any thread."""
        del has_place  # There are no places here.
        database = self.database
        connection = database.lend()
        is_inside = is_inside or in_this_thread()
        transaction = SqliteTransaction(connection, self.clock, database, is_inside)
        try:
            yield transaction
            commit(transaction)
        finally:
            _end(transaction, database, connection)

    def write_apart(self, operation: Callable[[Transaction], T]) -> T:
        """Run a short operation in a commit, together with those of other threads."""
        joined, turns = self.current(), self.database.turns
        # By thread, or by context: the block may be open in one thread and this run in another.
        if turns.is_mine or (joined is not None and joined.is_writing):
            raise turns.held()
        return self._writer.run(operation)

    def write_query(self, name: str, /, **params: object) -> list[Row]:
        """Run one statement in a commit that is not the user's."""
        joined, turns = self._current.get(), (self._opened or self._open()).turns
        if turns.is_mine or (joined is not None and joined.is_joinable and joined.is_writing):
            raise turns.held()
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
        snapshot: Connection | None = getattr(self._local, "snapshot", None)
        # As `_reader` does, but in one piece: this is the way every replay takes.
        database = self._opened or self._open()
        connection = snapshot or database.lend()
        try:
            if lock is None:
                return connection.execute(sql, bound)
            # Nothing else happens under the lock: whoever waits for it may hold others.
            with lock:
                return connection.execute(sql, bound)
        except DRIVER_ERRORS as exc:
            raise refusal(exc, name) from exc
        finally:
            if snapshot is None:
                database.give_back(connection)

    def find(self, name: str, /, **params: object) -> list[Row]:
        """Run a query like `read` that takes no time: it finds a row by its key."""
        return self._read(name, params, (self._opened or self._open()).finding)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let the reads of this block see one moment."""
        if self.current() is not None or getattr(self._local, "snapshot", None) is not None:
            yield
            return
        wait_for_fork()
        with self._reader() as connection:
            with translated("begin"):
                connection.execute("begin")
            self._local.snapshot = connection
            try:
                yield
            finally:
                self._local.snapshot = None
                connection.execute("rollback")

    def select(self, sql: str, params: Params = ()) -> list[Row]:
        """Run a statement that writes nothing, on a connection without a transaction."""
        with self._reader() as connection, translated("select"):
            return connection.execute(for_sqlite(sql), params)

    @contextmanager
    def _reader(self) -> Iterator[Connection]:
        """Lend a connection for a read: that of the snapshot, if this thread is inside one."""
        connection: Connection | None = getattr(self._local, "snapshot", None)
        if connection is not None:
            yield connection
            return
        database = self.database
        connection = database.lend()
        try:
            yield connection
        finally:
            database.give_back(connection)

    def applied(self) -> list[int]:
        """Return the numbers of the migrations that this file has seen."""
        self.files.make_directories(self.path.parent)
        # Whoever only looks waits for nobody who writes: that one may be frozen.
        with suppress(SqlFailed):
            return [row[0] for row in self.read("list_migrations")]
        return self.write_apart(_applied)

    def apply(self, number: int, name: str, sql: str) -> bool:
        """Run a migration and note it, in one transaction."""

        def operation(transaction: Transaction) -> bool:
            if number in _applied(transaction):
                return False
            assert isinstance(transaction, SqliteTransaction)
            transaction.script(sql)
            transaction.query("note_migration", number=number, name=name)
            return True

        return self.write_apart(operation)

    def problems(self) -> list[str]:
        """Return what SQLite's own check finds."""
        with self._reader() as connection, translated("quick_check"):
            found = [str(row[0]) for row in connection.execute("pragma quick_check")]
        return [] if found == ["ok"] else found

    def close(self) -> None:
        """Close what this handle opened and no thread uses."""
        with self._opening:
            database, self._opened = self._opened, None
            at_collection, self._at_collection = self._at_collection, None
        if database is None or at_collection is None or at_collection.detach() is None:
            return
        # A thread of ours that writes now, such as a heartbeat, ends first.
        with nullcontext() if database.turns.is_mine else database.turns.kept_from_us():
            self._begin_anew()
            database.detach()


def _detach_quietly(database: Database) -> None:
    """Detach a forgotten handle without waiting: nothing writes with it any more."""
    with suppress(Exception):
        database.detach()


def _end(transaction: SqliteTransaction, database: Database, connection: Connection) -> None:
    """End a transaction; its connection is free then, unless this is a forked child."""
    if transaction.is_of_this_process:
        transaction.end()
        database.give_back(connection)


def _applied(transaction: Transaction) -> list[int]:
    transaction.query("create_migrations")
    return [row[0] for row in transaction.query("list_migrations")]
