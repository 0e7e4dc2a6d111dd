"""Processing: messages of one cursor under its lease, from handler to checkpoint or retry.

What happens to a message and where its cursor stands is always one commit. What a handler raises
is a failed attempt; an error of the store itself, or a lost lease, is nobody's and goes up.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from onceward.crash import crash_point
from onceward.cursors import Lease
from onceward.errors import (
    LeaseLost,
    OncewardError,
    OutcomeUnknown,
    StoreBusy,
    StoreUnavailable,
    Superseded,
)
from onceward.handle import Onceward
from onceward.retries import Attempt, Dead, Failure, Later, Parked, Schedule, Steps
from onceward.retries import Message as Kept
from onceward.stores import Transaction, provided
from onceward.workers.begun import Begun, PoisonMessage, Stage, WorkerDied, deaths
from onceward.workers.decoding import Decoder, Entry
from onceward.workers.handling import HandlerFailed, NotRecorded, Reject, handle
from onceward.workers.models import Consumer, Message
from onceward.workers.reports import Reports
from onceward.workers.source import Item

#: Not the message's fault, unless its handler raised it.
OUTSIDE: Final = (LeaseLost, OutcomeUnknown, StoreBusy, StoreUnavailable)
#: For a message that its handler gave up.
NO_MORE: Final = Steps(seconds=())


class Processing:
    """The messages of one cursor, while this process holds its lease."""

    def __init__(
        self,
        ow: Onceward,
        consumer: Consumer,
        partition: str | None,
        lease: Lease,
        reports: Reports,
    ) -> None:
        """Begin where the lease stands."""
        self._ow = ow
        self._consumer = consumer
        self._decoder = Decoder(consumer, partition, lease.name)
        self._lease = lease
        self._reports = reports
        #: Positions of messages that failed and hold the cursor; nobody else adds any.
        self._failing = set(ow.retries.attempts.positions(lease.name))
        #: Keys of the page that have a message parked.
        self._blocked: set[str] = set()
        #: Whether a message was parked; whoever counts on it sets it back.
        self.has_parked = False
        #: How many messages to take one by one, after a batch that failed.
        self._single = 0
        self._begun = begun = Begun(ow, lease)
        #: How many to note before they begin, new ones and parked ones: workers have died here.
        self._careful = consumer.page if begun.is_deadly_here else 0
        self._wary = consumer.page if begun.is_deadly else 0

    # --- reading ---------------------------------------------------------------------------------

    def decoded(self, items: Sequence[Item]) -> list[Entry]:
        """Decode a page, and find out which of its keys wait for an earlier message.

        A message that may kill its worker, or is not due, comes alone and is decoded when it runs.
        """
        ready = list(itertools.takewhile(lambda item: item.position not in self._failing, items))
        if self._careful or not ready:
            return [Entry(item=items[0])]
        entries = [self._decoder.entry(item) for item in ready]
        self._look_for_blocked(entries)
        return entries

    def _look_for_blocked(self, entries: Sequence[Entry]) -> None:
        keys = {entry.message.key for entry in entries if entry.message and entry.message.key}
        if self._consumer.order == "key" and keys:
            self._blocked = set(self._ow.retries.parked.blocked_keys(self._lease.name, keys))

    def _decode(self, entry: Entry, attempt: int, *, is_noted: bool) -> Entry:
        """Decode a message that runs by itself; noted first where workers have died."""
        position, is_new = entry.item.position, not (entry.message or entry.problem)
        if is_noted:
            self._begun.begin(position, "decoding")
        if is_noted or is_new or attempt > 1 or self._single:
            # Also again: a handler may have changed the data.
            entry = self._decoder.entry(entry.item, attempt)
        if is_noted:
            self._begun.decoded(position)
        if is_new:
            self._look_for_blocked([entry])
        return entry

    # --- a page ----------------------------------------------------------------------------------

    def take(self, entries: Sequence[Entry]) -> tuple[int, float]:
        """Handle the next messages of a page: how many are done with, and how long to wait.

        None and no wait when a batch failed: to find the one that does, they are now taken singly.
        """
        is_failing = entries[0].item.position in self._failing
        if self._consumer.batch is None or is_failing or self._careful or self._single:
            return self._one(entries[0])
        batch = entries[: self._consumer.batch]
        try:
            self._many(batch)
        except OUTSIDE:
            raise
        except Exception as exc:  # noqa: BLE001 - whatever a handler raises
            self._reports.batch_failed(self._lease, len(batch), _own(exc))
            self._single = len(batch)
            return 0, 0.0
        return len(batch), 0.0

    def _many(self, batch: Sequence[Entry]) -> None:
        """Handle a batch, and move the cursor past all of it, in one commit."""
        ready = [each.message for each in batch if each.message and not self._waits(each.message)]
        unreadable = [each.item.position for each in batch if each.message is None]

        def rest(tx: Transaction) -> None:
            if len(unreadable) > 1:
                self._ow.retries.dead.hold_at(tx, self._lease.name, unreadable)
            for entry in batch:
                if entry.message is None or self._waits(entry.message):
                    self._set_aside(tx, entry)
            failed = None if ready else len(unreadable)
            self._lease.checkpoint(batch[-1].item.position, tx, count=len(ready), failed=failed)

        self._run(ready, rest)
        self._reports.done(self._lease, ready)

    def _one(self, entry: Entry) -> tuple[int, float]:
        """Handle one message: 1 when the cursor has passed it, else 0 and how long to wait."""
        position = entry.item.position
        known = None
        if position in self._failing:
            known = self._ow.retries.attempts.find(self._lease.name, position)
            if known is not None and not known.is_due:
                return 0, max(known.wait_seconds, 0.001)
        left = self._begun.left.get(position)
        if left == "decoding":
            return self._failed(entry, known, self._death(left, known))
        attempt = known.attempt + 1 if known else 1
        is_noted = bool(self._careful or left or (known and deaths(known.failures)))
        entry = self._decode(entry, attempt, is_noted=is_noted)
        message = entry.message
        if message is None or self._waits(message):
            with self._ow.transaction() as tx:
                self._lease.mark(tx)
                self._set_aside(tx, entry, known)
                self._lease.checkpoint(position, tx, count=0, failed=int(message is None))
            self._passed(position)
            return 1, 0.0
        if left is not None:
            return self._failed(entry, known, self._death(left, known))
        if is_noted:
            self._begun.begin(position, "handling")

        def rest(tx: Transaction) -> None:
            self._settle(tx, position)
            self._lease.checkpoint(position, tx)

        try:
            self._run([message], rest)
        except OUTSIDE:
            self._take_back(position)
            raise
        except Exception as exc:  # noqa: BLE001 - whatever a handler raises
            return self._failed(entry, known, _own(exc))
        self._passed(position)
        self._reports.done(self._lease, [message])
        return 1, 0.0

    def _settle(self, tx: Transaction, position: str) -> None:
        """Forget what was noted about a message, together with what becomes of it."""
        if position in self._failing:
            self._ow.retries.attempts.succeed(tx, self._lease.name, position)
        self._begun.end(position, tx)

    def strike_notes(self) -> None:
        """Remove the notes of this worker, which lives: its messages met no death."""
        for position in self._begun.noted():
            self._take_back(position)

    def _take_back(self, position: str) -> None:
        """Strike out a message that did not run to its end, if the store lets us."""
        with suppress(OncewardError):
            self._begun.end(position)

    def _passed(self, position: str) -> None:
        self._begun.ended(position)
        self._failing.discard(position)
        self._careful = max(0, self._careful - 1)
        self._single = max(0, self._single - 1)

    def _waits(self, message: Message) -> bool:
        """Say whether an earlier message of the same key is parked."""
        return message.key is not None and message.key in self._blocked

    def _set_aside(self, tx: Transaction, entry: Entry, known: Attempt | None = None) -> None:
        """Park a message behind its key, or bury one that cannot be read."""
        position, kept = entry.item.position, self._kept(entry)
        self._settle(tx, position)
        if entry.message is not None:
            self._ow.retries.parked.park(tx, kept, known=known)
            self.has_parked = True
            return
        assert entry.problem is not None
        letter = self._ow.retries.dead.add(tx, kept, Failure.of(entry.problem), known=known)
        self._reports.dead(self._lease, position, letter, entry.problem)

    def _run(self, messages: list[Message], rest: Callable[[Transaction], None]) -> None:
        """Call the handler and then `rest`: in one commit if the handler takes part in it."""
        provider = self._consumer.transaction
        if not self._consumer.takes_tx and provider is None:
            # Nothing is held open while it works elsewhere.
            self._handle(messages, None)
            crash_point("worker.handle.after_effect")
            with self._ow.transaction() as tx:
                rest(tx)
            return
        store = self._ow.store
        with provided(store, provider) if provider else store.transaction() as tx:
            self._lease.mark(tx)
            self._handle(messages, tx)
            rest(tx)

    def _handle(self, messages: list[Message], tx: Transaction | None) -> None:
        """Call the handler; what it raises is its own, unless our lease or transaction is gone.

        A second database of the handler's may be away for good, and another lease be lost: such an
        error must be counted, or nobody would ever hear of it.
        """
        if not messages:
            return
        try:
            with self._reports.timed(self._consumer.name):
                handle(self._consumer, self._lease, messages, tx)
        except BaseException as exc:
            self._lease.check()
            if tx is not None and isinstance(exc, OUTSIDE) and self._is_broken(tx):
                raise
            # `SystemExit` would end this thread, and with it nobody but the messages.
            raise HandlerFailed(exc) from exc

    def _is_broken(self, tx: Transaction) -> bool:
        try:
            tx.query("cursor_show", name=self._lease.name)
        except OncewardError:
            return True
        return False

    # --- failures --------------------------------------------------------------------------------

    def _failed(
        self, entry: Entry, known: Attempt | None, error: BaseException
    ) -> tuple[int, float]:
        """Record a failed attempt: the message holds the cursor, is parked, or is dead."""
        crash_point("worker.fail.before_record")
        position, order = entry.item.position, self._consumer.order
        # A message whose key is unknown cannot be parked: a later one of its key would pass it.
        is_held = order == "cursor" or (order == "key" and entry.message is None)
        try:
            what = self._record(entry, known, error, is_held=is_held)
        except (*OUTSIDE, NotRecorded):
            raise
        except Exception as exc:
            raise NotRecorded(position, exc) from exc
        attempt = known.attempt + 1 if known else 1
        self._reports.failed(self._lease, position, attempt, error, what)
        if isinstance(what, Later) and entry.message and entry.message.key is not None:
            self._blocked.add(entry.message.key)
        if not is_held or isinstance(what, Dead):
            self._passed(position)
            self.has_parked |= isinstance(what, Later)
            return 1, 0.0
        self._begun.ended(position)
        self._failing.add(position)
        return 0, max(what.seconds, 0.001)

    def _record(
        self, entry: Entry, known: Attempt | None, error: BaseException, *, is_held: bool
    ) -> Later | Dead:
        retries, kept, failure = self._ow.retries, self._kept(entry), Failure.of(error)
        schedule, order = self._schedule(error), self._consumer.order
        what: Later | Dead
        with self._ow.transaction() as tx:
            self._lease.guard(tx)
            if is_held:
                self._begun.end(kept.position, tx)
                what = retries.attempts.fail(tx, kept, failure, schedule=schedule)
            else:
                assert order != "cursor"
                self._settle(tx, kept.position)
                what = retries.parked.park(
                    tx, kept, failure=failure, order=order, schedule=schedule, known=known
                )
            if is_held and isinstance(what, Later):
                self._lease.fail(tx)
            else:
                self._lease.checkpoint(kept.position, tx, count=0, failed=1)
        return what

    def _death(self, stage: Stage, known: Attempt | Parked | None) -> WorkerDied | PoisonMessage:
        """Return what a death at a message is: a failed attempt, or the last one allowed."""
        count = deaths(known.failures if known else ()) + 1
        is_poison = count >= self._consumer.poison_deaths
        return PoisonMessage(count, stage) if is_poison else WorkerDied(stage)

    def _schedule(self, error: BaseException) -> Schedule:
        return NO_MORE if isinstance(error, Reject | PoisonMessage) else self._consumer.retry

    def _kept(self, entry: Entry) -> Kept:
        item, key = entry.item, entry.message.key if entry.message else None
        return Kept(cursor=self._lease.name, position=item.position, raw=item.raw, key=key)

    # --- parked messages -------------------------------------------------------------------------

    def retry(self, parked: Parked) -> None:
        """Try a parked message that is due."""
        position = parked.message.position
        left = self._begun.left.get(position)
        if left is not None:
            self._failed_again(parked, self._death(left, parked))
            return
        try:
            message = self._try(parked)
        except OUTSIDE:
            self._take_back(position)
            raise
        except Superseded:
            self._take_back(position)  # Somebody moved it on: a seek, or a redrive.
        except Exception as exc:  # noqa: BLE001 - whatever a handler raises
            self._failed_again(parked, _own(exc))
        else:
            self._begun.ended(position)
            self._reports.done(self._lease, [message])
        self._wary = max(0, self._wary - 1)

    def _try(self, parked: Parked) -> Message:
        position = parked.message.position
        is_noted = self._wary or deaths(parked.failures)
        if is_noted:
            self._begun.begin(position, "decoding")
        try:
            message = self._decoder.message(position, parked.message.raw, parked.attempt + 1)
        except BaseException as exc:
            raise HandlerFailed(exc) from exc
        if is_noted:
            self._begun.begin(position, "handling")

        def rest(tx: Transaction) -> None:
            self._ow.retries.parked.succeed(tx, parked)
            self._begun.end(position, tx)
            if self._lease.position is not None:
                self._lease.checkpoint(self._lease.position, tx)
            else:
                self._lease.guard(tx)

        self._run([message], rest)
        return message

    def _failed_again(self, parked: Parked, error: BaseException) -> None:
        position, failure = parked.message.position, Failure.of(error)
        try:
            with self._ow.transaction() as tx:
                self._lease.guard(tx)
                self._begun.end(position, tx)
                what = self._ow.retries.parked.fail(
                    tx, parked, failure, schedule=self._schedule(error)
                )
                self._lease.fail(tx)
        except Superseded:
            return
        except OUTSIDE:
            raise
        except Exception as exc:
            raise NotRecorded(position, exc) from exc
        self._begun.ended(position)
        self._reports.failed(self._lease, position, parked.attempt + 1, error, what)

    def drained(self) -> None:
        """Forget what an earlier worker left: nothing of it is to come any more."""
        self._begun.forget()


def _own(error: Exception) -> BaseException:
    """Return what a handler raised, or what came behind it."""
    return error.error if isinstance(error, HandlerFailed) else error
