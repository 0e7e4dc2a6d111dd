"""Waiting: lets readers of the feedback file wait for news without holding a thread each.

Owns the bell, which rings when the file may have changed, whoever changed it, and the long poll.
A ring is a hint: whoever hears it looks again. Knows no route.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from starlette.types import Receive

from onceward.journal import Page
from onceward.journal.watch import WATCHED_SECONDS_MAX, Watch
from onceward.seams import Clock, SystemClock

T = TypeVar("T")
#: The longest that a poll may wait.
WAIT_SECONDS_MAX: Final = 60


class Listener:
    """One task that waits for the bell; belongs to the event loop that made it."""

    def __init__(self) -> None:
        """Hear what rings from now on."""
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


class Bell:
    """Rings for everybody who waits when a file may have changed.

    A thread watches the file's directory while somebody waits, and only then.
    """

    def __init__(self, path: Path, *, clock: Clock | None = None) -> None:
        """Watch nothing yet."""
        self._path = path
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._listeners: set[Listener] = set()
        #: Ends the thread that watches now; None when there is none.
        self._stop: threading.Event | None = None
        self._closed = False

    @property
    def closed(self) -> bool:
        """Say whether waiting is over for everybody."""
        return self._closed

    def ring(self) -> None:
        """Wake everybody who waits, from any thread."""
        with self._lock:
            listeners = tuple(self._listeners)
        for each in listeners:
            each.ring()

    def close(self) -> None:
        """Wake everybody for good: the server is about to stop and should not wait for them."""
        self._closed = True
        self.ring()

    @contextmanager
    def listening(self) -> Iterator[Listener]:
        """Hear every ring from here on; look at the file after this, so that none is missed."""
        listener = Listener()
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

    def _watch(self, stop: threading.Event) -> None:
        watch = Watch(self._path.parent, self._clock)
        names: set[str] | None = None  # What changed before the watch began, nobody told us.
        while not stop.is_set():
            # Nothing changed for a while: let them look anyway, for an event can be lost.
            if not names or self._path.name in names:
                self.ring()
            names = watch.wait(WATCHED_SECONDS_MAX, stop)


async def wait_for_page(
    read: Callable[[str, str | None], Awaitable[Page]],
    page: Page,
    *,
    seconds: float,
    bell: Bell,
    clock: Clock,
) -> Page:
    """Return the first page with something on it, or after `seconds` the furthest empty one.

    Args:
        read: Reads behind a cursor, given the cursor and its tag.
        page: The empty page that was read last.
        seconds: How long to wait.
        bell: Tells when to look again.
        clock: Tells when to stop.

    """
    deadline = clock.monotonic() + seconds
    with bell.listening() as listener:
        while True:
            before = page.next_cursor
            page = await read(page.next_cursor, page.tag)
            left = deadline - clock.monotonic()
            if page.items or left <= 0 or bell.closed:
                return page
            if page.next_cursor == before:
                await listener.wait(left)


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
