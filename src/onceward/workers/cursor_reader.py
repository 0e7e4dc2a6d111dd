"""Cursor reader: process the messages of one cursor in poll cycles, under its lease.

Keeps the lease (with its epoch, the fencing token) and the messages read ahead between cycles. A
cycle ends when nothing can be done, its time is used up, or an error occurs. Each result says when
the next cycle is due.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

from onceward.client import Onceward
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
from onceward.system import Clock
from onceward.workers.concurrency_slots import ConcurrencySlots
from onceward.workers.handler_calls import NotRecorded
from onceward.workers.message_decoding import PageEntry
from onceward.workers.message_processing import MessageProcessor
from onceward.workers.models import POLL_CYCLE_SECONDS, Consumer
from onceward.workers.source_protocol import Source
from onceward.workers.telemetry import Telemetry

#: `more`: not finished. `idle`: drained. `waiting`: only messages that wait for a retry are left.
#: `elsewhere`: held by another worker, or paused. `full`: no slot is free. `trouble`: see the log.
PollState = Literal["more", "idle", "waiting", "elsewhere", "full", "trouble"]
#: Exponential backoff after errors of the store, the source or the lease.
BACKOFF_SECONDS_MIN: Final = 0.1
BACKOFF_SECONDS_MAX: Final = 5.0
#: Delay after a version mismatch, which lasts until a deployment changes it.
VERSION_SECONDS: Final = 30.0
#: Delay after a failure that could not be recorded: the message would only run again.
NOT_RECORDED_SECONDS: Final = 30.0
#: Longest delay of a waiting partition, so that seeks and pauses by operators are noticed.
WAIT_SECONDS_MAX: Final = 60.0
#: Share of a poll cycle that parked messages may use while there are new ones.
PARKED_SECONDS: Final = POLL_CYCLE_SECONDS / 2


@dataclass(frozen=True, kw_only=True, slots=True)
class PollResult:
    """The result of a poll cycle."""

    #: Messages that were processed, parked and dead ones included.
    messages: int = 0
    #: Longest delay until the next cycle; 0 when there is more to do.
    seconds: float = 0.0
    state: PollState = "more"


class CursorReader:
    """Processes the messages of one cursor."""

    def __init__(  # noqa: PLR0913 - made in one place
        self,
        ow: Onceward,
        consumer: Consumer,
        partition: str | None,
        source: Source,
        *,
        worker: str | None = None,
        clock: Clock,
        telemetry: Telemetry,
        is_stopping: Callable[[], bool],
    ) -> None:
        """Prepare; no lease is acquired yet."""
        self.consumer = consumer
        self.partition = partition
        self.name = consumer.cursor(partition)
        self.source = source
        self._ow = ow
        self._worker = worker
        self._clock = clock
        self._telemetry = telemetry
        self._is_stopping = is_stopping
        self._slots = ConcurrencySlots(ow, consumer, partition)
        self._lease: Lease | None = None
        self._processor: MessageProcessor | None = None
        self._page: list[PageEntry] = []
        self._failures = 0
        #: Whether the parked limit was reached at the last check.
        self._was_parked_limit_reached = False
        #: Messages processed in this poll cycle.
        self._done = 0

    def poll(self) -> PollResult:
        """Run one poll cycle, if the cursor can be leased; never raises."""
        self._done = 0
        try:
            result = self._poll()
        except LeaseLost as exc:
            result = self._back_off("lease_lost", exc)
        except OutcomeUnknown as exc:
            # The cursor's position shows whether it was committed; read it again.
            result = self._back_off("commit_outcome_unknown", exc)
        except (StoreUnavailable, StoreBusy) as exc:
            result = self._back_off("store_unavailable", exc)
        except VersionMismatch as exc:
            self._telemetry.warn_and_retry("version_mismatch", self.name, exc, VERSION_SECONDS)
            result = PollResult(seconds=VERSION_SECONDS, state="elsewhere")
        except NotRecorded as exc:
            result = self._back_off("failure_not_recorded", exc, NOT_RECORDED_SECONDS)
        except SourceRefused as exc:
            self._telemetry.source_refused(self.name, exc)
            result = self._back_off(None, exc)
        except BaseException as exc:  # noqa: BLE001 - a user's source; other cursors must go on
            result = self._back_off("source_failed", exc)
        else:
            self._failures = 0
        return result

    def release(self) -> None:
        """Release lease and slots, so that other workers need not wait for them to expire."""
        lease, self._lease = self._lease, None
        processor, self._processor, self._page = self._processor, None, []
        with suppress(OncewardError):
            self._slots.release()
        if lease is not None and not lease.lost.is_set():
            if processor is not None:
                processor.clear_notes()
            with suppress(OncewardError):
                lease.release()

    def _poll(self) -> PollResult:
        poll = self.consumer.poll_seconds
        if self._slots.are_limited and not self._slots.acquire():
            return PollResult(seconds=poll, state="full")
        try:
            lease = self._ensure_lease()
            if lease is None:
                return PollResult(seconds=poll, state="elsewhere")
            result = self._process_pages(lease)
            if self._slots.are_lost:
                result = PollResult(messages=self._done, seconds=poll, state="full")
        finally:
            self._slots.release()
        if lease.is_paused:
            result = PollResult(messages=self._done, seconds=poll, state="elsewhere")
        is_let_go = self.partition is not None and result.state != "more"
        if self._slots.are_limited or lease.is_paused or is_let_go:
            self.release()
        return result

    def _ensure_lease(self) -> Lease | None:
        """Return the lease, held since an earlier cycle or acquired now; None if unavailable."""
        if self._lease is not None:
            return self._lease if self._is_lease_usable(self._lease) else None
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
        self._processor = MessageProcessor(
            self._ow, consumer, self.partition, lease, self._telemetry
        )
        self._page = []
        self._telemetry.log_info(
            "lease_acquired", cursor=self.name, epoch=lease.epoch, position=lease.position
        )
        return lease

    def _is_lease_usable(self, lease: Lease) -> bool:
        """Check for a takeover, seek or pause, which the next heartbeat would notice too late."""
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

    def _process_pages(self, lease: Lease) -> PollResult:
        processor = self._processor
        assert processor is not None
        began = self._clock.monotonic()
        processor.has_parked = False
        wait = self._retry_parked(lease, processor, began + PARKED_SECONDS)
        while self._may_continue(lease):
            if not self._page:
                if self._is_parked_limit_reached(processor, wait):
                    return self._idle_result(processor, wait)
                items = self.source.read(lease.position, self.consumer.page)
                self._telemetry.source_accepted(self.name)
                if not items:
                    return self._idle_result(processor, wait)
                self._page = processor.decode_page(items)
            done, seconds = processor.process_next(self._page)
            del self._page[:done]
            self._done += done
            if seconds:
                return self._idle_result(processor, min(wait, seconds))
            if self._clock.monotonic() >= began + POLL_CYCLE_SECONDS:
                break
        return PollResult(messages=self._done)

    def _is_parked_limit_reached(self, processor: MessageProcessor, wait: float) -> bool:
        """Return whether too many messages are parked to read more; logged once per episode."""
        count = 0
        if processor.has_parked or wait != float("inf"):
            count = self._ow.retries.parked.count(self.name)
        was_full, self._was_parked_limit_reached = (
            self._was_parked_limit_reached,
            count >= self.consumer.parked_max,
        )
        if self._was_parked_limit_reached and not was_full:
            self._telemetry.parked_limit_reached(self.name, count)
        return self._was_parked_limit_reached

    def _may_continue(self, lease: Lease) -> bool:
        """Return whether another message may start; makes no query."""
        return not (self._is_stopping() or lease.is_paused or self._slots.are_lost)

    def _idle_result(self, processor: MessageProcessor, wait: float) -> PollResult:
        """Return the result of a cycle that found nothing to do for `wait` seconds."""
        if processor.has_parked:
            seconds = self._ow.retries.parked.next_seconds(self.name)
            wait = wait if seconds is None else min(wait, max(seconds, 0.001))
        if not wait:
            return PollResult(messages=self._done)
        poll = self.consumer.poll_seconds
        if wait == float("inf"):
            processor.clear_abandoned_notes()
            return PollResult(messages=self._done, seconds=poll, state="idle")
        # A waiting partition is released: new messages wake it, and a lease costs two commits.
        longest = poll if self.partition is None else max(poll, WAIT_SECONDS_MAX)
        return PollResult(messages=self._done, seconds=min(longest, wait), state="waiting")

    def _retry_parked(self, lease: Lease, processor: MessageProcessor, until: float) -> float:
        """Retry due parked messages until `until`; return the seconds until the next one."""
        parked = self._ow.retries.parked
        while self._may_continue(lease):
            seconds = parked.next_seconds(self.name)
            if seconds is None:
                return float("inf")
            due = parked.due_heads(self.name) if seconds <= 0 else []
            if not due:
                return max(seconds, 0.001)
            for head in due:
                if not self._may_continue(lease) or self._clock.monotonic() >= until:
                    return 0.0
                processor.retry_parked(head)
                self._done += 1
        return 0.0

    def _back_off(
        self, action: str | None, error: BaseException, seconds: float | None = None
    ) -> PollResult:
        """Release the cursor, log `action` unless it is None, and return the backoff delay."""
        self._failures += 1
        if seconds is None:
            seconds = min(BACKOFF_SECONDS_MIN * 2 ** min(self._failures, 10), BACKOFF_SECONDS_MAX)
        if action is not None:
            self._telemetry.warn_and_retry(action, self.name, error, seconds)
        self.release()
        return PollResult(messages=self._done, seconds=seconds, state="trouble")
