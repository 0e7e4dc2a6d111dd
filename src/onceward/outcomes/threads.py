"""Threads: where calls that may wait run when an event loop asks for them.

They are awaited to their end, even by a task that is cancelled meanwhile: what a thread has begun
must be known before anybody can go on from it, or undo it.
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
#: What a thread is for. Those who wait for the end of a transaction may fill all threads of their
#: kind, and the loop's own ones are the application's: whoever has it open must not have to wait
#: for either, to go on with it or to end it. "going_on" has one thread for each transaction that
#: may be open on PostgreSQL.
Kind = Literal["waiting", "going_on", "ending"]
THREADS: Final[dict[Kind, int]] = {"waiting": 32, "going_on": 32, "ending": 8}


class Cancellation:
    """The wish of others that a task should end, heard only when its threads are done."""

    def __init__(self) -> None:
        """Begin without one."""
        self._asked: asyncio.CancelledError | None = None

    @property
    def was_asked(self) -> bool:
        """Say whether somebody wants the task to end."""
        return self._asked is not None

    async def after(self, call: Callable[..., T], *args: object, kind: Kind = "waiting") -> T:
        """Return what a call in a thread returns, however often the task is cancelled meanwhile."""
        loop = asyncio.get_running_loop()
        run = partial(copy_context().run, call, *args)
        # No task: a loop that comes to its end cancels all of those.
        ended: asyncio.Future[T] = loop.run_in_executor(_pool(kind, os.getpid()), run)
        while not ended.done():
            try:
                await asyncio.wait((ended,))
            except asyncio.CancelledError as exc:
                self._asked = exc
        return ended.result()

    def go_on(self) -> None:
        """Let the task end now, if somebody wants it to; once, as asyncio asks once."""
        asked, self._asked = self._asked, None
        if asked is not None:
            raise asked from None


async def to_the_end(call: Callable[..., T], *args: object, kind: Kind = "waiting") -> T:
    """Return what a call in a thread returns; a task that is cancelled meanwhile ends after it."""
    cancellation = Cancellation()
    try:
        return await cancellation.after(call, *args, kind=kind)
    finally:
        cancellation.go_on()


@lru_cache(maxsize=len(THREADS))
def _pool(kind: Kind, _process: int) -> ThreadPoolExecutor:
    """Return the threads of one kind; a forked child has none of its parent's."""
    return ThreadPoolExecutor(THREADS[kind], f"onceward-{kind}")
