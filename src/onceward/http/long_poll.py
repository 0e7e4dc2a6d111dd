"""Long polling: async requests wait for a change without holding a thread.

A notification is only a hint. Waiters re-read the data they are waiting for, so a spurious or
merged notification is harmless and a missed one costs at most one polling interval.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from starlette.types import Receive

T = TypeVar("T")
#: Upper bound for the `wait` parameter of a request, in seconds.
WAIT_SECONDS_MAX: Final = 60


class Waiter:
    """One request that waits for a change, bound to the event loop that created it."""

    def __init__(self, topic: str) -> None:
        """Wait for changes of `topic`; an empty topic is every change."""
        self.topic = topic
        self._loop = asyncio.get_running_loop()
        self._notified = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Return after the next notification, or after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._notified.wait()
        except TimeoutError:
            return
        self._notified.clear()

    def notify(self) -> None:
        """Wake the request. Safe to call from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._notified.set)
        except RuntimeError:
            return  # The event loop is closed, so the request has ended.


class Notifier(ABC):
    """Wakes waiting requests when data changes.

    Writers in this process call `notify`. For changes made by other processes a background thread
    polls, but only while at least one request is waiting.
    """

    def __init__(self) -> None:
        """Start without waiters and without a polling thread."""
        self._lock = threading.Lock()
        self._waiters: set[Waiter] = set()
        #: Stops the polling thread; None while there is none.
        self._stop: threading.Event | None = None
        self._closed = False

    @property
    def closed(self) -> bool:
        """Return whether `close` was called."""
        return self._closed

    def topics(self) -> set[str]:
        """Return the topics that have at least one waiter."""
        with self._lock:
            return {each.topic for each in self._waiters}

    def notify(self, topic: str = "") -> None:
        """Wake the waiters of one topic, or all of them. Safe to call from any thread."""
        with self._lock:
            waiters = [each for each in self._waiters if not topic or each.topic == topic]
        for each in waiters:
            each.notify()

    def close(self) -> None:
        """Wake all waiters permanently, so that a stopping server does not wait for them."""
        self._closed = True
        self.notify()

    @contextmanager
    def subscribe(self, topic: str = "") -> Iterator[Waiter]:
        """Register a waiter. Read the data *after* entering this block, or a change is missed."""
        waiter = Waiter(topic)
        with self._lock:
            self._waiters.add(waiter)
            if self._stop is None:
                self._stop = threading.Event()
                arguments = (self._stop,)
                threading.Thread(
                    target=self._poll, args=arguments, name="long-poll", daemon=True
                ).start()
        try:
            yield waiter
        finally:
            with self._lock:
                self._waiters.discard(waiter)
                if not self._waiters and self._stop is not None:
                    self._stop.set()
                    self._stop = None

    @abstractmethod
    def _poll(self, stop: threading.Event) -> None:
        """Call `notify` on external changes until `stop` is set."""


async def cancel_on_disconnect(receive: Receive, work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of `work`, or cancel it and return None if the client disconnects first."""
    working = asyncio.ensure_future(work)
    disconnected = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({working, disconnected}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        disconnected.cancel()
        await asyncio.gather(working, disconnected, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
