"""Transaction hooks: register callbacks around a transaction's writes and commit, on both engines.

Each engine decides when to call them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onceward.stores.base import RowCheck
from onceward.stores.savepoints import Nestable


class TransactionHooks(Nestable):
    """The callbacks and commit-time statements registered with a transaction."""

    def __init__(self) -> None:
        """Start without callbacks."""
        super().__init__()
        self._first_write: list[Callable[[], None]] = []
        self._every_write: list[Callable[[], None]] = []
        #: Called when the commit is ambiguous.
        self.unknown_callbacks: list[Callable[[], None]] = []
        self._commit_queries: list[tuple[str, RowCheck, dict[str, object]]] = []

    def hooks(self) -> tuple[list[Any], ...]:
        """Return all lists, so that an undo can drop later registrations."""
        return self._first_write, self._every_write, self.unknown_callbacks, self._commit_queries

    def on_first_write(self, call: Callable[[], None]) -> None:
        """Register a callback that runs once the transaction has begun, before its first write."""
        self._first_write.append(call)

    def before_every_write(self, call: Callable[[], None]) -> None:
        """Register a callback that runs before each user write; it may raise to stop it."""
        self._every_write.append(call)

    def on_commit_unknown(self, call: Callable[[], None]) -> None:
        """Register a callback for an ambiguous commit."""
        self.unknown_callbacks.append(call)

    def run_with_commit(self, name: str, check: RowCheck, /, **params: object) -> None:
        """Run one of our own statements last, before or together with the commit."""
        self._commit_queries.append((name, check, params))
