"""Own transaction: what one call with `tx` does in a transaction that it opens and ends itself.

Each part is one step, which an event loop runs in a thread: a transaction is opened and its key
claimed, and later the result recorded and all of it committed. Between the end of the function and
the end of the commit nothing needs the event loop, which may be blocked by then: a statement of
another task may wait there for the rows that this transaction has locked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress

from onceward.outcomes.models import Claim, Fresh
from onceward.outcomes.steps import Ask
from onceward.stores import Store, Transaction


class OwnTransaction:
    """The transaction of one call."""

    #: There once it is open.
    tx: Transaction

    def __init__(self, store: Store, *, has_place: bool) -> None:
        """Use a transaction of this store; made in the thread in which the function will run."""
        self._store = store
        self._has_place = has_place
        self._thread: int | None = threading.get_ident()
        self._open = ExitStack()

    def opening(self, ask: Callable[[Transaction], Claim]) -> Ask:
        """Open it and ask for the key; unless that is granted, end it again."""

        def call() -> Claim:
            with ExitStack() as stack:
                opened = self._store.detached(self._is_inside, has_place=self._has_place)
                self.tx = stack.enter_context(opened)
                claim = ask(self.tx)
                if isinstance(claim, Fresh):
                    self._open = stack.pop_all()
            return claim

        return Ask(call, kind="going_on")

    def committing(self, record: Callable[[], None]) -> Ask:
        """Record the result and commit both; rolled back when that raises."""

        def call() -> None:
            with self._open:
                self._thread = threading.get_ident()
                record()

        self._thread = None
        return Ask(call, kind="ending")

    def undoing(self) -> Ask:
        """Roll it back, unless it has ended."""
        self._thread = None
        return Ask(self.roll_back, kind="ending")

    def roll_back(self) -> None:
        """Roll it back here and now, unless it has ended."""
        with suppress(_Undone), self._open:
            raise _Undone

    def _is_inside(self) -> bool:
        """Return whether the transaction waits for this thread.

        It does not wait for the event loop any more once another thread ends it.
        """
        return threading.get_ident() == self._thread


class _Undone(Exception):
    """Rolls the transaction back."""
