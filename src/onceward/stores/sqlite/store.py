"""Store: one SQLite file, shared by any number of processes on one machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TypeVar

import apsw

from onceward.errors import SqlFailed, WriterHeld
from onceward.seams import Clock, Files, SystemClock, SystemFiles
from onceward.stores.base import Params, Row, Transaction
from onceward.stores.commit import commit
from onceward.stores.forks import reset_after_fork
from onceward.stores.joining import Joining
from onceward.stores.placeholders import for_sqlite
from onceward.stores.queries import Engine, query
from onceward.stores.sqlite.connection import connect, refusal, translated
from onceward.stores.sqlite.transaction import SqliteTransaction, timed
from onceward.stores.sqlite.turns import Turns, in_this_thread
from onceward.stores.sqlite.writer import Writer

T = TypeVar("T")


class SqliteStore(Joining[SqliteTransaction]):
    """A database file, and the connections of this process to it."""

    engine: Engine = "sqlite"

    def __init__(
        self, path: Path, *, clock: Clock | None = None, files: Files | None = None
    ) -> None:
        """Name the file; it is opened when it is used, in every process and thread anew."""
        super().__init__(SqliteTransaction)
        self.path = path.absolute()
        self.url = f"sqlite:///{self.path}"
        self.clock = clock or SystemClock()
        self.files = files or SystemFiles()
        self.turns = Turns(self.path, self.files)
        self._abandoned: list[object] = []
        self._begin_anew()
        reset_after_fork(self)

    def _begin_anew(self) -> None:
        self._local = threading.local()
        self._idle: list[apsw.Connection] = []
        self._writer = Writer(self._own_transaction)
        self._writing: apsw.Connection | None = None

    def after_fork(self) -> None:
        """Leave the parent's connections alone: even closing one here would drop its locks."""
        self._abandoned += [self._local, self._idle, self._writing]
        self.turns.after_fork()
        self._begin_anew()

    @contextmanager
    def transaction(self) -> Iterator[SqliteTransaction]:
        """Open a transaction for the user, or join the one that is open in this context."""
        joined = self.current()
        if joined is not None:
            yield joined
            return
        # As `detached` and `joined` do, but in one piece: this is the way most writes take.
        connection = self._lent()
        transaction = SqliteTransaction(connection, self.clock, self.turns, in_this_thread())
        outer = self._current.get()
        self._current.set(transaction)
        try:
            yield transaction
            commit(transaction)
        finally:
            # Not by a token: a block may end in a copy of the context it began in.
            self._current.set(outer)
            self._end(transaction, connection)

    @contextmanager
    def detached(
        self, is_inside: Callable[[], bool] | None = None, /
    ) -> Iterator[SqliteTransaction]:
        """Open a transaction that no context is part of; it may be ended in any thread."""
        connection = self._lent()
        is_inside = is_inside or in_this_thread()
        transaction = SqliteTransaction(connection, self.clock, self.turns, is_inside)
        try:
            yield transaction
            commit(transaction)
        finally:
            self._end(transaction, connection)

    def _end(self, transaction: SqliteTransaction, connection: apsw.Connection) -> None:
        """End a transaction; its connection is free then, unless this is a forked child."""
        if transaction.is_of_this_process:
            transaction.end()
            self._idle.append(connection)
        else:
            self._abandoned.append(connection)

    def _lent(self) -> apsw.Connection:
        try:
            return self._idle.pop()
        except IndexError:
            return connect(self.path)

    def write_apart(self, operation: Callable[[Transaction], T]) -> T:
        """Run a short operation in a commit, together with those of other threads."""
        joined = self.current()
        # By thread, or by context: the block may be open in one thread and this run in another.
        if self.turns.is_mine or (joined is not None and joined.is_writing):
            raise WriterHeld
        return self._writer.run(operation)

    def write_query(self, name: str, /, **params: object) -> list[Row]:
        """Run one statement in a commit that is not the user's."""
        return self.write_apart(lambda transaction: transaction.query(name, **params))

    def read(self, name: str, /, **params: object) -> list[Row]:
        """Run a query that writes nothing."""
        joined = self.current()
        if joined is not None:
            return joined.query(name, **params)
        sql = query("sqlite", name)
        try:
            return self._reading().execute(sql, timed(self.clock, sql, params)).fetchall()
        except apsw.Error as exc:
            raise refusal(exc, name) from exc

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let the reads of this block see one moment."""
        connection = None if self.current() is not None else self._reading()
        if connection is None or connection.in_transaction:
            yield
            return
        with translated("begin"):
            connection.execute("begin")
        try:
            yield
        finally:
            connection.execute("rollback")

    def select(self, sql: str, params: Params = ()) -> list[Row]:
        """Run a statement that writes nothing, on a connection without a transaction."""
        with translated("select"):
            return self._reading().execute(for_sqlite(sql), params).fetchall()

    def _reading(self) -> apsw.Connection:
        """Return this thread's own connection for reads."""
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = connect(self.path)
        return connection

    def _own_transaction(self) -> SqliteTransaction:
        if self._writing is None:
            self._writing = connect(self.path)
        return SqliteTransaction(self._writing, self.clock, self.turns)

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
            transaction.control(sql)
            transaction.query("note_migration", number=number, name=name)
            return True

        return self.write_apart(operation)

    def problems(self) -> list[str]:
        """Return what SQLite's own check finds."""
        connection = connect(self.path)
        with translated("quick_check"):
            found = [str(row[0]) for row in connection.execute("pragma quick_check").fetchall()]
        connection.close()
        return [] if found == ["ok"] else found

    def close(self) -> None:
        """Close what this process opened and nobody uses."""
        # Whoever of ours writes now, such as a heartbeat, ends first.
        with nullcontext() if self.turns.is_mine else self.turns.kept_from_us():
            connections = [*self._idle, self._writing, getattr(self._local, "connection", None)]
            self._begin_anew()
        for connection in connections:
            if connection is not None:
                # A heartbeat that waited for its turn may use it again: it ends with its last user.
                with suppress(apsw.ThreadingViolationError):
                    connection.close()
        self.turns.close()


def _applied(transaction: Transaction) -> list[int]:
    transaction.query("create_migrations")
    return [row[0] for row in transaction.query("list_migrations")]
