"""Reader: one cursor as one process works through it, a turn at a time.

Owns the lease from turn to turn, and what is read ahead. A turn ends when there is nothing to do,
when its time is over, or when something outside is in the way; it always says when to come back.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

from onceward.cursors import Lease
from onceward.errors import (
    LeaseLost,
    OncewardError,
    OutcomeUnknown,
    StoreBusy,
    StoreUnavailable,
    VersionMismatch,
)
from onceward.handle import Onceward
from onceward.seams import Clock
from onceward.workers.models import TURN_SECONDS, Consumer
from onceward.workers.processing import Entry, Processing
from onceward.workers.reports import Reports
from onceward.workers.slots import Slots
from onceward.workers.source import Source

#: `more`: not done. `idle`: nothing is left. `waiting`: what is left waits for its next attempt.
#: `elsewhere`: another worker has it, or it is paused. `full`: no slot is free. `trouble`: see log.
State = Literal["more", "idle", "waiting", "elsewhere", "full", "trouble"]
#: While something outside is in the way: come back soon, then ever later.
TROUBLE_SECONDS_MIN: Final = 0.1
TROUBLE_SECONDS_MAX: Final = 5.0
#: Another version of the rules is at work: it will not change by the second.
VERSION_SECONDS: Final = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Turned:
    """What a turn came to."""

    #: Messages that are done with, one way or another.
    messages: int = 0
    #: When to come back at the latest; 0 when there is more to do.
    seconds: float = 0.0
    state: State = "more"


class Reader:
    """One cursor."""

    def __init__(  # noqa: PLR0913 - made in one place
        self,
        ow: Onceward,
        consumer: Consumer,
        partition: str | None,
        source: Source,
        *,
        clock: Clock,
        reports: Reports,
        is_stopping: Callable[[], bool],
    ) -> None:
        """Hold nothing yet."""
        self.consumer = consumer
        self.partition = partition
        self.name = consumer.cursor(partition)
        self.source = source
        self._ow = ow
        self._clock = clock
        self._reports = reports
        self._is_stopping = is_stopping
        self._slots = Slots(ow, consumer, partition)
        self._lease: Lease | None = None
        self._work: Processing | None = None
        self._page: list[Entry] = []
        self._trouble = 0

    def turn(self) -> Turned:
        """Work on the cursor for a while, if it can be had."""
        try:
            turned = self._turn()
        except LeaseLost as exc:
            return self._in_trouble("lease_lost", exc)
        except OutcomeUnknown as exc:
            # Whether it was committed is written where the cursor stands: ask anew.
            return self._in_trouble("commit_unknown", exc)
        except (StoreUnavailable, StoreBusy) as exc:
            return self._in_trouble("store_unavailable", exc)
        except VersionMismatch as exc:
            self._reports.trouble("version_mismatch", self.name, exc, VERSION_SECONDS)
            return Turned(seconds=VERSION_SECONDS, state="elsewhere")
        except Exception as exc:  # noqa: BLE001 - a source of the user's; the others must go on
            return self._in_trouble("source_failed", exc)
        self._trouble = 0
        return turned

    def release(self) -> None:
        """Give everything back, so that others need not wait."""
        lease, self._lease = self._lease, None
        self._work, self._page = None, []
        with suppress(OncewardError):
            self._slots.release()
        if lease is not None and not lease.lost.is_set():
            with suppress(OncewardError):
                lease.release()

    def _turn(self) -> Turned:
        if self._slots.are_limited and not self._slots.take():
            return Turned(seconds=self.consumer.poll_seconds, state="full")
        try:
            if not self._hold():
                return Turned(seconds=self.consumer.poll_seconds, state="elsewhere")
            turned = self._until_done()
        finally:
            self._slots.release()
        if self._slots.are_limited or (turned.state != "more" and self.partition is not None):
            self.release()
        return turned

    def _hold(self) -> bool:
        """Have the lease, from the last turn or anew."""
        if self._lease is not None:
            self._lease.check()
            return True
        consumer = self.consumer
        lease = self._ow.cursors.acquire(
            self.name,
            lease_seconds=consumer.lease_seconds,
            version=consumer.version,
            migrations=consumer.migrations,
        )
        if lease is None:
            return False
        self._lease = lease
        self._ow.cursors.heartbeat.add(lease, consumer.heartbeat_seconds)
        self._work = Processing(self._ow, consumer, self.partition, lease, self._reports)
        self._page = []
        self._reports.note(
            "lease_acquired", cursor=self.name, epoch=lease.epoch, position=lease.position
        )
        return True

    def _until_done(self) -> Turned:
        lease, work = self._lease, self._work
        assert lease is not None
        assert work is not None
        deadline = self._clock.monotonic() + TURN_SECONDS
        messages, wait = self._retry_parked(work)
        while not self._is_stopping():
            if not self._page:
                items = self.source.read(lease.position, self.consumer.page)
                if not items:
                    is_idle = wait == float("inf")
                    return self._nothing(messages, wait, "idle" if is_idle else "waiting")
                self._page = work.decoded(items)
            done, seconds = work.take(self._page)
            del self._page[:done]
            messages += done
            if seconds:
                return self._nothing(messages, min(wait, seconds), "waiting")
            if self._clock.monotonic() >= deadline:
                break
        return Turned(messages=messages)

    def _nothing(self, messages: int, wait: float, state: State) -> Turned:
        """Say that nothing can be done now; a poll may find more before the wait is over."""
        seconds = min(self.consumer.poll_seconds, wait)
        return Turned(messages=messages, seconds=seconds, state=state)

    def _retry_parked(self, work: Processing) -> tuple[int, float]:
        """Try what is parked and due: how many, and when the next will be."""
        parked, tried = self._ow.retries.parked, 0
        while not self._is_stopping():
            seconds = parked.next_seconds(self.name)
            if seconds is None:
                return tried, float("inf")
            due = parked.due_heads(self.name) if seconds <= 0 else []
            if not due:
                return tried, max(seconds, 0.001)
            for head in due:
                if self._is_stopping():
                    break
                work.retry(head)
                tried += 1
        return tried, 0.0

    def _in_trouble(self, action: str, error: BaseException) -> Turned:
        """Let go, tell, and come back later."""
        self._trouble += 1
        seconds = min(TROUBLE_SECONDS_MIN * 2 ** min(self._trouble, 10), TROUBLE_SECONDS_MAX)
        self._reports.trouble(action, self.name, error, seconds)
        self.release()
        return Turned(seconds=seconds, state="trouble")
