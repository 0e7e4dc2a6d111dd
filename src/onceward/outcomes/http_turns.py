"""Turns: requests whose transactions write to one SQLite file, one after the other.

A transaction stays open until its request is answered, which needs the event loop. Whoever blocked
the loop to wait for the file would wait for ever, so requests queue here, where a handler in a
thread can wait as well as one on the loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock
from typing import Final
from weakref import WeakKeyDictionary

from onceward.errors import StoreBusy
from onceward.outcomes.steps import turns_of

#: How long a request waits for its turn.
TURN_SECONDS_MAX: Final = 10.0
_BUSY: Final = "another request has its transaction open"


class Line:
    """Those who wait, in the order in which they came."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self._mutex = Lock()
        self._waiting: deque[Future[None]] = deque()
        self._is_taken = False

    def join(self) -> Future[None]:
        """Return a place in the line; done when it is its turn."""
        place: Future[None] = Future()
        with self._mutex:
            if self._is_taken:
                self._waiting.append(place)
                return place
            self._is_taken = True
        place.set_running_or_notify_cancel()
        place.set_result(None)
        return place

    def give_up(self, place: Future[None]) -> None:
        """Leave before it was our turn, or when it has just become so."""
        if not place.cancel():
            self.leave()

    def leave(self) -> None:
        """Let the next one in."""
        with self._mutex:
            while self._waiting:
                place = self._waiting.popleft()
                if place.set_running_or_notify_cancel():
                    break
            else:
                self._is_taken = False
                return
        place.set_result(None)


class Turn:
    """The turn of one request."""

    def __init__(self, store: object) -> None:
        """Wait before this store; nothing is taken yet."""
        self._store = store
        self._line = _line_of(store)
        self._held: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    def wait(self) -> None:
        """Wait in a thread; on the event loop, where nobody may wait, only take what is free."""
        place = self._line.join()
        try:
            place.result(timeout=0 if _is_on_loop() else TURN_SECONDS_MAX)
        except TimeoutError:
            self._line.give_up(place)
            fix = "try again; in an `async def` handler, open it with `async with`"
            raise StoreBusy(_BUSY, fix=fix) from None

    async def wait_async(self) -> None:
        """Wait on the event loop, for functions with @once there too."""
        lock = turns_of(self._store).here()
        try:
            async with asyncio.timeout(TURN_SECONDS_MAX):
                await lock.acquire()
                try:
                    await self._wait_in_line()
                except BaseException:
                    lock.release()
                    raise
        except TimeoutError:
            raise StoreBusy(_BUSY) from None
        self._held = (asyncio.get_running_loop(), lock)

    async def _wait_in_line(self) -> None:
        place = self._line.join()
        try:
            await asyncio.wrap_future(place)
        except BaseException:
            self._line.give_up(place)
            raise

    def leave(self) -> None:
        """Let the next one in, from whatever thread."""
        self._line.leave()
        if self._held is not None:
            loop, lock = self._held
            with suppress(RuntimeError):  # The loop is closed, so nobody waits on it.
                loop.call_soon_threadsafe(lock.release)


def _is_on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


_lines: Final[WeakKeyDictionary[object, Line]] = WeakKeyDictionary()
_mutex: Final = Lock()


def _line_of(store: object) -> Line:
    with _mutex:
        return _lines.setdefault(store, Line())
