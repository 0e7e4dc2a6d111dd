"""Blocking calls: run calls that would block an event loop in threads.

A call is awaited to its end, even by a cancelled task: its result must be known before the task
can continue from it, or undo it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import lru_cache, partial
from typing import Final, Literal, TypeVar

T = TypeVar("T")
#: The purpose of a thread. Calls that wait for the end of a transaction may occupy all threads of
#: their kind, and the loop's default ones are the application's. The call that has the transaction
#: open must wait for neither, to continue or to end it. "in_transaction" has one thread for each
#: transaction that may be open on PostgreSQL.
ThreadKind = Literal["waiting", "in_transaction", "ending"]
THREADS_MAX: Final[dict[ThreadKind, int]] = {"waiting": 32, "in_transaction": 32, "ending": 8}


class DeferredCancellation:
    """Holds a task's cancellation back until its blocking calls have ended."""

    def __init__(self) -> None:
        """Begin without a request."""
        self._request: asyncio.CancelledError | None = None

    @property
    def is_requested(self) -> bool:
        """Return whether the task was cancelled during a blocking call."""
        return self._request is not None

    async def run(self, call: Callable[..., T], *args: object, kind: ThreadKind = "waiting") -> T:
        """Run a call in a thread and return its result, even if the task is cancelled."""
        loop = asyncio.get_running_loop()
        run = partial(copy_context().run, call, *args)
        # No task: a loop that is closed cancels all of its tasks.
        ended: asyncio.Future[T] = loop.run_in_executor(_pool(kind, os.getpid()), run)
        while not ended.done():
            try:
                await asyncio.wait((ended,))
            except asyncio.CancelledError as exc:
                self._request = exc
        return ended.result()

    def raise_if_requested(self) -> None:
        """Raise the held-back CancelledError once, as asyncio raises it once."""
        request, self._request = self._request, None
        if request is not None:
            raise request from None


async def run_to_completion(
    call: Callable[..., T], *args: object, kind: ThreadKind = "waiting"
) -> T:
    """Run a call in a thread and return its result; a cancelled task ends only after it."""
    cancellation = DeferredCancellation()
    try:
        return await cancellation.run(call, *args, kind=kind)
    finally:
        cancellation.raise_if_requested()


@lru_cache(maxsize=len(THREADS_MAX))
def _pool(kind: ThreadKind, _process: int) -> ThreadPoolExecutor:
    """Return the thread pool of one kind; a forked child has a pool of its own."""
    return ThreadPoolExecutor(THREADS_MAX[kind], f"onceward-{kind}")
