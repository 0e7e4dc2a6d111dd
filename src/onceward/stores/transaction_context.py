"""Transaction context: find the open user transaction of the current thread or task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, Protocol, TypeVar

from onceward.stores.base import Row, Transaction

T = TypeVar("T")


class Joinable(Transaction, Protocol):
    """A transaction that calls of a context can join."""

    @property
    def is_joinable(self) -> bool:
        """Return whether it is open, in the process that opened it."""

    def begin(self) -> None:
        """Begin, unless it has begun."""


Kind = TypeVar("Kind", bound=Joinable)


class TransactionContext(ABC, Generic[Kind]):
    """The open transactions of one store, by thread or asyncio context."""

    def __init__(self, kind: type[Kind]) -> None:
        """Join transactions of this kind."""
        self._kind = kind
        self._current: ContextVar[Kind | None] = ContextVar(kind.__name__, default=None)

    def current(self) -> Kind | None:
        """Return the user's transaction that is open in this context."""
        found = self._current.get()
        return found if found is not None and found.is_joinable else None

    @contextmanager
    def joined(self, transaction: Transaction) -> Iterator[None]:
        """Run the calls of this context inside a transaction that was opened elsewhere."""
        assert isinstance(transaction, self._kind)
        outer = self._current.get()
        self._current.set(transaction)
        try:
            yield
        finally:
            # Not by a token: a block may end in a copy of the context it began in, or, when its
            # task is destroyed, in the context of another, which is left alone.
            if self._current.get() is transaction:
                self._current.set(outer)

    def find(self, name: str, /, **params: object) -> list[Row]:
        """Run a query like `read` that is a fast lookup of a row by its key."""
        return self.read(name, **params)

    @abstractmethod
    def read(self, name: str, /, **params: object) -> list[Row]:
        """Run a query that writes nothing."""

    def write(self, operation: Callable[[Transaction], T]) -> T:
        """Run a short operation in the user's open transaction, or else in its own."""
        joined = self.current()
        if joined is not None:
            joined.begin()
            return operation(joined)
        return self.run_in_own_transaction(operation)

    @abstractmethod
    def run_in_own_transaction(self, operation: Callable[[Transaction], T]) -> T:
        """Run a short operation in its own transaction, even inside the user's transaction."""
