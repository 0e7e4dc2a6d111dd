"""Waiting: lets readers of the feedback file wait for news without holding a thread each.

Owns the bell that rings when the file may have changed, whoever changed it, and the long poll.
Knows no route.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

from onceward import bells
from onceward.journal import Page
from onceward.journal.watch import WATCHED_SECONDS_MAX, Watch
from onceward.seams import Clock, SystemClock


class Bell(bells.Bell):
    """Rings for everybody who waits when a file may have changed.

    While somebody waits, the file's directory is watched.
    """

    def __init__(self, path: Path, *, clock: Clock | None = None) -> None:
        """Watch nothing yet."""
        super().__init__()
        self._path = path
        self._clock = clock or SystemClock()

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
