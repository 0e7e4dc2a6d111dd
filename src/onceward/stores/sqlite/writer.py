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
from onceward.errors import OutcomeUnknown
from onceward.stores.base import Transaction
from onceward.stores.sqlite.transaction import SqliteTransaction

T = TypeVar("T")


class _Ticket(Generic[T]):
    """One operation that waits for its commit."""

    def __init__(self, operation: Callable[[Transaction], T]) -> None:
        self.operation = operation
        self.result: T | None = None
        self.error: BaseException | None = None
        self._done = threading.Lock()
        self._done.acquire()

    def settle(self) -> None:
        self._done.release()

    def wait(self) -> None:
        self._done.acquire()

    def outcome(self) -> T:
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]  # set when there is no error


class Writer:
    """The queue of one process."""

    def __init__(self, begin: Callable[[], SqliteTransaction]) -> None:
        """Group into transactions that `begin` makes, on a connection of the writer's own."""
        self._begin = begin
        self._queue: deque[_Ticket[Any]] = deque()
        self._mutex = threading.Lock()
        self._is_led = False

    def run(self, operation: Callable[[Transaction], T]) -> T:
        """Return what the operation returned, once it is durable."""
        ticket = _Ticket(operation)
        with self._mutex:
            self._queue.append(ticket)
            leads, self._is_led = not self._is_led, True
        if leads:
            self._lead()
        ticket.wait()
        return ticket.outcome()

    def _lead(self) -> None:
        interrupt: BaseException | None = None
        while True:
            with self._mutex:
                # Whoever comes after this sees that nobody leads, and does it.
                if not self._queue:
                    self._is_led = False
                    break
                tickets = list(self._queue)
                self._queue.clear()
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
        if interrupt is not None:
            raise interrupt

    def _commit(self, tickets: list[_Ticket[Any]]) -> None:
        transaction = self._begin()
        try:
            transaction.begin()
            for ticket in tickets:
                self._run(transaction, ticket, alone=len(tickets) == 1)
            crash_point("sqlite.group.before_commit")
            transaction.commit()
            crash_point("sqlite.group.after_commit")
        finally:
            transaction.roll_back()

    def _run(self, transaction: SqliteTransaction, ticket: _Ticket[Any], *, alone: bool) -> None:
        """Run one operation so that its failure undoes only what it did."""
        if alone:
            ticket.result = ticket.operation(transaction)
            transaction.finish()
            return
        transaction.control("savepoint ticket")
        try:
            ticket.result = ticket.operation(transaction)
            transaction.finish()
        except Exception as exc:  # noqa: BLE001 - the caller raises it as its own
            ticket.error = exc
            transaction.control("rollback to ticket")
        transaction.forget()
        transaction.control("release ticket")
