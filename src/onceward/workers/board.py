"""Board: which cursors a process knows, and when each is to be looked at next.

Threads take what is due and put it back with a time. Knows nothing of what they do with it.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from typing import Final

from onceward.seams import Clock
from onceward.workers.reader import Reader

#: Nobody sleeps longer than this before looking whether the time has come.
SLEEP_SECONDS_MAX: Final = 1.0
#: Entries of the queue that do not count any more, beside one for each cursor.
LEFT_BEHIND_MAX: Final = 64


class _Place:
    """Where one reader stands."""

    __slots__ = ("due", "is_out", "is_woken", "number", "reader")

    def __init__(self, reader: Reader, due: float) -> None:
        self.reader = reader
        self.due = due
        self.is_out = False
        self.is_woken = False
        #: Which entry of the queue counts; earlier ones are left behind.
        self.number = 0


class Board:
    """The cursors of one process."""

    def __init__(self, clock: Clock) -> None:
        """Know none."""
        self._clock = clock
        self._changed = threading.Condition()
        self._places: dict[str, _Place] = {}
        self._queue: list[tuple[float, int, str]] = []
        self._numbers = itertools.count(1)
        self._is_closed = False
        self._out = 0
        #: How often any was taken.
        self.taken = 0

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def get(self, name: str) -> Reader | None:
        """Return who reads a cursor, if it is known."""
        place = self._places.get(name)
        return None if place is None else place.reader

    def add(self, reader: Reader) -> None:
        """Look at a cursor from now on."""
        with self._changed:
            place = self._places[reader.name] = _Place(reader, self._clock.monotonic())
            self._push(place)

    def take(self) -> Reader | None:
        """Wait for a cursor that is due, and have it alone; None once the board is closed."""
        with self._changed:
            while not self._is_closed:
                now = self._clock.monotonic()
                place = self._first()
                if place is not None and place.due <= now:
                    heapq.heappop(self._queue)
                    place.is_out, place.is_woken = True, False
                    self._out += 1
                    self.taken += 1
                    return place.reader
                left = SLEEP_SECONDS_MAX if place is None else place.due - now
                self._changed.wait(min(left, SLEEP_SECONDS_MAX))
            return None

    def put_back(self, reader: Reader, seconds: float) -> None:
        """Look at it again so much later, or at once if it was woken meanwhile."""
        with self._changed:
            place = self._places[reader.name]
            place.is_out = False
            self._out -= 1
            place.due = self._clock.monotonic() + (0.0 if place.is_woken else seconds)
            self._push(place)

    def wake(self, name: str) -> None:
        """Look at a cursor now."""
        with self._changed:
            place = self._places.get(name)
            if place is None:
                return
            place.is_woken = True
            now = self._clock.monotonic()
            if not place.is_out and place.due > now:
                place.due = now
                self._push(place)

    def is_woken(self, name: str) -> bool:
        """Say whether a cursor was woken since it was taken."""
        with self._changed:
            place = self._places.get(name)
            return place is not None and place.is_woken

    def is_quiet(self) -> bool:
        """Say whether nobody works and nothing is due."""
        with self._changed:
            first = self._first()
            return not self._out and (first is None or first.due > self._clock.monotonic())

    def readers(self) -> list[Reader]:
        """Return all of them."""
        with self._changed:
            return [place.reader for place in self._places.values()]

    def close(self) -> None:
        """Give out no more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _push(self, place: _Place) -> None:
        place.number = next(self._numbers)
        heapq.heappush(self._queue, (place.due, place.number, place.reader.name))
        if len(self._queue) > 2 * len(self._places) + LEFT_BEHIND_MAX:
            self._queue = [
                (each.due, each.number, each.reader.name)
                for each in self._places.values()
                if not each.is_out
            ]
            heapq.heapify(self._queue)
        self._changed.notify()

    def _first(self) -> _Place | None:
        """Return what is due first, past entries that do not count any more."""
        while self._queue:
            _, number, name = self._queue[0]
            place = self._places[name]
            if place.number == number and not place.is_out:
                return place
            heapq.heappop(self._queue)
        return None
