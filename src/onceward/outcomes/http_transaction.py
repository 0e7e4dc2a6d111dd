"""Transaction: the effects of one request and its recorded answer, in one commit.

The handler opens it; the middleware ends it, once the answer is known. A store has places for so
many at a time; on SQLite, which has one writer, requests take turns at it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from contextvars import ContextVar
from types import TracebackType
from typing import Final

from onceward.errors import InvalidArgument, StoreBusy, StoreError
from onceward.outcomes.claims import check_json, fence_lost, named
from onceward.outcomes.heartbeat import HEARTBEAT
from onceward.outcomes.http_turns import Turn
from onceward.outcomes.models import Fence, Fresh, InFlight, OnCrash
from onceward.outcomes.outcomes import Outcomes
from onceward.outcomes.threads import to_the_end
from onceward.stores import Savepoint, Store, Transaction

#: How often to ask for one's own key again while twins are in the way.
ROUNDS_MAX: Final = 50
#: The requests that this context works for, in all threads and tasks that they began.
_REQUESTS: Final[ContextVar[tuple[RequestClaim, ...]]] = ContextVar("requests", default=())


class RequestClaim:
    """The claim of the request at hand, which its handler finds in `scope["onceward"]`."""

    def __init__(self, outcomes: Outcomes, fence: Fence, on_crash: OnCrash, lease: float) -> None:
        """Keep the claim alive until `close`; made in the thread of the event loop."""
        #: With `key`, the name of the work.
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
        self._open: _Open | None = None
        self._blocks: list[Block] = []
        self._is_closed = False
        self._keeping = ExitStack()
        self._keep(fence)

    def transaction(self) -> Block:
        """Open the transaction in which the answer is recorded, with `with` or `async with`.

        It is committed after the block, once the answer is known, and rolled back when the answer
        is a 5xx, 401, 403 or 407; an exception that leaves a block undoes what that block did.
        After a crash nothing of it has happened and the request may run again: do everything that
        counts in it, and open it first.
        """
        return Block(self)

    @property
    def is_open(self) -> bool:
        """Say whether there is something to commit."""
        return self._open is not None

    def enter_request(self) -> None:
        """Let this context, and all that come from it, work for the request."""
        _REQUESTS.set((*_REQUESTS.get(), self))

    # --- blocks: how the handler uses it ----------------------------------------------------------

    def begin(self) -> Begun:
        """Open it, or go on with it, in a thread that may wait."""
        turn = self._turn()
        if turn is not None:
            turn.wait()
        return self._begun(turn)

    async def begin_async(self) -> Begun:
        """Open it, or go on with it, without blocking the event loop."""
        turn = self._turn()
        if turn is not None:
            await turn.wait_async()
        return await to_the_end(self._begun, turn, kind="going_on" if turn is None else "waiting")

    def enter(self, block: Block) -> None:
        """Note that a block has begun."""
        block.is_outermost = not self._blocks
        self._blocks.append(block)

    def leave(self, block: Block, undo: Callable[[], None] | None) -> None:
        """Note that a block has ended, and with `undo`, that nothing it did may stay."""
        self._blocks.remove(block)
        if undo is None:
            return
        if block.is_outermost and not self._blocks:
            try:
                undo()
            except StoreError:
                self._doom()  # What cannot be undone in part is undone as a whole.
        elif block.is_outermost or not any(each.is_outermost for each in self._blocks):
            self._doom()  # Others worked beside it: nobody can tell apart what they did.

    def _doom(self) -> None:
        if self._open is not None:
            self._open.tx.doom()

    def _turn(self) -> Turn | None:
        self._check_open()
        self.is_transactional = True
        return Turn(self.store) if self._open is None else None

    def _begun(self, turn: Turn | None) -> Begun:
        """Return the transaction, and what undoes a block that begins now."""
        with self._opening:
            found = self._open
            if found is None:
                return self._opened(turn).tx, self.roll_back
            if turn is not None:
                turn.leave()
            return found.tx, _nothing if self._blocks else found.savepoint()

    def _opened(self, turn: Turn | None) -> _Open:
        try:
            self._declare()
            opened = self._open = _Open(self.store, turn, self._is_inside)
        except BaseException:
            if turn is not None:
                turn.leave()
            raise
        if self._is_closed:  # Whoever did that meanwhile saw nothing to end.
            self.roll_back()
            self.close()
            self._check_open()
        return opened

    def _check_open(self) -> None:
        if self._is_closed:
            message = "transaction: the answer has been given, so nothing can be added to it"
            raise InvalidArgument(message, fix="open one of your own", field="transaction")

    def _is_inside(self) -> bool:
        """Say whether the request cannot end while whoever asks waits."""
        return threading.get_ident() == self._loop_thread or self in _REQUESTS.get()

    def _declare(self) -> None:
        """Make durable that a crash from now on means: nothing happened."""
        if self._on_crash == "rerun":
            return
        old = self.fence
        for _ in range(ROUNDS_MAX):
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
                self._keep(found.fence)
                return
            if not isinstance(found, InFlight) or found.until:
                raise fence_lost(old)
            # Twins are asking for the key at this moment; each of them leaves when it looks again.
        raise StoreBusy

    def _keep(self, fence: Fence) -> None:
        self._keeping.close()
        self._keeping.enter_context(HEARTBEAT.keep(self._outcomes, fence, self._lease_seconds))

    def commit(self, result: bytes, ttl_seconds: float | None) -> None:
        """Record the answer and make everything durable; rolled back when that is refused."""
        text = check_json(result)

        def settle(tx: Transaction) -> None:
            params = {"result": text, "failure": None, "ttl_seconds": ttl_seconds}
            if not tx.query("outcome_settle", state="done", **params, **named(self.fence)):
                raise fence_lost(self.fence)

        ended = self._taken()
        assert ended is not None
        ended.commit(settle)

    def roll_back(self) -> None:
        """Undo everything."""
        ended = self._taken()
        if ended is not None:
            ended.roll_back()

    def _taken(self) -> _Open | None:
        """Return the transaction to whoever ends it; only one does."""
        with self._mutex:
            ended, self._open = self._open, None
        return ended

    def close(self) -> None:
        """Keep the claim alive no longer."""
        self._is_closed = True
        self._keeping.close()


#: The transaction as a block finds it, and what undoes that block.
Begun = tuple[Transaction, Callable[[], None]]


def _nothing() -> None:
    """Undo nothing: the block around it will."""


class Block:
    """One block of a handler's: what it does stays as a whole or not at all.

    Inside another one it is part of that one.
    """

    def __init__(self, claim: RequestClaim) -> None:
        """Open the claim's transaction, or go on with it."""
        self._claim = claim
        self._undo = _nothing
        self._joined: AbstractContextManager[None] | None = None
        #: Whether it was the first one to begin of those that are open.
        self.is_outermost = False

    def __enter__(self) -> Transaction:
        return self._enter(self._claim.begin())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._part()
        self._claim.leave(self, None if kind is None else self._undo)

    async def __aenter__(self) -> Transaction:
        return self._enter(await self._claim.begin_async())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._part()
        if kind is None:
            self._claim.leave(self, None)
            return
        await to_the_end(self._claim.leave, self, self._undo, kind="ending")

    def _enter(self, begun: Begun) -> Transaction:
        """Let `ow.transaction()` inside the block join it."""
        tx, self._undo = begun
        self._claim.enter(self)
        self._joined = self._claim.store.joined(tx)
        self._joined.__enter__()
        return tx

    def _part(self) -> None:
        assert self._joined is not None, "a block ends that never began"
        self._joined.__exit__(None, None, None)


class _Open:
    """An open transaction, which is ended elsewhere than it was begun."""

    def __init__(self, store: Store, turn: Turn | None, is_inside: Callable[[], bool]) -> None:
        self._turn = turn
        self._manager = store.detached(is_inside, has_place=turn is not None)
        self.tx = self._manager.__enter__()
        self._savepoint: Savepoint | None = None

    def savepoint(self) -> Savepoint:
        """Return what undoes the next block; the block before it has ended, and needs none."""
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
        self._end(_Undone())

    def _end(self, exc: BaseException | None) -> None:
        try:
            self._manager.__exit__(type(exc) if exc else None, exc, None)
        finally:
            if self._turn is not None:
                self._turn.leave()


class _Undone(Exception):
    """Rolls a transaction back, and goes no further."""
