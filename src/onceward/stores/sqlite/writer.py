"""Writer: short operations of many threads, grouped into one commit.

The first caller leads: it commits its own operation with those that have queued. Then it hands
leadership to the first of those that queued meanwhile, and returns: no caller serves others for
longer than its own commit takes. One fsync serves a whole group.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

from onceward.crash import crash_point
from onceward.errors import OutcomeUnknown
from onceward.seams import Clock
from onceward.stores.base import Row, Transaction
from onceward.stores.commit import commit_telling
from onceward.stores.sqlite.connection import DRIVER_ERRORS, Connection, refusal
from onceward.stores.sqlite.database import Database
from onceward.stores.sqlite.transaction import SqliteTransaction, commit_refusal, statement
from onceward.stores.sqlite.turns import in_this_thread

T = TypeVar("T")


class Opened(Protocol):
    """What a writer must know of its store."""

    clock: Clock

    @property
    def database(self) -> Database:
        """Return the file."""


class _Ticket(Generic[T]):
    """One operation or one statement, and how it ended."""

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
        #: Released when the operation is over, or when its caller is to lead; None for a caller
        #: that led from the start.
        self.woken: threading.Lock | None = None

    def outcome(self) -> T:
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]  # set when there is no error


class Writer:
    """The queue of one process."""

    def __init__(self, store: Opened) -> None:
        """Commit to the database of this store."""
        self._store = store
        self._queue: deque[_Ticket[Any]] = deque()
        self._mutex = threading.Lock()
        #: The operation whose caller commits for all.
        self._leader: _Ticket[Any] | None = None

    def run(self, operation: Callable[[Transaction], T]) -> T:
        """Return what the operation returned, once it is durable."""
        return self._run(_Ticket(operation))

    def run_query(self, name: str, params: dict[str, object]) -> list[Row]:
        """Return the rows of one of our own statements, once it is durable."""
        return self._run(_Ticket[list[Row]](None, name, params))

    def _run(self, ticket: _Ticket[T]) -> T:
        try:
            with self._mutex:
                if self._leader is None:
                    self._leader = ticket
                else:
                    ticket.woken = threading.Lock()
                    ticket.woken.acquire()
                    self._queue.append(ticket)
            if ticket.woken is not None:
                ticket.woken.acquire()
            if self._leader is ticket:
                self._lead(ticket)
        except BaseException:
            self._withdraw(ticket)
            raise
        return ticket.outcome()

    def _lead(self, own: _Ticket[T]) -> None:
        """Commit one's own operation with those that have queued."""
        others: deque[_Ticket[Any]] = deque()
        try:
            if self._queue:
                with self._mutex:
                    # In one step: behind an interrupt nobody else would know whom to wake.
                    others, self._queue = self._queue, deque()
            database = self._store.database
            # The last one that was given back: it has the pages of the last commit in its cache.
            connection = database.lend()
            try:
                if own.operation is None and not others:
                    rows = _commit_query(connection, database, self._store.clock, own)
                    own.result = rows  # type: ignore[assignment]  # what a query returns
                else:
                    transaction = SqliteTransaction(connection, self._store.clock, database)
                    _commit(transaction, [own, *others])
                crash_point("sqlite.group.after_commit")
            finally:
                database.give_back(connection)
        except Exception as exc:  # noqa: BLE001 - each caller raises it as its own
            for ticket in (own, *others):
                ticket.error = ticket.error or exc
        except BaseException:
            message = "the thread that wrote this for us was interrupted"
            for ticket in (own, *others):
                unknown = OutcomeUnknown(message, fix="read before repeating it")
                ticket.error = ticket.error or unknown
            raise
        finally:
            # First the next group, then the callers of this one: they need nobody.
            try:
                self._hand_over()
            finally:
                for ticket in others:
                    assert ticket.woken is not None
                    ticket.woken.release()

    def _hand_over(self) -> None:
        """Let the first caller that queued meanwhile lead; without one, the next that comes."""
        with self._mutex:
            successor = self._leader = self._queue.popleft() if self._queue else None
        if successor is not None:
            assert successor.woken is not None
            successor.woken.release()

    def _withdraw(self, ticket: _Ticket[Any]) -> None:
        """Leave the queue after an interrupt; nothing of this operation was begun."""
        with self._mutex:
            # Others may make it the leader until the mutex is ours.
            is_leader = self._leader is ticket
            with suppress(ValueError):
                self._queue.remove(ticket)
        if is_leader:
            self._hand_over()


def _commit_query(
    connection: Connection, database: Database, clock: Clock, ticket: _Ticket[Any]
) -> list[Row]:
    """Begin, run one of our own statements and commit: most of our writes are no more."""
    turns, turn, stage = database.turns, in_this_thread(), "begin"
    try:
        turns.take(turn)
        connection.execute("begin immediate")
        changes, stage = connection.raw.total_changes, ticket.query
        rows = connection.execute(*statement(clock, ticket.query, ticket.params))
        _about_to_commit()
        stage = "commit"
        connection.execute("commit")
        database.committed(connection, connection.raw.total_changes - changes)
    except BaseException as exc:
        if connection.is_of_this_process and connection.in_transaction:
            connection.execute("rollback")
        if not isinstance(exc, DRIVER_ERRORS):
            raise
        raise (commit_refusal(exc) if stage == "commit" else refusal(exc, stage)) from exc
    finally:
        # An interrupt may come at any line.
        if turns.is_of(turn):
            turns.give()
    return rows


def _commit(transaction: SqliteTransaction, tickets: list[_Ticket[Any]]) -> None:
    try:
        transaction.begin()
        for ticket in tickets:
            if ticket.operation is None:
                _run_query(transaction, ticket)
            elif len(tickets) == 1:
                ticket.result = ticket.operation(transaction)
            else:
                _run_operation(transaction, ticket)
        _about_to_commit()
        commit_telling(transaction)
    finally:
        transaction.end()


def _about_to_commit() -> None:
    crash_point("sqlite.group.before_commit")


def _run_query(transaction: SqliteTransaction, ticket: _Ticket[Any]) -> None:
    """Run one statement, which SQLite undoes by itself when it fails."""
    try:
        ticket.result = transaction.query(ticket.query, **ticket.params)
    except Exception as exc:
        # Some errors undo all of the transaction; one that is not SQLite's own undoes nothing.
        is_of_sqlite = hasattr(exc.__cause__, "sqlite_errorcode")
        if not is_of_sqlite or not transaction.is_open:
            raise
        ticket.error = exc


def _run_operation(transaction: SqliteTransaction, ticket: _Ticket[Any]) -> None:
    """Run one operation so that its failure undoes only what it did."""
    assert ticket.operation is not None
    transaction.control("savepoint ticket")
    place = transaction.place()
    try:
        ticket.result = ticket.operation(transaction)
        transaction.finish()
    except Exception as exc:  # noqa: BLE001 - the caller raises it as its own
        ticket.error = exc
        transaction.control("rollback to ticket")
        transaction.forget(place)
    else:
        transaction.settle()
    transaction.control("release ticket")
