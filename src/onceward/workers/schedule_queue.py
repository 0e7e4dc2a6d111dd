"""Schedule queue: hand the cursors of a process to its threads in order of their due times.

Threads take a cursor that is due, work on it, and put it back with its next time.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from typing import Final

from onceward.system import Clock
from onceward.workers.cursor_reader import CursorReader

#: Longest sleep of a waiting thread before it checks the time again.
SLEEP_SECONDS_MAX: Final = 1.0
#: Stale heap entries that are tolerated, besides one for each cursor.
STALE_ENTRIES_MAX: Final = 64


class _ScheduledCursor:
    """One cursor's reader and when it is due."""

    __slots__ = ("due", "is_taken", "is_woken", "number", "reader")

    def __init__(self, reader: CursorReader, due: float) -> None:
        self.reader = reader
        self.due = due
        self.is_taken = False
        self.is_woken = False
        #: The heap entry that is current; entries with other numbers are stale.
        self.number = 0


class ScheduleQueue:
    """The cursors of one process, ordered by due time. Safe to use from several threads."""

    def __init__(self, clock: Clock) -> None:
        """Start empty."""
        self._clock = clock
        self._changed = threading.Condition()
        self._cursors: dict[str, _ScheduledCursor] = {}
        self._queue: list[tuple[float, int, str]] = []
        self._numbers = itertools.count(1)
        self._is_closed = False
        self._taken = 0
        #: How often a cursor was taken.
        self.take_count = 0

    def __contains__(self, name: str) -> bool:
        return name in self._cursors

    def get(self, name: str) -> CursorReader | None:
        """Return the reader of a cursor, if it is known."""
        cursor = self._cursors.get(name)
        return None if cursor is None else cursor.reader

    def add(self, reader: CursorReader) -> None:
        """Schedule a new cursor; it is due now."""
        with self._changed:
            cursor = self._cursors[reader.name] = _ScheduledCursor(reader, self._clock.monotonic())
            self._push(cursor)

    def take(self) -> CursorReader | None:
        """Wait for a due cursor and take it exclusively; return None once the queue is closed."""
        with self._changed:
            while not self._is_closed:
                now = self._clock.monotonic()
                cursor = self._next_due()
                if cursor is not None and cursor.due <= now:
                    heapq.heappop(self._queue)
                    cursor.is_taken, cursor.is_woken = True, False
                    self._taken += 1
                    self.take_count += 1
                    return cursor.reader
                left = SLEEP_SECONDS_MAX if cursor is None else cursor.due - now
                self._changed.wait(min(left, SLEEP_SECONDS_MAX))
            return None

    def put_back(self, reader: CursorReader, seconds: float) -> None:
        """Return a taken cursor: due after `seconds`, or now if it was woken since it was taken."""
        with self._changed:
            cursor = self._cursors[reader.name]
            cursor.is_taken = False
            self._taken -= 1
            cursor.due = self._clock.monotonic() + (0.0 if cursor.is_woken else seconds)
            self._push(cursor)

    def wake(self, name: str) -> None:
        """Make a cursor due now."""
        with self._changed:
            cursor = self._cursors.get(name)
            if cursor is None:
                return
            cursor.is_woken = True
            now = self._clock.monotonic()
            if not cursor.is_taken and cursor.due > now:
                cursor.due = now
                self._push(cursor)

    def is_woken(self, name: str) -> bool:
        """Return whether a cursor was woken since it was taken."""
        with self._changed:
            cursor = self._cursors.get(name)
            return cursor is not None and cursor.is_woken

    def is_idle(self) -> bool:
        """Return whether no cursor is taken and none is due."""
        with self._changed:
            first = self._next_due()
            return not self._taken and (first is None or first.due > self._clock.monotonic())

    def readers(self) -> list[CursorReader]:
        """Return the readers of all cursors."""
        with self._changed:
            return [cursor.reader for cursor in self._cursors.values()]

    def close(self) -> None:
        """Let `take` return None from now on."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _push(self, cursor: _ScheduledCursor) -> None:
        cursor.number = next(self._numbers)
        heapq.heappush(self._queue, (cursor.due, cursor.number, cursor.reader.name))
        if len(self._queue) > 2 * len(self._cursors) + STALE_ENTRIES_MAX:
            self._queue = [
                (each.due, each.number, each.reader.name)
                for each in self._cursors.values()
                if not each.is_taken
            ]
            heapq.heapify(self._queue)
        self._changed.notify()

    def _next_due(self) -> _ScheduledCursor | None:
        """Return the cursor that is due first, after removing stale entries."""
        while self._queue:
            _, number, name = self._queue[0]
            cursor = self._cursors[name]
            if cursor.number == number and not cursor.is_taken:
                return cursor
            heapq.heappop(self._queue)
        return None
