"""Pulse: tells open pages which parts of the house changed, by number, so that they can resume.

A page hears that something changed and asks for it; what changed is never in the event. Looks only
while somebody listens, and spends a twentieth of its time at most on looking.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from onceward.bells import Bell
from onceward.console.resting import rest_after
from onceward.errors import OncewardError, StoreUnavailable
from onceward.seams import Clock, SystemClock, timestamp

#: How often it looks at the most.
LOOK_SECONDS: Final = 0.5
REST_SECONDS_MAX: Final = 30.0
#: While the store is away, so that its return is seen soon.
REST_AWAY_SECONDS: Final = 1.0
#: So often everything is told to have changed, whatever was seen.
ALL_SECONDS: Final = 30.0
#: So many events can be resumed behind; who was away for longer asks for everything.
KEPT_MAX: Final = 1_000
#: Returns what is another when an area has changed.
Look = Callable[[], object]
_AWAY: Final = "away"


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Something changed."""

    number: int
    areas: tuple[str, ...]
    #: When that was seen.
    as_of: str


class News(NamedTuple):
    """What somebody has missed."""

    events: tuple[Event, ...]
    #: Where to go on from.
    number: int
    #: Whether nobody knows what was missed, so that everything must be asked for.
    is_reset: bool


class Pulse(Bell):
    """The events of one console."""

    def __init__(
        self, looks: Mapping[str, Look], *, first: int = 1, clock: Clock | None = None
    ) -> None:
        """Look at these areas; number events from `first` on, which no earlier server used."""
        super().__init__()
        self._looks = looks
        self._clock = clock or SystemClock()
        self._first = self._next = first
        self._events: deque[Event] = deque(maxlen=KEPT_MAX)
        self._mutex = threading.Lock()
        #: One look at a time: the thread's, and those of who polls.
        self._turn = threading.Lock()
        self._seen: dict[str, object] = {}
        #: When it looked last, and when it told of everything last.
        self._looked = -math.inf
        self._told_all = self._clock.monotonic()
        #: When the store was last seen, while it is away.
        self._good: str | None = None

    def since(self, number: int | None) -> News:
        """Return what came behind a number; None is the beginning, for who knows nothing yet."""
        with self._mutex:
            last = self._next - 1
            oldest = self._events[0].number if self._events else self._next
            if number is None:
                return News((), last, is_reset=False)
            if not oldest - 1 <= number <= last:
                return News((), last, is_reset=True)
            missed = tuple(each for each in self._events if each.number > number)
            return News(missed, last, is_reset=False)

    def look(self) -> None:
        """Look at every area once, and tell of those that changed."""
        with self._turn:
            self._look()

    def glance(self) -> None:
        """Look, unless somebody does so now or did a moment ago."""
        is_new = self._clock.monotonic() - self._looked >= LOOK_SECONDS
        if is_new and self._turn.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._turn.release()

    @property
    def as_of(self) -> str:
        """Return when what pages have been told was true: now, or when the store was last there."""
        return timestamp(self._clock.now()) if self._good is None else self._good

    def _look(self) -> None:
        away: str | None = None
        changed = []
        for area, look in self._looks.items():
            found = away or self._found(look)
            # What is away is away for every area; each would wait as long to find out.
            away = away or (found if found == _AWAY else None)
            if self._is_new(area, found):
                changed.append(area)
        now = self._clock.monotonic()
        if away is None:
            self._good = None
            if now - self._told_all >= ALL_SECONDS and self._seen:
                # What no look can see shows after a while, too.
                self._told_all, changed = now, list(self._looks)
        elif self._good is None:
            self._good = timestamp(self._clock.now())
        self._looked = now
        if changed:
            self.tell(changed)

    def tell(self, areas: list[str]) -> None:
        """Let everybody know that these have changed."""
        with self._mutex:
            as_of = timestamp(self._clock.now())
            self._events.append(Event(number=self._next, areas=tuple(areas), as_of=as_of))
            self._next += 1
        self.ring()

    def _found(self, look: Look) -> object:
        try:
            return look()
        except StoreUnavailable:
            return _AWAY
        except OncewardError as exc:
            return exc.code  # What cannot be looked at is news once.

    def _is_new(self, area: str, found: object) -> bool:
        is_known = area in self._seen
        is_new = is_known and self._seen[area] != found
        self._seen[area] = found
        return is_new

    def _watch(self, stop: threading.Event) -> None:
        # What changed while nobody listened is news to whoever resumes.
        while not stop.is_set() and not self.closed:
            began = self._clock.monotonic()
            self.look()
            took = self._clock.monotonic() - began
            most = REST_SECONDS_MAX if self._good is None else REST_AWAY_SECONDS
            stop.wait(min(rest_after(took, LOOK_SECONDS), most))
