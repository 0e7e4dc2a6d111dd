"""Long poll for feedback: requests wait until the feedback file has new entries.

Owns the notifier that watches the file and the loop that reads pages. Knows no route.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

from onceward.http import long_poll
from onceward.journal import RecordPage
from onceward.journal.directory_watch import WATCHED_SECONDS_MAX, DirectoryWatch
from onceward.system import Clock, SystemClock


class FeedbackNotifier(long_poll.Notifier):
    """Wakes waiting requests when a file may have changed.

    The file's directory is watched only while a request is waiting.
    """

    def __init__(self, path: Path, *, clock: Clock | None = None) -> None:
        """Watch nothing yet."""
        super().__init__()
        self._path = path
        self._clock = clock or SystemClock()

    def _poll(self, stop: threading.Event) -> None:
        watch = DirectoryWatch(self._path.parent, self._clock)
        names: set[str] | None = None  # Changes before the watch began are unknown.
        while not stop.is_set():
            # Notify after a quiet interval as well, because an event can be lost.
            if not names or self._path.name in names:
                self.notify()
            names = watch.wait(WATCHED_SECONDS_MAX, stop)


async def wait_for_page(
    read: Callable[[str, str | None], Awaitable[RecordPage]],
    page: RecordPage,
    *,
    seconds: float,
    notifier: FeedbackNotifier,
    clock: Clock,
) -> RecordPage:
    """Return the first page that has entries, or an empty one after `seconds`.

    Args:
        read: Reads a page after a cursor, given the cursor and its tag.
        page: The last page that was read, which is empty.
        seconds: How long to wait.
        notifier: Wakes this request when the file may have changed.
        clock: The clock for the deadline.

    """
    deadline = clock.monotonic() + seconds
    with notifier.subscribe() as waiter:
        while True:
            before = page.next_cursor
            page = await read(page.next_cursor, page.tag)
            left = deadline - clock.monotonic()
            if page.items or left <= 0 or notifier.closed:
                return page
            if page.next_cursor == before:
                await waiter.wait(left)
