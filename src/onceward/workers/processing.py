"""Processing: messages of one cursor under its lease, from handler to checkpoint or retry.

What happens to a message and where its cursor stands is always one commit. An error of the store
itself, or a lost lease, is nobody's failed attempt and goes up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from onceward.crash import crash_point
from onceward.cursors import Lease
from onceward.errors import LeaseLost, OutcomeUnknown, StoreBusy, StoreUnavailable, Superseded
from onceward.handle import Onceward
from onceward.retries import Dead, Failure, Later, Parked, Schedule, Steps
from onceward.retries import Message as Kept
from onceward.stores import Transaction
from onceward.workers.handling import Reject, handle
from onceward.workers.models import Consumer, Message
from onceward.workers.reports import Reports
from onceward.workers.source import Item

#: Not the message's fault: it is not counted against it.
OUTSIDE: Final = (LeaseLost, OutcomeUnknown, StoreBusy, StoreUnavailable)
#: After so many take-overs at one position the message behind it is suspected.
DEATHS: Final = 3
#: For a message that its handler gave up.
NO_MORE: Final = Steps(seconds=())
#: What a handler may end with; whoever stops the process is not its failure.
FAILED: Final = (Exception, asyncio.CancelledError)


class WorkerDied(Exception):
    """One worker after another died while this message was next."""

    def __init__(self, deaths: int) -> None:
        """Say how many."""
        super().__init__(f"at least {deaths} workers in a row died while this message was next")


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One message of a page: what came, and what it says or why it says nothing."""

    item: Item
    message: Message | None
    problem: Exception | None = None


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
        self._partition = partition
        self._lease = lease
        self._reports = reports
        #: Positions of messages that failed and hold the cursor; nobody else adds any.
        self._failing = set(ow.retries.attempts.positions(lease.name))
        #: Keys of the page that have a message parked.
        self._blocked: set[str] = set()
        #: How many messages to take one by one, each attempt counted before it begins: workers
        #: have died here again and again, perhaps of one of these.
        self._careful = 0
        if self._has_seen_deaths():
            self._careful = consumer.batch or 1

    def _has_seen_deaths(self) -> bool:
        """Say whether the cursor was taken from one worker after another without moving."""
        last = self._ow.cursors.history(self._lease.name, limit=DEATHS)
        return len(last) == DEATHS and all(
            each.kind == "steal" and each.to_position == self._lease.position for each in last
        )

    # --- reading ---------------------------------------------------------------------------------

    def decoded(self, items: Sequence[Item]) -> list[Entry]:
        """Decode a page, and find out which of its keys wait for an earlier message."""
        entries = [self._entry(item) for item in items]
        keys = {entry.message.key for entry in entries if entry.message and entry.message.key}
        if self._consumer.order == "key" and keys:
            self._blocked = set(self._ow.retries.parked.blocked_keys(self._lease.name, keys))
        return entries

    def _entry(self, item: Item) -> Entry:
        try:
            message = self._message(item.position, item.raw, 1)
        except Exception as exc:  # noqa: BLE001 - bytes that cannot be read are kept and told of
            return Entry(item=item, message=None, problem=exc)
        return Entry(item=item, message=message)

    def _message(self, position: str, raw: bytes, attempt: int) -> Message:
        data = self._consumer.decode(raw)
        return Message(
            cursor=self._lease.name,
            partition=self._partition,
            position=position,
            raw=raw,
            data=data,
            key=self._consumer.key(data) if self._consumer.key else None,
            attempt=attempt,
        )

    # --- a page ----------------------------------------------------------------------------------

    def take(self, entries: Sequence[Entry]) -> tuple[int, float]:
        """Handle the next messages of a page: how many are done with, and how long to wait."""
        first = entries[0].item.position
        if self._consumer.batch is None or first in self._failing or self._careful:
            return self._one(entries[0])
        batch = entries[: self._consumer.batch]
        for number, entry in enumerate(batch):
            if entry.item.position in self._failing:
                batch = batch[:number]
                break
        try:
            self._many(batch)
        except OUTSIDE:
            raise
        except FAILED as exc:
            if isinstance(exc, asyncio.CancelledError):
                self._lease.check()
            self._reports.batch_failed(self._lease, len(batch), exc)
        else:
            return len(batch), 0.0
        return self._singly(batch)

    def _singly(self, batch: Sequence[Entry]) -> tuple[int, float]:
        """Run a batch that failed again, message by message, to find the one that fails."""
        for number, entry in enumerate(batch):
            done, seconds = self._one(entry)
            if not done:
                return number, seconds
        return len(batch), 0.0

    def _many(self, batch: Sequence[Entry]) -> None:
        """Handle a batch, and move the cursor past all of it, in one commit."""
        ready = [each.message for each in batch if each.message and not self._waits(each.message)]

        def rest(tx: Transaction) -> None:
            for entry in batch:
                if entry.message is None or self._waits(entry.message):
                    self._set_aside(tx, entry)
            self._lease.checkpoint(batch[-1].item.position, tx, count=len(ready))

        self._run(ready, rest)
        self._reports.done(self._lease, ready)

    def _one(self, entry: Entry) -> tuple[int, float]:
        """Handle one message: 1 when the cursor has passed it, else 0 and how long to wait."""
        position = entry.item.position
        attempt = 1
        if position in self._failing:
            known = self._ow.retries.attempts.find(self._lease.name, position)
            if known is not None and not known.is_due:
                return 0, max(known.wait_seconds, 0.001)
            attempt += known.attempt if known else 0
        message = entry.message
        if message is None or self._waits(message):
            with self._ow.transaction() as tx:
                self._lease.mark(tx)
                self._set_aside(tx, entry)
                self._lease.checkpoint(position, tx, count=0)
            return 1, 0.0
        if attempt > 1:
            message = self._message(position, entry.item.raw, attempt)
        if self._careful and self._dies_of(message):
            return 1, 0.0
        is_counted = position in self._failing

        def rest(tx: Transaction) -> None:
            if is_counted:
                self._ow.retries.attempts.succeed(tx, self._lease.name, position)
            self._lease.checkpoint(position, tx)

        try:
            self._run([message], rest)
        except OUTSIDE:
            raise
        except FAILED as exc:
            return self._failed(message, exc)
        self._passed(position)
        self._reports.done(self._lease, [message])
        return 1, 0.0

    def _passed(self, position: str) -> None:
        self._failing.discard(position)
        self._careful = max(0, self._careful - 1)

    def _dies_of(self, message: Message) -> bool:
        """Count an attempt before it begins: if it ends this process, too, it was one.

        True when it was the last one that the message had.
        """
        error = WorkerDied(DEATHS)
        with self._ow.transaction() as tx:
            self._lease.guard(tx)
            what = self._ow.retries.attempts.fail(
                tx, self._kept(message), Failure.of(error), schedule=self._consumer.retry
            )
            if isinstance(what, Dead):
                self._lease.checkpoint(message.position, tx, count=0)
        self._failing.add(message.position)
        if isinstance(what, Later):
            return False
        self._passed(message.position)
        self._reports.failed(self._lease, message, error, what)
        return True

    def _waits(self, message: Message) -> bool:
        """Say whether an earlier message of the same key is parked."""
        return message.key is not None and message.key in self._blocked

    def _set_aside(self, tx: Transaction, entry: Entry) -> None:
        """Park a message behind its key, or bury one that cannot be read."""
        if entry.message is not None:
            self._ow.retries.parked.park(tx, self._kept(entry.message))
            return
        assert entry.problem is not None
        item = entry.item
        kept = Kept(cursor=self._lease.name, position=item.position, raw=item.raw)
        letter = self._ow.retries.dead.add(tx, kept, Failure.of(entry.problem))
        self._reports.dead(self._lease, item.position, letter, entry.problem)

    def _run(self, messages: list[Message], rest: Callable[[Transaction], None]) -> None:
        """Call the handler and then `rest`: in one commit if the handler takes part in it."""
        if not self._consumer.takes_tx:
            # Nothing is held open while it works elsewhere.
            self._handle(messages, None)
            crash_point("worker.handle.after_effect")
            with self._ow.transaction() as tx:
                rest(tx)
            return
        with self._ow.transaction() as tx:
            self._lease.mark(tx)
            self._handle(messages, tx)
            rest(tx)

    def _handle(self, messages: list[Message], tx: Transaction | None) -> None:
        if messages:
            with self._reports.timed(self._consumer.name):
                handle(self._consumer, self._lease, messages, tx)

    # --- failures --------------------------------------------------------------------------------

    def _failed(self, message: Message, error: BaseException) -> tuple[int, float]:
        """Record a failed attempt: the message holds the cursor, is parked, or is dead."""
        if isinstance(error, asyncio.CancelledError):
            self._lease.check()
        retries, kept, failure = self._ow.retries, self._kept(message), Failure.of(error)
        schedule, order = self._schedule(error), self._consumer.order
        crash_point("worker.fail.before_record")
        with self._ow.transaction() as tx:
            self._lease.guard(tx)
            what: Later | Dead
            if order == "cursor":
                what = retries.attempts.fail(tx, kept, failure, schedule=schedule)
            else:
                if message.position in self._failing:
                    retries.attempts.succeed(tx, kept.cursor, kept.position)
                what = retries.parked.park(
                    tx, kept, failure=failure, order=order, schedule=schedule
                )
            is_passed = order != "cursor" or isinstance(what, Dead)
            if is_passed:
                self._lease.checkpoint(message.position, tx, count=0)
        self._reports.failed(self._lease, message, error, what)
        if isinstance(what, Later) and message.key is not None:
            self._blocked.add(message.key)
        if is_passed:
            self._passed(message.position)
            return 1, 0.0
        assert isinstance(what, Later)
        self._failing.add(message.position)
        self._lease.fail()
        return 0, max(what.seconds, 0.001)

    def _schedule(self, error: BaseException) -> Schedule:
        return NO_MORE if isinstance(error, Reject) else self._consumer.retry

    def _kept(self, message: Message) -> Kept:
        return Kept(
            cursor=message.cursor, position=message.position, raw=message.raw, key=message.key
        )

    # --- parked messages -------------------------------------------------------------------------

    def retry(self, parked: Parked) -> None:
        """Try a parked message that is due."""
        kept, retries = parked.message, self._ow.retries
        try:
            message = self._message(kept.position, kept.raw, parked.attempt + 1)

            def rest(tx: Transaction) -> None:
                retries.parked.succeed(tx, parked)
                if self._lease.position is not None:
                    self._lease.checkpoint(self._lease.position, tx)
                else:
                    self._lease.guard(tx)

            self._run([message], rest)
        except OUTSIDE:
            raise
        except Superseded:
            return  # Somebody moved it on: a seek, or a redrive.
        except FAILED as exc:
            self._failed_again(parked, exc)
        else:
            self._reports.done(self._lease, [message])

    def _failed_again(self, parked: Parked, error: BaseException) -> None:
        if isinstance(error, asyncio.CancelledError):
            self._lease.check()
        schedule = self._schedule(error)
        try:
            with self._ow.transaction() as tx:
                self._lease.guard(tx)
                what = self._ow.retries.parked.fail(
                    tx, parked, Failure.of(error), schedule=schedule
                )
        except Superseded:
            return
        self._reports.failed_again(self._lease, parked, error, what)
