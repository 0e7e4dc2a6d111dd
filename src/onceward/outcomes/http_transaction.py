"""Transaction: the effects of one request and its recorded answer, in one commit.

The handler opens it; the middleware ends it, once the answer is known. On SQLite, which has one
writer, requests take turns at it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, suppress
from contextvars import Context, ContextVar
from functools import lru_cache
from types import TracebackType
from typing import Any, Final, TypeVar

from onceward.errors import InvalidArgument, StoreBusy
from onceward.outcomes.claims import check_json, fence_lost, named
from onceward.outcomes.heartbeat import HEARTBEAT
from onceward.outcomes.http_turns import Turn
from onceward.outcomes.models import Fence, Fresh, InFlight, OnCrash
from onceward.outcomes.outcomes import Outcomes
from onceward.stores import Store, Transaction

T = TypeVar("T")
#: How often to ask for one's own key again while twins are in the way.
ROUNDS_MAX: Final = 50
#: Threads that end transactions.
ENDING_THREADS: Final = 8


async def in_ending_thread(call: Callable[..., T], *args: object) -> T:
    """End a transaction in a thread apart: those who wait for its end may fill all others."""
    return await asyncio.get_running_loop().run_in_executor(_ending(os.getpid()), call, *args)


@lru_cache(maxsize=1)
def _ending(_pid: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(ENDING_THREADS, "onceward-http")


class RequestClaim:
    """The claim of the request at hand, which its handler finds in `scope["onceward"]`."""

    def __init__(self, outcomes: Outcomes, fence: Fence, on_crash: OnCrash, lease: float) -> None:
        """Keep the claim alive until `close`."""
        #: With `key`, the name of the work.
        self.scope = fence.scope
        self.key = fence.key
        #: Whether the handler has its effects in the transaction.
        self.is_transactional = False
        self.fence = fence
        self._outcomes = outcomes
        self._on_crash = on_crash
        self._lease_seconds = lease
        self._open: _Open | None = None
        self._is_closed = False
        self._keeping = ExitStack()
        self._keep(fence)

    def transaction(self) -> Block:
        """Open the transaction in which the answer is recorded, with `with` or `async with`.

        It is committed after the block, once the answer is known, and rolled back when an exception
        leaves the block or the answer is a 5xx. After a crash nothing of it has happened and the
        request may run again: do everything that counts in it, and open it first.
        """
        return Block(self)

    @property
    def is_open(self) -> bool:
        """Say whether there is something to commit."""
        return self._open is not None

    def begin(self) -> Transaction:
        """Open it in a thread that may wait."""
        turn = self._enter()
        if turn is not None:
            turn.wait()
        return self._opened(turn)

    async def begin_async(self) -> Transaction:
        """Open it without blocking the event loop."""
        turn = self._enter()
        if turn is not None:
            await turn.wait_async()
        opening = asyncio.ensure_future(asyncio.to_thread(self._opened, turn))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            with suppress(Exception):
                await opening  # What a thread has begun must be known before it can be undone.
            raise

    def _enter(self) -> Turn | None:
        if self._is_closed:
            message = "transaction: the answer has been given, so nothing can be added to it"
            raise InvalidArgument(message, fix="open one of your own", field="transaction")
        self.is_transactional = True
        is_alone = self._open is None and self._outcomes.store.engine == "sqlite"
        return Turn(self._outcomes.store) if is_alone else None

    def _opened(self, turn: Turn | None) -> Transaction:
        if self._open is None:
            try:
                self._declare()
                self._open = _Open(self._outcomes.store, turn)
            except BaseException:
                if turn is not None:
                    turn.leave()
                raise
        return self._open.tx

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
        assert self._open is not None
        text = check_json(result)

        def settle(tx: Transaction) -> None:
            params = {"result": text, "failure": None, "ttl_seconds": ttl_seconds}
            if not tx.query("outcome_settle", state="done", **params, **named(self.fence)):
                raise fence_lost(self.fence)

        ended, self._open = self._open, None
        ended.commit(settle)

    def roll_back(self) -> None:
        """Undo everything."""
        ended, self._open = self._open, None
        if ended is not None:
            ended.roll_back()

    def close(self) -> None:
        """Keep the claim alive no longer."""
        self._is_closed = True
        self._keeping.close()


class Block:
    """One block of a handler's; the outermost one decides."""

    def __init__(self, claim: RequestClaim) -> None:
        """Open the claim's transaction, or join it."""
        self._claim = claim
        self._current = _current(claim._outcomes.store)  # noqa: SLF001 - two halves of one thing
        self._outer: Any = None

    def __enter__(self) -> Transaction:
        return self._join(self._claim.begin())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._leave() and kind is not None:
            self._claim.roll_back()

    async def __aenter__(self) -> Transaction:
        return self._join(await self._claim.begin_async())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._leave() and kind is not None:
            await in_ending_thread(self._claim.roll_back)

    def _join(self, tx: Transaction) -> Transaction:
        """Let `ow.transaction()` inside the block join it."""
        self._outer = self._current.get()
        self._current.set(tx)
        return tx

    def _leave(self) -> bool:
        # Not by a token: a dependency's block may end in a copy of the context it began in.
        self._current.set(self._outer)
        return self._outer is None


class _Open:
    """An open transaction, in a context of its own: it is ended elsewhere than it was begun."""

    def __init__(self, store: Store, turn: Turn | None) -> None:
        self._turn = turn
        self._context = Context()
        self._manager: AbstractContextManager[Transaction] = store.transaction()
        self.tx = self._context.run(self._manager.__enter__)

    def commit(self, settle: Callable[[Transaction], None]) -> None:
        try:
            self._context.run(self._end, settle)
        finally:
            self._leave()

    def roll_back(self) -> None:
        try:
            self._context.run(self._undo, _Undone())
        finally:
            self._leave()

    def _end(self, settle: Callable[[Transaction], None]) -> None:
        try:
            settle(self.tx)
        except BaseException as exc:
            self._undo(exc)
            raise
        self._manager.__exit__(None, None, None)

    def _undo(self, exc: BaseException) -> None:
        self._manager.__exit__(type(exc), exc, exc.__traceback__)

    def _leave(self) -> None:
        if self._turn is not None:
            self._turn.leave()


class _Undone(Exception):
    """Rolls a transaction back, and goes no further."""


def _current(store: Store) -> ContextVar[Transaction | None]:
    """Return where a store keeps the transaction that is open in a context."""
    found: ContextVar[Transaction | None] = getattr(store, "_current")  # noqa: B009 - both have it
    return found
