"""Writer: short operations of many threads, grouped into one commit.

The first caller leads: it commits what has queued until nothing is left, while the others sleep on
locks of their own. One fsync then serves all of them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from onceward.crash import crash_point
from onceward.errors import OutcomeUnknown, StoreBusy
from onceward.stores.base import Transaction
from onceward.stores.commit import commit_telling
from onceward.stores.sqlite.transaction import SqliteTransaction

T = TypeVar("T")


class _Ticket(Generic[T]):
    """One operation and how it ended; this one is the leader's own, who waits for nobody."""

    __slots__ = ("error", "operation", "result")

    def __init__(self, operation: Callable[[Transaction], T]) -> None:
        self.operation = operation
        self.result: T | None = None
        self.error: BaseException | None = None

    def settle(self) -> None:
        """Tell whoever waits."""

    def outcome(self) -> T:
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]  # set when there is no error


class _Queued(_Ticket[T]):
    """One operation that waits for its commit."""

    __slots__ = ("_done",)

    def __init__(self, operation: Callable[[Transaction], T]) -> None:
        super().__init__(operation)
        self._done = threading.Lock()
        self._done.acquire()

    def settle(self) -> None:
        self._done.release()

    def wait(self) -> None:
        self._done.acquire()


class Writer:
    """The queue of one process."""

    def __init__(self, open_transaction: Callable[[], SqliteTransaction]) -> None:
        """Group into the transaction that this gives, on a connection of the writer's own."""
        self._open_transaction = open_transaction
        self._transaction: SqliteTransaction | None = None
        self._queue: deque[_Queued[Any]] = deque()
        self._mutex = threading.Lock()
        #: The operation whose caller commits for all.
        self._leader: _Ticket[Any] | None = None

    def run(self, operation: Callable[[Transaction], T]) -> T:
        """Return what the operation returned, once it is durable."""
        own = _Ticket(operation)
        queued: _Queued[T] | None = None
        try:
            with self._mutex:
                if self._leader is None:
                    self._leader = own
                else:
                    queued = _Queued(operation)
                    self._queue.append(queued)
            if queued is None:
                return self._lead(own)
        finally:
            if self._leader is own:
                self._abdicate()
        queued.wait()
        return queued.outcome()

    def _abdicate(self) -> None:
        """Let others lead: an interrupt came where nothing of the group was begun."""
        with self._mutex:
            left, self._leader = list(self._queue), None
            self._queue.clear()
        for ticket in left:
            ticket.error = StoreBusy("the thread that would have written this was interrupted")
            ticket.settle()

    def _lead(self, own: _Ticket[T]) -> T:
        """Commit one's own operation with what has queued, then what has queued since."""
        interrupt: BaseException | None = None
        tickets: list[_Ticket[Any]] = [own]
        while True:
            with self._mutex:
                tickets += self._queue
                self._queue.clear()
                # Whoever comes after this sees that nobody leads, and does it.
                if not tickets:
                    self._leader = None
                    break
            try:
                self._commit(tickets)
            except Exception as exc:  # noqa: BLE001 - each caller raises it as its own
                for ticket in tickets:
                    ticket.error = ticket.error or exc
            except BaseException as exc:  # noqa: BLE001 - raised below, once all are settled
                interrupt = exc
                message = "the thread that wrote this for us was interrupted"
                for ticket in tickets:
                    unknown = OutcomeUnknown(message, fix="read before repeating it")
                    ticket.error = ticket.error or unknown
            finally:
                for ticket in tickets:
                    ticket.settle()
            tickets = []
        if interrupt is not None:
            raise interrupt
        return own.outcome()

    def _commit(self, tickets: list[_Ticket[Any]]) -> None:
        transaction = self._transaction
        if transaction is None:
            transaction = self._transaction = self._open_transaction()
        try:
            transaction.begin()
            if len(tickets) == 1:
                tickets[0].result = tickets[0].operation(transaction)
                transaction.finish()
            else:
                for ticket in tickets:
                    self._run(transaction, ticket)
            crash_point("sqlite.group.before_commit")
            commit_telling(transaction)
            crash_point("sqlite.group.after_commit")
        finally:
            transaction.roll_back()
            transaction.forget()

    def _run(self, transaction: SqliteTransaction, ticket: _Ticket[Any]) -> None:
        """Run one operation so that its failure undoes only what it did."""
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
