"""Heartbeat: keeps the claims of this process alive while their functions run.

One thread for all of them. A claim that turns out to be lost is noted and renewed no more; its
holder learns it at the end, where the store refuses it.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Final, Self

from onceward.errors import FenceLost
from onceward.outcomes.claims import Claims
from onceward.outcomes.models import Fence
from onceward.seams import Clock, SystemClock

#: A claim is renewed when a third of its lease has passed, so two renewals may fail.
BEATS_PER_LEASE: Final = 3
_log: Final = logging.getLogger("onceward.outcomes")
#: Nobody is at work: look again this late, or when woken.
IDLE_SECONDS: Final = 3600.0


class Kept:
    """One claim that is kept alive until the block ends; its lease runs out unless settled."""

    def __init__(
        self, heart: Heartbeat, claims: Claims, fence: Fence, lease_seconds: float
    ) -> None:
        """Begin at once; a block only ends it."""
        self._heart = heart
        self.claims = claims
        self.fence = fence
        self.lease_seconds = lease_seconds
        #: When to renew it, by the heart's clock.
        self.due = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._heart.drop(self)


class Heartbeat:
    """The claims that this process keeps alive."""

    def __init__(self, clock: Clock | None = None) -> None:
        """Beat by this clock."""
        self._clock = clock or SystemClock()
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget everything, as a forked child must: the parent's claims are not its own."""
        self._kept: set[Kept] = set()
        self._mutex = threading.Lock()
        self._changed = threading.Condition(self._mutex)
        self._thread: threading.Thread | None = None
        self._wakes_at = 0.0

    def keep(self, claims: Claims, fence: Fence, lease_seconds: float) -> Kept:
        """Keep a claim alive from now on."""
        kept = Kept(self, claims, fence, lease_seconds)
        due = kept.due = self._clock.monotonic() + lease_seconds / BEATS_PER_LEASE
        with self._mutex:
            self._kept.add(kept)
            if self._thread is None:
                try:
                    self._start()
                except BaseException:  # There may be no more threads now, and later again.
                    self._thread = None
                    self._kept.discard(kept)
                    raise
            elif due < self._wakes_at:
                self._changed.notify()
        return kept

    def drop(self, kept: Kept) -> None:
        """Keep it no longer."""
        with self._mutex:
            self._kept.discard(kept)

    def beat(self) -> None:
        """Renew every claim that is due."""
        now = self._clock.monotonic()
        with self._changed:
            due = [kept for kept in self._kept if kept.due <= now]
        for kept in due:
            self._renew(kept)

    def _renew(self, kept: Kept) -> None:
        try:
            kept.claims.renew(kept.fence, lease_seconds=kept.lease_seconds)
        except FenceLost:
            # Finished a moment ago, or lost: either way there is nothing to keep.
            with self._changed:
                self._kept.discard(kept)
        except Exception:  # noqa: BLE001 - see below
            # The store may be back at the next beat, and two in three may fail. Whatever it was,
            # this thread goes on: the others depend on it.
            _log.warning("a claim was not renewed", exc_info=True)
        kept.due = self._clock.monotonic() + kept.lease_seconds / BEATS_PER_LEASE

    def _start(self) -> None:
        self._wakes_at = 0.0
        self._thread = threading.Thread(
            target=self._run, name="onceward-outcomes-heartbeat", daemon=True
        )
        self._thread.start()

    def _run(self) -> None:
        try:
            while True:
                self.beat()
                with self._changed:
                    now = self._clock.monotonic()
                    dues = (each.due for each in self._kept)
                    self._wakes_at = min(dues, default=now + IDLE_SECONDS)
                    self._changed.wait(max(0.0, self._wakes_at - now))
        finally:
            self._thread = None  # The next claim starts another one.


HEARTBEAT: Final = Heartbeat()
os.register_at_fork(after_in_child=HEARTBEAT.begin_anew)
