"""Handling: calls a handler with its messages, here or in an event loop of this thread's own.

Each thread has a loop: a handler that waits for SQLite's write lock must not stop the one that
holds it.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable
from typing import Any, Final

from onceward.cursors import Lease
from onceward.stores import Transaction
from onceward.workers.models import Consumer, Message


class Reject(Exception):
    """Raised by a handler to give a message up at once: it becomes a dead letter."""


class HandlerFailed(Exception):
    """Carries what a handler raised past everything that has errors of its own."""

    def __init__(self, error: BaseException) -> None:
        """Keep it."""
        super().__init__(error)
        #: What it was.
        self.error = error


class NotRecorded(Exception):
    """A message failed, and the store refused what there is to say about it."""

    def __init__(self, position: str, error: BaseException) -> None:
        """Name the message and the refusal."""
        super().__init__(f"{position}: {type(error).__name__}: {error}")


class _Loops(threading.local):
    """The event loop of each thread that has handled something `async`."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()


_loops: Final = _Loops()


def handle(
    consumer: Consumer, lease: Lease, messages: list[Message], tx: Transaction | None
) -> None:
    """Call the handler, and await what it returns if that can be; what it raises comes back."""
    what = messages if consumer.batch is not None else messages[0]
    named = {"tx": tx} if consumer.takes_tx else {}
    # The result tells, not the function: a decorator or an object may hide that it is `async`.
    result = consumer.handler(what, **named)
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        message = f"the handler of {consumer.name} is a generator, of which nothing was run"
        raise TypeError(message)
    if not inspect.isawaitable(result):
        return
    calling = _held(lease, consumer.heartbeat_seconds, result)
    # In a copy of this context, where the open transaction is known.
    stop = _loops.runner.run(calling, context=contextvars.copy_context())
    if stop is not None:
        raise stop


def close_loop() -> None:
    """Close the loop of this thread, at its end."""
    _loops.runner.close()


async def _held(lease: Lease, seconds: float, calling: Awaitable[Any]) -> BaseException | None:
    """Await the handler, and cancel it when the lease is lost; return what would end the loop."""
    try:
        with lease.hold(seconds):
            await calling
    except (KeyboardInterrupt, SystemExit) as exc:
        return exc
    finally:
        if inspect.iscoroutine(calling):
            calling.close()
    return None
