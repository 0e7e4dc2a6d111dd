"""HTTP transaction: commit the effects of one request together with its recorded response.

The handler opens it; the middleware ends it when the response is known. A store limits how many
are open; SQLite has one writer, so requests queue for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from contextvars import ContextVar
from types import TracebackType
from typing import Final

from onceward.errors import InvalidArgument, StoreBusy, StoreError
from onceward.outcomes.blocking_calls import run_to_completion
from onceward.outcomes.claims import check_json, fence_lost, fence_params
from onceward.outcomes.heartbeat import HEARTBEAT
from onceward.outcomes.http_concurrency import RequestSlot
from onceward.outcomes.models import Fence, Fresh, InFlight, OnCrash
from onceward.outcomes.outcomes import Outcomes
from onceward.stores import Savepoint, Store, Transaction

#: How often to claim the own key again while concurrent callers hold its lock.
RECLAIM_ATTEMPTS_MAX: Final = 50
#: The requests that this context works for, in all threads and tasks that they started.
_REQUESTS: Final[ContextVar[tuple[RequestClaim, ...]]] = ContextVar("requests", default=())


class RequestClaim:
    """The claim of a request, which its handler finds in `scope["onceward"]`."""

    def __init__(self, outcomes: Outcomes, fence: Fence, on_crash: OnCrash, lease: float) -> None:
        """Renew the claim until `close`; create this in the thread of the event loop."""
        #: With `key`, identifies the outcome.
        self.scope = fence.scope
        self.key = fence.key
        #: Whether the handler has its effects in the transaction.
        self.is_transactional = False
        self.fence = fence
        self.store = outcomes.store
        self._outcomes = outcomes
        self._on_crash = on_crash
        self._lease_seconds = lease
        self._loop_thread = threading.get_ident()
        self._mutex, self._opening = threading.Lock(), threading.Lock()
        self._open: _RequestTransaction | None = None
        self._blocks: list[TransactionBlock] = []
        self._is_closed = False
        self._renewal = ExitStack()
        self._keep_alive(fence)

    def transaction(self) -> TransactionBlock:
        """Open the transaction in which the response is recorded, with `with` or `async with`.

        It is committed when the response is known, and rolled back when the response is a 5xx,
        401, 403 or 407; an exception that leaves a block rolls that block back. After a crash
        nothing of it has happened and the request may run again: open it first, and have all
        effects in it.
        """
        return TransactionBlock(self)

    @property
    def is_open(self) -> bool:
        """Return whether there is a transaction to commit."""
        return self._open is not None

    def enter_request(self) -> None:
        """Let this context, and all copies of it, work for the request."""
        _REQUESTS.set((*_REQUESTS.get(), self))

    # --- blocks of the handler --------------------------------------------------------------------

    def begin(self) -> BegunBlock:
        """Open it or continue it, in a thread that may wait."""
        slot = self._slot_if_closed()
        if slot is not None:
            slot.acquire()
        return self._begin_block(slot)

    async def begin_async(self) -> BegunBlock:
        """Open it or continue it, without blocking the event loop."""
        slot = self._slot_if_closed()
        if slot is not None:
            await slot.acquire_async()
        return await run_to_completion(
            self._begin_block, slot, kind="in_transaction" if slot is None else "waiting"
        )

    def enter_block(self, block: TransactionBlock) -> None:
        """Register a block that begins."""
        block.is_outermost = not self._blocks
        self._blocks.append(block)

    def leave_block(self, block: TransactionBlock, undo: Callable[[], None] | None) -> None:
        """Unregister a block that ended; with `undo`, roll back what it did."""
        self._blocks.remove(block)
        if undo is None:
            return
        if block.is_outermost and not self._blocks:
            try:
                undo()
            except StoreError:
                self._doom()  # The savepoint is lost: roll back everything.
        elif block.is_outermost or not any(each.is_outermost for each in self._blocks):
            self._doom()  # Concurrent blocks: their effects cannot be separated.

    def _doom(self) -> None:
        if self._open is not None:
            self._open.tx.mark_rollback_only()

    def _slot_if_closed(self) -> RequestSlot | None:
        self._check_open()
        self.is_transactional = True
        return RequestSlot(self.store) if self._open is None else None

    def _begin_block(self, slot: RequestSlot | None) -> BegunBlock:
        """Return the transaction, and the function that rolls back a block that begins now."""
        with self._opening:
            found = self._open
            if found is None:
                return self._open_transaction(slot).tx, self.roll_back
            if slot is not None:
                slot.release()
            return found.tx, _undo_nothing if self._blocks else found.savepoint()

    def _open_transaction(self, slot: RequestSlot | None) -> _RequestTransaction:
        try:
            self._declare_rerunnable()
            opened = self._open = _RequestTransaction(self.store, slot, self._is_inside)
        except BaseException:
            if slot is not None:
                slot.release()
            raise
        if self._is_closed:  # The call of `close` saw no transaction to end.
            self.roll_back()
            self.close()
            self._check_open()
        return opened

    def _check_open(self) -> None:
        if self._is_closed:
            message = "transaction: this request and its transaction have ended; nothing was done"
            raise InvalidArgument(
                message, fix="open another one with ow.transaction()", field="transaction"
            )

    def _is_inside(self) -> bool:
        """Return whether the request would wait for the calling thread or context."""
        return threading.get_ident() == self._loop_thread or self in _REQUESTS.get()

    def _declare_rerunnable(self) -> None:
        """Record durably that a crash frees the key: nothing will have happened."""
        if self._on_crash == "rerun":
            return
        old = self.fence
        for _ in range(RECLAIM_ATTEMPTS_MAX):
            found = self._outcomes.claim(
                old.scope,
                old.key,
                fingerprint=old.fingerprint,
                owner=old.owner,
                lease_seconds=self._lease_seconds,
                on_crash="rerun",
            )
            if isinstance(found, Fresh):
                self.fence, self._on_crash = found.fence, "rerun"
                self._keep_alive(found.fence)
                return
            if not isinstance(found, InFlight) or found.until:
                raise fence_lost(old)
            # Concurrent callers hold the lock of the key; each releases it when it finds the claim.
        raise StoreBusy

    def _keep_alive(self, fence: Fence) -> None:
        self._renewal.close()
        self._renewal.enter_context(
            HEARTBEAT.keep_alive(self._outcomes, fence, self._lease_seconds)
        )

    def commit(self, result: bytes, ttl_seconds: float | None) -> None:
        """Record the response and commit; roll back when the claim was lost."""
        text = check_json(result)

        def settle(tx: Transaction) -> None:
            params = {"result": text, "failure": None, "ttl_seconds": ttl_seconds}
            if not tx.query("outcome_settle", state="done", **params, **fence_params(self.fence)):
                raise fence_lost(self.fence)

        ended = self._take_transaction()
        assert ended is not None
        ended.commit(settle)

    def roll_back(self) -> None:
        """Roll back the transaction, if there is one."""
        ended = self._take_transaction()
        if ended is not None:
            ended.roll_back()

    def _take_transaction(self) -> _RequestTransaction | None:
        """Detach and return the transaction, so that exactly one caller ends it."""
        with self._mutex:
            ended, self._open = self._open, None
        return ended

    def close(self) -> None:
        """Stop renewing the claim."""
        self._is_closed = True
        self._renewal.close()


#: The transaction, and the function that rolls the block back.
BegunBlock = tuple[Transaction, Callable[[], None]]


def _undo_nothing() -> None:
    """Do nothing: the surrounding block rolls back."""


class TransactionBlock:
    """One atomic block of a handler. A nested block is part of the surrounding one."""

    def __init__(self, claim: RequestClaim) -> None:
        """Open the claim's transaction, or continue it."""
        self._claim = claim
        self._undo = _undo_nothing
        self._joined: AbstractContextManager[None] | None = None
        #: Whether it began first among the open blocks.
        self.is_outermost = False

    def __enter__(self) -> Transaction:
        return self._enter(self._claim.begin())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave_joined()
        self._claim.leave_block(self, None if kind is None else self._undo)

    async def __aenter__(self) -> Transaction:
        return self._enter(await self._claim.begin_async())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave_joined()
        if kind is None:
            self._claim.leave_block(self, None)
            return
        await run_to_completion(self._claim.leave_block, self, self._undo, kind="ending")

    def _enter(self, begun: BegunBlock) -> Transaction:
        """Let `ow.transaction()` inside the block join the transaction."""
        tx, self._undo = begun
        self._claim.enter_block(self)
        self._joined = self._claim.store.joined(tx)
        self._joined.__enter__()
        return tx

    def _leave_joined(self) -> None:
        assert self._joined is not None, "a block ended that never began"
        self._joined.__exit__(None, None, None)


class _RequestTransaction:
    """An open transaction, which may end in another thread than it began in."""

    def __init__(
        self, store: Store, slot: RequestSlot | None, is_inside: Callable[[], bool]
    ) -> None:
        self._slot = slot
        self._manager = store.detached(is_inside, has_slot=slot is not None)
        self.tx = self._manager.__enter__()
        self._savepoint: Savepoint | None = None

    def savepoint(self) -> Savepoint:
        """Set the savepoint of the next block; the block before it has ended, and needs none."""
        if self._savepoint is not None:
            self._savepoint.release()
        self._savepoint = self.tx.savepoint()
        return self._savepoint

    def commit(self, settle: Callable[[Transaction], None]) -> None:
        try:
            settle(self.tx)
        except BaseException:
            self.roll_back()
            raise
        self._end(None)

    def roll_back(self) -> None:
        self._end(_RollBackRequest())

    def _end(self, exc: BaseException | None) -> None:
        try:
            self._manager.__exit__(type(exc) if exc else None, exc, None)
        finally:
            if self._slot is not None:
                self._slot.release()


class _RollBackRequest(Exception):
    """Rolls the transaction of a request back."""
