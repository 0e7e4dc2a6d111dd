"""Group commit: commit short writes of many threads together, with one fsync per group.

The first caller leads: it commits its own write with all queued ones. Then it hands leadership to
the first caller that queued during that commit, and returns: no caller serves others for longer
than one commit takes.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

from onceward.errors import OutcomeUnknown
from onceward.stores.base import Row, Transaction
from onceward.stores.commit import commit_reporting_unknown
from onceward.stores.sqlite.connection import DRIVER_ERRORS, SqliteConnection, mapped_error
from onceward.stores.sqlite.database import Database
from onceward.stores.sqlite.transaction import SqliteTransaction, commit_error, statement
from onceward.stores.sqlite.write_lock import same_thread_check
from onceward.system import Clock
from onceward.system.crash_points import crash_point

T = TypeVar("T")


class GroupCommitStore(Protocol):
    """The parts of a store that group commit needs."""

    clock: Clock

    @property
    def database(self) -> Database:
        """Return the database file."""


class _QueuedWrite(Generic[T]):
    """One queued operation or statement, and its result or error."""

    __slots__ = ("error", "operation", "params", "query", "result", "woken")

    def __init__(
        self,
        operation: Callable[[Transaction], T] | None = None,
        query: str = "",
        params: dict[str, object] | None = None,
    ) -> None:
        self.operation = operation
        self.query = query
        self.params = params or {}
        self.result: T | None = None
        self.error: BaseException | None = None
        #: Released when the operation has ended, or when its caller becomes the leader; None for a
        #: caller that led from the start.
        self.woken: threading.Lock | None = None

    def outcome(self) -> T:
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]  # set when there is no error


class GroupCommitWriter:
    """The write queue of one store in this process."""

    def __init__(self, store: GroupCommitStore) -> None:
        """Commit to the database of this store."""
        self._store = store
        self._queue: deque[_QueuedWrite[Any]] = deque()
        self._mutex = threading.Lock()
        #: The write whose caller commits for the group.
        self._leader: _QueuedWrite[Any] | None = None

    def run(self, operation: Callable[[Transaction], T]) -> T:
        """Run an operation; return its result once it is durable."""
        return self._run(_QueuedWrite(operation))

    def run_query(self, name: str, params: dict[str, object]) -> list[Row]:
        """Run one of our own statements; return its rows once it is durable."""
        return self._run(_QueuedWrite[list[Row]](None, name, params))

    def _run(self, write: _QueuedWrite[T]) -> T:
        try:
            with self._mutex:
                if self._leader is None:
                    self._leader = write
                else:
                    write.woken = threading.Lock()
                    write.woken.acquire()
                    self._queue.append(write)
            if write.woken is not None:
                write.woken.acquire()
            if self._leader is write:
                self._lead(write)
        except BaseException:
            self._withdraw(write)
            raise
        return write.outcome()

    def _lead(self, own: _QueuedWrite[T]) -> None:
        """Commit the leader's write with all queued ones."""
        others: deque[_QueuedWrite[Any]] = deque()
        try:
            if self._queue:
                with self._mutex:
                    # In one step: after an interrupt these callers must still be woken.
                    others, self._queue = self._queue, deque()
            database = self._store.database
            # The most recently released one: its cache has the pages of the last commit.
            connection = database.acquire_connection()
            try:
                if own.operation is None and not others:
                    rows = _commit_query(connection, database, self._store.clock, own)
                    own.result = rows  # type: ignore[assignment]  # what a query returns
                else:
                    transaction = SqliteTransaction(connection, self._store.clock, database)
                    _commit(transaction, [own, *others])
                crash_point("sqlite.group.after_commit")
            finally:
                database.release_connection(connection)
        except Exception as exc:  # noqa: BLE001 - each caller raises it
            for write in (own, *others):
                write.error = write.error or exc
        except BaseException:
            message = (
                "the thread that committed this write, with those of others, was interrupted; the "
                "write may or may not be committed"
            )
            for write in (own, *others):
                unknown = OutcomeUnknown(message, fix="check the data before repeating it")
                write.error = write.error or unknown
            raise
        finally:
            # First the next group, then the callers of this one, which only return.
            try:
                self._hand_over()
            finally:
                for write in others:
                    assert write.woken is not None
                    write.woken.release()

    def _hand_over(self) -> None:
        """Make the first queued caller the leader; if there is none, the next caller leads."""
        with self._mutex:
            successor = self._leader = self._queue.popleft() if self._queue else None
        if successor is not None:
            assert successor.woken is not None
            successor.woken.release()

    def _withdraw(self, write: _QueuedWrite[Any]) -> None:
        """Leave the queue after an interrupt; this write has not begun."""
        with self._mutex:
            # Another thread may have made it the leader before we took the mutex.
            is_leader = self._leader is write
            with suppress(ValueError):
                self._queue.remove(write)
        if is_leader:
            self._hand_over()


def _commit_query(
    connection: SqliteConnection, database: Database, clock: Clock, write: _QueuedWrite[Any]
) -> list[Row]:
    """Begin, run one of our own statements and commit: the most frequent kind of write."""
    write_lock, is_inside, stage = database.write_lock, same_thread_check(), "begin"
    try:
        write_lock.acquire(is_inside)
        connection.execute("begin immediate")
        changes, stage = connection.raw.total_changes, write.query
        rows = connection.execute(*statement(clock, write.query, write.params))
        _about_to_commit()
        stage = "commit"
        connection.execute("commit")
        database.committed(connection, connection.raw.total_changes - changes)
    except BaseException as exc:
        if connection.is_of_this_process and connection.in_transaction:
            connection.execute("rollback")
        if not isinstance(exc, DRIVER_ERRORS):
            raise
        raise (commit_error(exc) if stage == "commit" else mapped_error(exc, stage)) from exc
    finally:
        # An interrupt may come on any line.
        if write_lock.was_acquired_with(is_inside):
            write_lock.release()
    return rows


def _commit(transaction: SqliteTransaction, writes: list[_QueuedWrite[Any]]) -> None:
    try:
        transaction.begin()
        for write in writes:
            if write.operation is None:
                _run_query(transaction, write)
            elif len(writes) == 1:
                write.result = write.operation(transaction)
            else:
                _run_operation(transaction, write)
        _about_to_commit()
        commit_reporting_unknown(transaction)
    finally:
        transaction.end()


def _about_to_commit() -> None:
    crash_point("sqlite.group.before_commit")


def _run_query(transaction: SqliteTransaction, write: _QueuedWrite[Any]) -> None:
    """Run one statement; SQLite undoes a failed statement itself."""
    try:
        write.result = transaction.query(write.query, **write.params)
    except Exception as exc:
        # Some errors undo the entire transaction; an error that is not SQLite's undoes nothing.
        is_of_sqlite = hasattr(exc.__cause__, "sqlite_errorcode")
        if not is_of_sqlite or not transaction.is_open:
            raise
        write.error = exc


def _run_operation(transaction: SqliteTransaction, write: _QueuedWrite[Any]) -> None:
    """Run one operation; its failure undoes only its own writes."""
    assert write.operation is not None
    transaction.control("savepoint queued_write")
    counts = transaction.callback_counts()
    try:
        write.result = write.operation(transaction)
        transaction.run_commit_queries()
    except Exception as exc:  # noqa: BLE001 - its caller raises it
        write.error = exc
        transaction.control("rollback to queued_write")
        transaction.drop_callbacks(counts)
    else:
        transaction.reset_for_next_operation()
    transaction.control("release queued_write")
