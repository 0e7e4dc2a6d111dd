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
    CursorMissing,
    LeaseLost,
    OncewardError,
    OutcomeUnknown,
    SourceRefused,
    StoreBusy,
    StoreUnavailable,
    VersionMismatch,
)
from onceward.handle import Onceward
from onceward.seams import Clock
from onceward.workers.decoding import Entry
from onceward.workers.handling import NotRecorded
from onceward.workers.models import TURN_SECONDS, Consumer
from onceward.workers.processing import Processing
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
#: A message could not be noted as failed, and would only run again.
NOT_RECORDED_SECONDS: Final = 30.0
#: A partition that waits is not taken before, but for moves by hand it is looked at this often.
WAIT_SECONDS_MAX: Final = 60.0
#: How much of a turn parked messages may have while there are new ones.
PARKED_SECONDS: Final = TURN_SECONDS / 2


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
        worker: str | None = None,
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
        self._worker = worker
        self._clock = clock
        self._reports = reports
        self._is_stopping = is_stopping
        self._slots = Slots(ow, consumer, partition)
        self._lease: Lease | None = None
        self._work: Processing | None = None
        self._page: list[Entry] = []
        self._trouble = 0
        #: Whether too much was parked when it was last asked.
        self._was_full = False
        #: Messages that this turn is done with.
        self._done = 0

    def turn(self) -> Turned:
        """Work on the cursor for a while, if it can be had."""
        self._done = 0
        try:
            turned = self._turn()
        except LeaseLost as exc:
            turned = self._in_trouble("lease_lost", exc)
        except OutcomeUnknown as exc:
            # Whether it was committed is written where the cursor stands: ask anew.
            turned = self._in_trouble("commit_unknown", exc)
        except (StoreUnavailable, StoreBusy) as exc:
            turned = self._in_trouble("store_unavailable", exc)
        except VersionMismatch as exc:
            self._reports.trouble("version_mismatch", self.name, exc, VERSION_SECONDS)
            turned = Turned(seconds=VERSION_SECONDS, state="elsewhere")
        except NotRecorded as exc:
            turned = self._in_trouble("message_not_recorded", exc, NOT_RECORDED_SECONDS)
        except SourceRefused as exc:
            self._reports.source_refused(self.name, exc)
            turned = self._in_trouble(None, exc)
        except BaseException as exc:  # noqa: BLE001 - a source of the user's; the others must go on
            turned = self._in_trouble("source_failed", exc)
        else:
            self._trouble = 0
        return turned

    def release(self) -> None:
        """Give everything back, so that others need not wait."""
        lease, self._lease = self._lease, None
        work, self._work, self._page = self._work, None, []
        with suppress(OncewardError):
            self._slots.release()
        if lease is not None and not lease.lost.is_set():
            if work is not None:
                work.strike_notes()
            with suppress(OncewardError):
                lease.release()

    def _turn(self) -> Turned:
        poll = self.consumer.poll_seconds
        if self._slots.are_limited and not self._slots.take():
            return Turned(seconds=poll, state="full")
        try:
            lease = self._hold()
            if lease is None:
                return Turned(seconds=poll, state="elsewhere")
            turned = self._until_done(lease)
            if self._slots.are_lost:
                turned = Turned(messages=self._done, seconds=poll, state="full")
        finally:
            self._slots.release()
        if lease.is_paused:
            turned = Turned(messages=self._done, seconds=poll, state="elsewhere")
        is_let_go = self.partition is not None and turned.state != "more"
        if self._slots.are_limited or lease.is_paused or is_let_go:
            self.release()
        return turned

    def _hold(self) -> Lease | None:
        """Have the lease, from the last turn or anew."""
        if self._lease is not None:
            return self._lease if self._still_holds(self._lease) else None
        consumer = self.consumer
        lease = self._ow.cursors.acquire(
            self.name,
            self._worker,
            lease_seconds=consumer.lease_seconds,
            version=consumer.version,
            migrations=consumer.migrations,
        )
        if lease is None:
            return None
        self._lease = lease
        self._ow.cursors.heartbeat.add(lease, consumer.heartbeat_seconds)
        self._work = Processing(self._ow, consumer, self.partition, lease, self._reports)
        self._page = []
        self._reports.note(
            "lease_acquired", cursor=self.name, epoch=lease.epoch, position=lease.position
        )
        return lease

    def _still_holds(self, lease: Lease) -> bool:
        """Look whether somebody moved or paused the cursor: a heartbeat may be far away."""
        lease.check()
        try:
            now = self._ow.cursors.show(self.name)
        except CursorMissing as exc:
            raise LeaseLost(self.name, lease.epoch, None) from exc
        if (now.lease_owner, now.epoch) != (lease.worker, lease.epoch):
            raise LeaseLost(self.name, lease.epoch, now.epoch)
        if now.is_paused:
            self.release()
        return not now.is_paused

    def _until_done(self, lease: Lease) -> Turned:
        work = self._work
        assert work is not None
        began = self._clock.monotonic()
        work.has_parked = False
        wait = self._retry_parked(lease, work, began + PARKED_SECONDS)
        while self._may_go_on(lease):
            if not self._page:
                if self._is_line_full(work, wait):
                    return self._nothing(work, wait)
                items = self.source.read(lease.position, self.consumer.page)
                self._reports.source_accepted(self.name)
                if not items:
                    return self._nothing(work, wait)
                self._page = work.decoded(items)
            done, seconds = work.take(self._page)
            del self._page[:done]
            self._done += done
            if seconds:
                return self._nothing(work, min(wait, seconds))
            if self._clock.monotonic() >= began + TURN_SECONDS:
                break
        return Turned(messages=self._done)

    def _is_line_full(self, work: Processing, wait: float) -> bool:
        """Say whether so much is parked that no more is read; told once, when it begins."""
        count = 0
        if work.has_parked or wait != float("inf"):
            count = self._ow.retries.parked.count(self.name)
        was_full, self._was_full = self._was_full, count >= self.consumer.parked_max
        if self._was_full and not was_full:
            self._reports.line_full(self.name, count)
        return self._was_full

    def _may_go_on(self, lease: Lease) -> bool:
        """Say whether another message may begin; asks nobody."""
        return not (self._is_stopping() or lease.is_paused or self._slots.are_lost)

    def _nothing(self, work: Processing, wait: float) -> Turned:
        """Say that nothing can be done now; a poll may find more before the wait is over."""
        if work.has_parked:
            seconds = self._ow.retries.parked.next_seconds(self.name)
            wait = wait if seconds is None else min(wait, max(seconds, 0.001))
        if not wait:
            return Turned(messages=self._done)
        poll = self.consumer.poll_seconds
        if wait == float("inf"):
            work.drained()
            return Turned(messages=self._done, seconds=poll, state="idle")
        # A partition is let go meanwhile: what comes new wakes it, and taking it costs two commits.
        longest = poll if self.partition is None else max(poll, WAIT_SECONDS_MAX)
        return Turned(messages=self._done, seconds=min(longest, wait), state="waiting")

    def _retry_parked(self, lease: Lease, work: Processing, until: float) -> float:
        """Try what is parked and due, for a while; return when the next will be, 0 for now."""
        parked = self._ow.retries.parked
        while self._may_go_on(lease):
            seconds = parked.next_seconds(self.name)
            if seconds is None:
                return float("inf")
            due = parked.due_heads(self.name) if seconds <= 0 else []
            if not due:
                return max(seconds, 0.001)
            for head in due:
                if not self._may_go_on(lease) or self._clock.monotonic() >= until:
                    return 0.0
                work.retry(head)
                self._done += 1
        return 0.0

    def _in_trouble(
        self, action: str | None, error: BaseException, seconds: float | None = None
    ) -> Turned:
        """Let go, tell unless that was done, and come back later."""
        self._trouble += 1
        if seconds is None:
            seconds = min(TROUBLE_SECONDS_MIN * 2 ** min(self._trouble, 10), TROUBLE_SECONDS_MAX)
        if action is not None:
            self._reports.trouble(action, self.name, error, seconds)
        self.release()
        return Turned(messages=self._done, seconds=seconds, state="trouble")
