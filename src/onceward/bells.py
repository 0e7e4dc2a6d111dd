"""Bells: let requests wait for news without holding a thread each.

A ring is a hint: whoever hears it looks again. Knows neither what the news is nor any route.
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
#: The longest that a request may wait.
WAIT_SECONDS_MAX: Final = 60


class Listener:
    """One task that waits for the bell; belongs to the event loop that made it."""

    def __init__(self, topic: str) -> None:
        """Hear what rings from now on."""
        #: What it waits for news of; empty is everything.
        self.topic = topic
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Return when it rang since the last time, or after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        except TimeoutError:
            return
        self._rung.clear()

    def ring(self) -> None:
        """Wake the task, from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._rung.set)
        except RuntimeError:
            return  # The loop is closed, so nobody waits there any more.


class Bell(ABC):
    """Rings for who waits, as whoever brings news tells it to.

    A thread looks for news that nobody tells of while somebody waits, and only then.
    """

    def __init__(self) -> None:
        """Look for nothing yet."""
        self._lock = threading.Lock()
        self._listeners: set[Listener] = set()
        #: Ends the thread that looks now; None when there is none.
        self._stop: threading.Event | None = None
        self._closed = False

    @property
    def closed(self) -> bool:
        """Say whether waiting is over for everybody."""
        return self._closed

    def topics(self) -> set[str]:
        """Return what somebody waits for news of."""
        with self._lock:
            return {each.topic for each in self._listeners}

    def ring(self, topic: str = "") -> None:
        """Wake who waits for news of this, or everybody; from any thread."""
        with self._lock:
            listeners = [each for each in self._listeners if not topic or each.topic == topic]
        for each in listeners:
            each.ring()

    def close(self) -> None:
        """Wake everybody for good: the server is about to stop and should not wait for them."""
        self._closed = True
        self.ring()

    @contextmanager
    def listening(self, topic: str = "") -> Iterator[Listener]:
        """Hear every ring from here on; look for news after this, so that none is missed."""
        listener = Listener(topic)
        with self._lock:
            self._listeners.add(listener)
            if self._stop is None:
                self._stop = threading.Event()
                arguments = (self._stop,)
                threading.Thread(
                    target=self._watch, args=arguments, name="bell", daemon=True
                ).start()
        try:
            yield listener
        finally:
            with self._lock:
                self._listeners.discard(listener)
                if not self._listeners and self._stop is not None:
                    self._stop.set()
                    self._stop = None

    @abstractmethod
    def _watch(self, stop: threading.Event) -> None:
        """Ring at news until it is told to stop."""


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T | None:
    """Return what comes of the work, or None when the client hangs up before; then it is ended."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        gone.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
