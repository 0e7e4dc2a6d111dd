"""Message processing: run handlers on the messages of one leased cursor, and record each outcome.

A message's outcome and its cursor's checkpoint are one commit. An exception of a handler is a
failed attempt. Errors of the store and a lost lease do not count as attempts; they propagate.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from onceward.client import Onceward
from onceward.cursors import Lease
from onceward.errors import (
    LeaseLost,
    OncewardError,
    OutcomeUnknown,
    StoreBusy,
    StoreUnavailable,
    Superseded,
)
from onceward.retries import Attempt, Dead, Failure, FixedDelays, Later, Parked, Schedule
from onceward.retries import RetryMessage as Stored
from onceward.stores import Transaction, provided
from onceward.system.crash_points import crash_point
from onceward.workers.handler_calls import HandlerFailed, NotRecorded, Reject, handle
from onceward.workers.message_decoding import MessageDecoder, PageEntry
from onceward.workers.models import Consumer, Message
from onceward.workers.poison_guard import (
    PoisonGuard,
    PoisonMessage,
    ProcessingStage,
    WorkerDied,
    count_deaths,
)
from onceward.workers.source_protocol import Item
from onceward.workers.telemetry import Telemetry

#: Errors that do not count as failed attempts, unless a handler raised them.
UNCOUNTED_ERRORS: Final = (LeaseLost, OutcomeUnknown, StoreBusy, StoreUnavailable)
#: The schedule of a message that its handler rejected, or of a poison message.
NO_RETRY: Final = FixedDelays(seconds=())


class MessageProcessor:
    """The messages of one cursor, while this process holds its lease."""

    def __init__(
        self,
        ow: Onceward,
        consumer: Consumer,
        partition: str | None,
        lease: Lease,
        telemetry: Telemetry,
    ) -> None:
        """Process from the position of the lease on."""
        self._ow = ow
        self._consumer = consumer
        self._decoder = MessageDecoder(consumer, partition, lease.name)
        self._lease = lease
        self._telemetry = telemetry
        #: Positions of failed messages that hold the cursor; only the lease holder adds any.
        self._failing = set(ow.retries.attempts.positions(lease.name))
        #: Keys of the page with a parked message (per-key head-of-line blocking).
        self._blocked: set[str] = set()
        #: Whether a message was parked; reset by the reader.
        self.has_parked = False
        #: How many messages to process one by one, after a batch failed.
        self._one_by_one = 0
        self._guard = guard = PoisonGuard(ow, lease)
        #: How many new and parked messages to note before they run, since workers have died.
        self._guarded_new = consumer.page if guard.has_deaths_here else 0
        self._guarded_parked = consumer.page if guard.has_deaths else 0

    # --- reading ---------------------------------------------------------------------------------

    def decode_page(self, items: Sequence[Item]) -> list[PageEntry]:
        """Decode a page, and find which of its keys wait for an earlier message.

        A message that may be poison, or is not due, comes alone and is decoded when it runs.
        """
        ready = list(itertools.takewhile(lambda item: item.position not in self._failing, items))
        if self._guarded_new or not ready:
            return [PageEntry(item=items[0])]
        entries = [self._decoder.decode_entry(item) for item in ready]
        self._find_blocked_keys(entries)
        return entries

    def _find_blocked_keys(self, entries: Sequence[PageEntry]) -> None:
        keys = {entry.message.key for entry in entries if entry.message and entry.message.key}
        if self._consumer.order == "key" and keys:
            self._blocked = set(self._ow.retries.parked.blocked_keys(self._lease.name, keys))

    def _decode(self, entry: PageEntry, attempt: int, *, is_noted: bool) -> PageEntry:
        """Decode a message that runs alone; noted first where workers have died."""
        position, is_new = entry.item.position, not (entry.message or entry.problem)
        if is_noted:
            self._guard.note_start(position, "decoding")
        if is_noted or is_new or attempt > 1 or self._one_by_one:
            # Decoded again for a repeated attempt: a handler may have changed the data.
            entry = self._decoder.decode_entry(entry.item, attempt)
        if is_noted:
            self._guard.note_decoded(position)
        if is_new:
            self._find_blocked_keys([entry])
        return entry

    def process_next(self, entries: Sequence[PageEntry]) -> tuple[int, float]:
        """Process the next messages of a page; return how many, and the seconds to wait.

        After a failed batch both are 0: its messages then run one by one, to find the failing one.
        """
        is_failing = entries[0].item.position in self._failing
        if self._consumer.batch is None or is_failing or self._guarded_new or self._one_by_one:
            return self._process_one(entries[0])
        batch = entries[: self._consumer.batch]
        try:
            self._process_batch(batch)
        except UNCOUNTED_ERRORS:
            raise
        except Exception as exc:  # noqa: BLE001 - whatever a handler raises
            self._telemetry.batch_failed(self._lease, len(batch), _handler_error(exc))
            self._one_by_one = len(batch)
            return 0, 0.0
        return len(batch), 0.0

    def _process_batch(self, batch: Sequence[PageEntry]) -> None:
        """Process a batch and move the cursor past all of it, in one commit."""
        ready = [e.message for e in batch if e.message and not self._is_blocked(e.message)]
        unreadable = [each.item.position for each in batch if each.message is None]

        def rest(tx: Transaction) -> None:
            if len(unreadable) > 1:
                self._ow.retries.dead.lock_at(tx, self._lease.name, unreadable)
            for entry in batch:
                if entry.message is None or self._is_blocked(entry.message):
                    self._divert(tx, entry)
            failed = None if ready else len(unreadable)
            self._lease.checkpoint(batch[-1].item.position, tx, count=len(ready), failed=failed)

        self._run_handler(ready, rest)
        self._telemetry.count_processed(self._lease, ready)

    def _process_one(self, entry: PageEntry) -> tuple[int, float]:
        """Process one message; return 1 when the cursor passed it, else 0 and the wait."""
        position = entry.item.position
        known = None
        if position in self._failing:
            known = self._ow.retries.attempts.find(self._lease.name, position)
            if known is not None and not known.is_due:
                return 0, max(known.wait_seconds, 0.001)
        left = self._guard.abandoned.get(position)
        if left == "decoding":
            return self._record_failure(entry, known, self._death_error(left, known))
        attempt = known.attempt + 1 if known else 1
        is_noted = bool(self._guarded_new or left or (known and count_deaths(known.failures)))
        entry = self._decode(entry, attempt, is_noted=is_noted)
        message = entry.message
        if message is None or self._is_blocked(message):
            with self._ow.transaction() as tx:
                self._lease.mark(tx)
                self._divert(tx, entry, known)
                self._lease.checkpoint(position, tx, count=0, failed=int(message is None))
            self._mark_passed(position)
            return 1, 0.0
        if left is not None:
            return self._record_failure(entry, known, self._death_error(left, known))
        if is_noted:
            self._guard.note_start(position, "handling")

        def rest(tx: Transaction) -> None:
            self._clear_records(tx, position)
            self._lease.checkpoint(position, tx)

        try:
            self._run_handler([message], rest)
        except UNCOUNTED_ERRORS:
            self._clear_note(position)
            raise
        except Exception as exc:  # noqa: BLE001 - whatever a handler raises
            return self._record_failure(entry, known, _handler_error(exc))
        self._mark_passed(position)
        self._telemetry.count_processed(self._lease, [message])
        return 1, 0.0

    def _clear_records(self, tx: Transaction, position: str) -> None:
        """Delete attempts and note of a message, in the transaction of its outcome."""
        if position in self._failing:
            self._ow.retries.attempts.succeed(tx, self._lease.name, position)
        self._guard.remove_note(position, tx)

    def clear_notes(self) -> None:
        """Remove the notes of this worker before it releases the lease alive."""
        for position in self._guard.own_notes():
            self._clear_note(position)

    def _clear_note(self, position: str) -> None:
        """Remove the note of an interrupted message; best effort."""
        with suppress(OncewardError):
            self._guard.remove_note(position)

    def _mark_passed(self, position: str) -> None:
        self._guard.note_removed(position)
        self._failing.discard(position)
        self._guarded_new = max(0, self._guarded_new - 1)
        self._one_by_one = max(0, self._one_by_one - 1)

    def _is_blocked(self, message: Message) -> bool:
        """Return whether an earlier message of the same key is parked."""
        return message.key is not None and message.key in self._blocked

    def _divert(self, tx: Transaction, entry: PageEntry, known: Attempt | None = None) -> None:
        """Park a message whose key is blocked, or write a dead letter if it is unreadable."""
        position, kept = entry.item.position, self._stored_message(entry)
        self._clear_records(tx, position)
        if entry.message is not None:
            self._ow.retries.parked.park(tx, kept, known=known)
            self.has_parked = True
            return
        assert entry.problem is not None
        letter = self._ow.retries.dead.add(tx, kept, Failure.of(entry.problem), known=known)
        self._telemetry.message_dead_lettered(self._lease, position, letter, entry.problem)

    def _run_handler(self, messages: list[Message], rest: Callable[[Transaction], None]) -> None:
        """Call the handler, then `rest`; in one transaction if the handler takes part in it."""
        provider = self._consumer.transaction
        if not self._consumer.takes_tx and provider is None:
            # No transaction stays open while the handler calls other systems.
            self._call_handler(messages, None)
            crash_point("worker.handle.after_effect")
            with self._ow.transaction() as tx:
                rest(tx)
            return
        store = self._ow.store
        with provided(store, provider) if provider else store.transaction() as tx:
            self._lease.mark(tx)
            self._call_handler(messages, tx)
            rest(tx)

    def _call_handler(self, messages: list[Message], tx: Transaction | None) -> None:
        """Call the handler; its exception is a failed attempt unless our lease or store failed.

        Errors of a handler's own database count, or the message would be retried forever.
        """
        if not messages:
            return
        try:
            with self._telemetry.handler_timer(self._consumer.name):
                handle(self._consumer, self._lease, messages, tx)
        except BaseException as exc:
            self._lease.check()
            if tx is not None and isinstance(exc, UNCOUNTED_ERRORS) and self._is_broken(tx):
                raise
            # `SystemExit` would end only this thread, and processing with it.
            raise HandlerFailed(exc) from exc

    def _is_broken(self, tx: Transaction) -> bool:
        with suppress(OncewardError):
            tx.query("cursor_show", name=self._lease.name)
            return False
        return True

    # --- failures --------------------------------------------------------------------------------

    def _record_failure(
        self, entry: PageEntry, known: Attempt | None, error: BaseException
    ) -> tuple[int, float]:
        """Record a failed attempt: the message holds the cursor, is parked, or dead-lettered."""
        crash_point("worker.fail.before_record")
        position, order = entry.item.position, self._consumer.order
        # A message whose key is unknown cannot be parked: a later one of its key would pass it.
        is_held = order == "cursor" or (order == "key" and entry.message is None)
        try:
            what = self._write_failure(entry, known, error, is_held=is_held)
        except (*UNCOUNTED_ERRORS, NotRecorded):
            raise
        except Exception as exc:
            raise NotRecorded(position, exc) from exc
        attempt = known.attempt + 1 if known else 1
        self._telemetry.attempt_failed(self._lease, position, attempt, error, what)
        if isinstance(what, Later) and entry.message and entry.message.key is not None:
            self._blocked.add(entry.message.key)
        if not is_held or isinstance(what, Dead):
            self._mark_passed(position)
            self.has_parked |= isinstance(what, Later)
            return 1, 0.0
        self._guard.note_removed(position)
        self._failing.add(position)
        return 0, max(what.seconds, 0.001)

    def _write_failure(
        self, entry: PageEntry, known: Attempt | None, error: BaseException, *, is_held: bool
    ) -> Later | Dead:
        retries, kept, failure = self._ow.retries, self._stored_message(entry), Failure.of(error)
        schedule, order = self._schedule(error), self._consumer.order
        what: Later | Dead
        with self._ow.transaction() as tx:
            self._lease.guard(tx)
            if is_held:
                self._guard.remove_note(kept.position, tx)
                what = retries.attempts.fail(tx, kept, failure, schedule=schedule)
            else:
                assert order != "cursor"
                self._clear_records(tx, kept.position)
                what = retries.parked.park(
                    tx, kept, failure=failure, order=order, schedule=schedule, known=known
                )
            if is_held and isinstance(what, Later):
                self._lease.fail(tx)
            else:
                self._lease.checkpoint(kept.position, tx, count=0, failed=1)
        return what

    def _death_error(self, stage: ProcessingStage, known: Attempt | Parked | None) -> Exception:
        """Return the error for a worker's death: a failed attempt, or a poison message."""
        count = count_deaths(known.failures if known else ()) + 1
        is_poison = count >= self._consumer.poison_deaths
        return PoisonMessage(count, stage) if is_poison else WorkerDied(stage)

    def _schedule(self, error: BaseException) -> Schedule:
        return NO_RETRY if isinstance(error, Reject | PoisonMessage) else self._consumer.retry

    def _stored_message(self, entry: PageEntry) -> Stored:
        item, key = entry.item, entry.message.key if entry.message else None
        return Stored(cursor=self._lease.name, position=item.position, raw=item.raw, key=key)

    # --- parked messages -------------------------------------------------------------------------

    def retry_parked(self, parked: Parked) -> None:
        """Retry a parked message that is due."""
        position = parked.message.position
        if (left := self._guard.abandoned.get(position)) is not None:
            self._record_retry_failure(parked, self._death_error(left, parked))
            return
        try:
            message = self._retry_message(parked)
        except UNCOUNTED_ERRORS:
            self._clear_note(position)
            raise
        except Superseded:
            self._clear_note(position)  # A seek or a redrive has moved it.
        except Exception as exc:  # noqa: BLE001 - whatever a handler raises
            self._record_retry_failure(parked, _handler_error(exc))
        else:
            self._guard.note_removed(position)
            self._telemetry.count_processed(self._lease, [message])
        self._guarded_parked = max(0, self._guarded_parked - 1)

    def _retry_message(self, parked: Parked) -> Message:
        position = parked.message.position
        is_noted = self._guarded_parked or count_deaths(parked.failures)
        if is_noted:
            self._guard.note_start(position, "decoding")
        try:
            message = self._decoder.decode(position, parked.message.raw, parked.attempt + 1)
        except BaseException as exc:
            raise HandlerFailed(exc) from exc
        if is_noted:
            self._guard.note_start(position, "handling")

        def rest(tx: Transaction) -> None:
            self._ow.retries.parked.succeed(tx, parked)
            self._guard.remove_note(position, tx)
            if self._lease.position is not None:
                self._lease.checkpoint(self._lease.position, tx)
            else:
                self._lease.guard(tx)

        self._run_handler([message], rest)
        return message

    def _record_retry_failure(self, parked: Parked, error: BaseException) -> None:
        position, failure = parked.message.position, Failure.of(error)
        schedule = self._schedule(error)
        try:
            with self._ow.transaction() as tx:
                self._lease.guard(tx)
                self._guard.remove_note(position, tx)
                what = self._ow.retries.parked.fail(tx, parked, failure, schedule=schedule)
                self._lease.fail(tx)
        except Superseded:
            return
        except UNCOUNTED_ERRORS:
            raise
        except Exception as exc:
            raise NotRecorded(position, exc) from exc
        self._guard.note_removed(position)
        self._telemetry.attempt_failed(self._lease, position, parked.attempt + 1, error, what)

    def clear_abandoned_notes(self) -> None:
        """Remove the notes of earlier workers once the cursor is drained."""
        self._guard.remove_all_notes()


def _handler_error(error: Exception) -> BaseException:
    """Return what the handler raised, or any other error as it is."""
    return error.error if isinstance(error, HandlerFailed) else error
