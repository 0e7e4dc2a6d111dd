"""Change feed: numbered notifications of changed areas, which open pages can resume.

An event names the areas that changed, never the data: pages load it again. Areas are checked only
while a page listens, for at most a twentieth of the time.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from onceward.console.throttled_loop import rest_after
from onceward.errors import OncewardError, StoreUnavailable
from onceward.http.long_poll import Notifier
from onceward.system import Clock, SystemClock, timestamp

#: Minimum interval between checks.
CHECK_SECONDS: Final = 0.5
REST_SECONDS_MAX: Final = 30.0
#: Maximum pause while the store is unavailable, to notice its return quickly.
REST_AWAY_SECONDS: Final = 1.0
#: Interval at which all areas are announced as changed.
ALL_SECONDS: Final = 30.0
#: Number of events kept; a page that missed more reloads everything.
KEPT_MAX: Final = 1_000
#: Returns a fingerprint of an area's data.
Detector = Callable[[], object]
_AWAY: Final = "away"


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeEvent:
    """Areas that changed, under one number."""

    number: int
    areas: tuple[str, ...]
    #: When the change was detected.
    as_of: str


class MissedChanges(NamedTuple):
    """The events after a number."""

    events: tuple[ChangeEvent, ...]
    #: The number to resume after.
    number: int
    #: Whether the missed events are unknown, so that the page must load everything again.
    is_reset: bool


class ChangeFeed(Notifier):
    """The change events of one console."""

    def __init__(
        self, detectors: Mapping[str, Detector], *, first: int = 1, clock: Clock | None = None
    ) -> None:
        """Watch these areas. Events are numbered from `first`, which no earlier server has used."""
        super().__init__()
        self._detectors = detectors
        self._clock = clock or SystemClock()
        self._first = self._next = first
        self._events: deque[ChangeEvent] = deque(maxlen=KEPT_MAX)
        self._mutex = threading.Lock()
        #: One check at a time, by the background thread or a polling request.
        self._check_lock = threading.Lock()
        self._seen: dict[str, object] = {}
        #: When areas were checked last, and when all of them were announced last.
        self._checked_at = -math.inf
        self._announced_all = self._clock.monotonic()
        #: When the store last answered, while it is unavailable; else None.
        self._available_at: str | None = None

    def since(self, number: int | None) -> MissedChanges:
        """Return the events after a number; None starts with the next event."""
        with self._mutex:
            last = self._next - 1
            oldest = self._events[0].number if self._events else self._next
            if number is None:
                return MissedChanges((), last, is_reset=False)
            if not oldest - 1 <= number <= last:
                return MissedChanges((), last, is_reset=True)
            missed = tuple(each for each in self._events if each.number > number)
            return MissedChanges(missed, last, is_reset=False)

    def check(self) -> None:
        """Check every area once, and announce those that changed."""
        with self._check_lock:
            self._check()

    def check_if_stale(self) -> None:
        """Check, unless another check is running or just ended."""
        is_new = self._clock.monotonic() - self._checked_at >= CHECK_SECONDS
        if is_new and self._check_lock.acquire(blocking=False):
            try:
                self._check()
            finally:
                self._check_lock.release()

    @property
    def as_of(self) -> str:
        """Return the time of the data: now, or the store's last answer while it is unavailable."""
        return timestamp(self._clock.now()) if self._available_at is None else self._available_at

    def _check(self) -> None:
        away: str | None = None
        changed = []
        for area, check in self._detectors.items():
            found = away or self._fingerprint(check)
            # A store that is unavailable is so for every area; each check would time out.
            away = away or (found if found == _AWAY else None)
            if self._is_new(area, found):
                changed.append(area)
        now = self._clock.monotonic()
        if away is None:
            self._available_at = None
            if now - self._announced_all >= ALL_SECONDS and self._seen:
                # Also announces changes that no detector can see.
                self._announced_all, changed = now, list(self._detectors)
        elif self._available_at is None:
            self._available_at = timestamp(self._clock.now())
        self._checked_at = now
        if changed:
            self.announce(changed)

    def announce(self, areas: list[str]) -> None:
        """Announce that these areas have changed."""
        with self._mutex:
            as_of = timestamp(self._clock.now())
            self._events.append(ChangeEvent(number=self._next, areas=tuple(areas), as_of=as_of))
            self._next += 1
        self.notify()

    def _fingerprint(self, check: Detector) -> object:
        try:
            return check()
        except StoreUnavailable:
            return _AWAY
        except OncewardError as exc:
            return exc.code  # An area that becomes unreadable is announced once.

    def _is_new(self, area: str, found: object) -> bool:
        is_known = area in self._seen
        is_new = is_known and self._seen[area] != found
        self._seen[area] = found
        return is_new

    def _poll(self, stop: threading.Event) -> None:
        # A change while no page listened is announced to the page that resumes.
        while not stop.is_set() and not self.closed:
            began = self._clock.monotonic()
            self.check()
            took = self._clock.monotonic() - began
            most = REST_SECONDS_MAX if self._available_at is None else REST_AWAY_SECONDS
            stop.wait(min(rest_after(took, CHECK_SECONDS), most))
