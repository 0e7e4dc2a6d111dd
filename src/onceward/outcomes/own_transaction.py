"""Own transaction: begin and commit the transaction of an idempotent call that takes `tx`.

Each part is one step, which an event loop runs in a thread: a transaction is opened and its key
claimed, and later the result recorded and all of it committed. Between the end of the function and
the end of the commit nothing needs the event loop, which may be blocked by then: a statement of
another task may wait there for rows that this transaction has locked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress

from onceward.outcomes.models import Claim, Fresh
from onceward.outcomes.step_drivers import BlockingStep
from onceward.stores import Store, Transaction


class OwnTransaction:
    """The transaction of one call."""

    #: Set once it is open.
    tx: Transaction

    def __init__(self, store: Store, *, has_slot: bool) -> None:
        """Use a transaction of this store; create this in the thread that runs the function."""
        self._store = store
        self._has_slot = has_slot
        self._thread: int | None = threading.get_ident()
        self._open = ExitStack()

    def open_step(self, claim_in: Callable[[Transaction], Claim]) -> BlockingStep:
        """Return the step that opens it and claims the key, and ends it unless granted."""

        def call() -> Claim:
            with ExitStack() as stack:
                opened = self._store.detached(self._is_inside, has_slot=self._has_slot)
                self.tx = stack.enter_context(opened)
                claim = claim_in(self.tx)
                if isinstance(claim, Fresh):
                    self._open = stack.pop_all()
            return claim

        return BlockingStep(call, kind="in_transaction")

    def commit_step(self, record: Callable[[], None]) -> BlockingStep:
        """Return the step that records the result and commits, or rolls back when that raises."""

        def call() -> None:
            with self._open:
                self._thread = threading.get_ident()
                record()

        self._thread = None
        return BlockingStep(call, kind="ending")

    def rollback_step(self) -> BlockingStep:
        """Return the step that rolls it back, unless it has ended."""
        self._thread = None
        return BlockingStep(self.roll_back, kind="ending")

    def roll_back(self) -> None:
        """Roll it back in this thread, unless it has ended."""
        with suppress(_RollBackOwnTransaction), self._open:
            raise _RollBackOwnTransaction

    def _is_inside(self) -> bool:
        """Return whether the transaction waits for this thread.

        It does not wait for the event loop any more once another thread ends it.
        """
        return threading.get_ident() == self._thread


class _RollBackOwnTransaction(Exception):
    """Rolls the transaction back."""
