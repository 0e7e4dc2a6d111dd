"""Handler calls: call a sync or async handler with its messages.

Each worker thread has its own event loop. In a shared one, a handler that waits for SQLite's write
lock would block the handler that holds it.
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
    """Raised by a handler to make its message a dead letter without further attempts."""


class HandlerFailed(Exception):
    """Wraps an exception of a handler, to tell it from errors of the store or the lease."""

    def __init__(self, error: BaseException) -> None:
        """Wrap this exception."""
        super().__init__(error)
        #: What the handler raised.
        self.error = error


class NotRecorded(Exception):
    """A message failed, and its failure could not be written to the store."""

    def __init__(self, position: str, error: BaseException) -> None:
        """Name the message and the error of the store."""
        super().__init__(f"{position}: {type(error).__name__}: {error}")


class _ThreadLoops(threading.local):
    """The event loop of each thread that has called an `async` handler."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()


_loops: Final = _ThreadLoops()


def handle(
    consumer: Consumer, lease: Lease, messages: list[Message], tx: Transaction | None
) -> None:
    """Call the handler and await its result if it is awaitable; its exceptions propagate."""
    what = messages if consumer.batch is not None else messages[0]
    named = {"tx": tx} if consumer.takes_tx else {}
    # Check the result, not the function: a decorator or an object may hide that it is `async`.
    result = consumer.handler(what, **named)
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        message = f"the handler of {consumer.name} is a generator; none of its code was run"
        raise TypeError(message)
    if not inspect.isawaitable(result):
        return
    calling = _await_handler(lease, consumer.heartbeat_seconds, result)
    # A copy of this context, so that the handler sees the open transaction.
    stop = _loops.runner.run(calling, context=contextvars.copy_context())
    if stop is not None:
        raise stop


def close_loop() -> None:
    """Close the event loop of this thread."""
    _loops.runner.close()


async def _await_handler(
    lease: Lease, seconds: float, calling: Awaitable[Any]
) -> BaseException | None:
    """Await the handler, cancelled if the lease is lost; return an exception that ends the loop."""
    try:
        with lease.hold(seconds):
            await calling
    except (KeyboardInterrupt, SystemExit) as exc:
        return exc
    finally:
        if inspect.iscoroutine(calling):
            calling.close()
    return None
