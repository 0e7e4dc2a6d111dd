"""Handling: calls a handler with its messages, here or in an event loop of this thread's own.

Each thread has a loop: a handler that waits for SQLite's write lock must not stop the one that
holds it.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Coroutine
from typing import Any, Final

from onceward.cursors import Lease
from onceward.stores import Transaction
from onceward.workers.models import Consumer, Message


class Reject(Exception):
    """Raised by a handler to give a message up at once: it becomes a dead letter."""


class _Loops(threading.local):
    """The event loop of each thread that has handled something `async`."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()


_loops: Final = _Loops()


def handle(
    consumer: Consumer, lease: Lease, messages: list[Message], tx: Transaction | None
) -> None:
    """Call the handler; what it raises comes back."""
    what = messages if consumer.batch is not None else messages[0]
    named = {"tx": tx} if consumer.takes_tx else {}
    if not consumer.is_async:
        consumer.handler(what, **named)
        return
    calling = _held(lease, consumer.heartbeat_seconds, consumer.handler(what, **named))
    # In a copy of this context, where the open transaction is known.
    _loops.runner.run(calling, context=contextvars.copy_context())


def close_loop() -> None:
    """Close the loop of this thread, at its end."""
    _loops.runner.close()


async def _held(lease: Lease, seconds: float, calling: Coroutine[Any, Any, object]) -> None:
    """Await the handler, and cancel it when the lease is lost."""
    try:
        with lease.hold(seconds):
            await calling
    finally:
        calling.close()
