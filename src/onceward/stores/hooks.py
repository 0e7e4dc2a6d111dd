"""Hooks: whom a transaction calls, and what it keeps for its end; the same on both engines.

When each is called is the engine's own business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onceward.stores.base import Check
from onceward.stores.savepoints import Nestable


class Hooks(Nestable):
    """What others asked of a transaction."""

    def __init__(self) -> None:
        """Begin with nobody."""
        super().__init__()
        self._first_write: list[Callable[[], None]] = []
        self._every_write: list[Callable[[], None]] = []
        #: Whom to tell when nobody knows whether it was committed.
        self.unknown: list[Callable[[], None]] = []
        self._last: list[tuple[str, Check, dict[str, object]]] = []

    def hooks(self) -> tuple[list[Any], ...]:
        """Return every list, so that an undo can drop what was registered since."""
        return self._first_write, self._every_write, self.unknown, self._last

    def on_first_write(self, call: Callable[[], None]) -> None:
        """Call this when the transaction has begun, before its first write."""
        self._first_write.append(call)

    def before_every_write(self, call: Callable[[], None]) -> None:
        """Call this before each write of the user's; what it raises stops the write."""
        self._every_write.append(call)

    def on_unknown(self, call: Callable[[], None]) -> None:
        """Call this when nobody knows whether it was committed."""
        self.unknown.append(call)

    def query_last(self, name: str, check: Check, /, **params: object) -> None:
        """Run one of our own statements when everything else is done, before or with the commit."""
        self._last.append((name, check, params))
