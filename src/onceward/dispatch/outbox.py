"""Transactional outbox: store agents' replies before they are sent, in order for each group.

For a channel that is read from the store, storing and sending are one transaction. For other
channels a crash in between is ambiguous: the reply is sent again only if the channel takes keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final

from onceward.cursors import DualCursor
from onceward.cursors.dual_models import Arrival
from onceward.dispatch.models import DUAL, TEXT_BYTES_MAX, Delivery, OutboxMessage, OutboxState
from onceward.errors import InvalidArgument, Superseded
from onceward.retries.retry_schedule import DISPATCH, Schedule
from onceward.stores import Store, Transaction
from onceward.system import Randomness, SystemRandomness
from onceward.system.crash_points import crash_point

ERROR_CHARACTERS_MAX: Final = 2_000


class Outbox:
    """The unsent and sent replies of one store."""

    def __init__(
        self,
        store: Store,
        *,
        schedule: Schedule = DISPATCH,
        randomness: Randomness | None = None,
    ) -> None:
        """Use this store, and retry on this schedule."""
        self._store = store
        self._schedule = schedule
        self._randomness = randomness or SystemRandomness()
        self._dual = DualCursor(store, DUAL)

    def add(  # noqa: PLR0913 - all but what is said by name
        self,
        delivery: Delivery,
        text: str,
        *,
        key: str,
        is_stored: bool,
        is_over: bool = False,
        upto: int | None = None,
    ) -> bool:
        """Store a reply of an agent. Idempotent: False if its key is stored already.

        `upto`: the last message that the agent had processed; default: all. `is_stored`: the
        channel reads the store, so the reply counts as sent. `is_over`: the delivery was done
        before. Raises Superseded when another process ended the delivery.
        """
        body = text.encode(errors="replace")
        if len(body) > TEXT_BYTES_MAX:
            message = (
                f"text: the reply has {len(body)} bytes, more than {TEXT_BYTES_MAX}; "
                "it was not stored"
            )
            fix = "split it, or put it into a file"
            raise InvalidArgument(message, fix=fix, field="text")
        batch = delivery.batch
        reached = batch.position if upto is None else max(batch.previous, min(upto, batch.position))
        position = Arrival(reached)
        with self._store.transaction() as tx:
            # Lock order: the arrival counter, then the group. All transactions use it.
            seq = self._dual.next_sequence(tx) if is_stored else None
            if not is_over:
                self._dual.check(batch)
            tx.query("dispatch_outbox_forget", key=key, group=delivery.group)
            added = tx.query(
                "dispatch_outbox_add",
                key=key,
                group=delivery.group,
                number=batch.number,
                position=position,
                body=body,
                state=str(OutboxState.SENT if is_stored else OutboxState.PENDING),
                seq=seq,
            )
            if added and is_stored and not is_over:
                # A repeated key shows nothing new.
                self._dual.output_sent(replace(batch, position=position))
            crash_point("dispatch.reply.before_commit")
        crash_point("dispatch.reply.after_commit")
        return bool(added)

    def next_unsent(self) -> list[OutboxMessage]:
        """Return the first unsent reply of each group; it blocks the later ones."""
        return [_outbox_message(row) for row in self._store.read("dispatch_outbox_open")]

    def of_delivery(self, group: str, number: int) -> list[OutboxMessage]:
        """Return the replies to one delivery."""
        rows = self._store.read("dispatch_outbox_of", group=group, number=number)
        return [_outbox_message(row) for row in rows]

    def mark_sending(self, reply: OutboxMessage) -> bool:
        """Mark a reply as being sent; False when it was cancelled or sent before."""
        with self._store.transaction() as tx:
            # Lock the group first: a transaction that ends its delivery holds that lock.
            batch = next((b for b in self._dual.in_flight() if b.group == reply.group), None)
            if batch is not None and batch.number == reply.number:
                # Output counts up to the messages that the agent had when it replied.
                # The delivery may have ended: then the state of the reply decides.
                with suppress(Superseded):
                    self._dual.output_sent(replace(batch, position=Arrival(reply.position)))
            # Another process may have sent it since it was read.
            if not tx.query("dispatch_outbox_sending", **_attempt(reply)):
                return False
        crash_point("dispatch.send.after_mark")
        return True

    def mark_sent(self, reply: OutboxMessage) -> None:
        """Mark a reply as sent, and give it its position in the conversation."""
        with self._store.transaction() as tx:
            seq = self._dual.next_sequence(tx)
            tx.query("dispatch_outbox_sent", id=reply.id, seq=seq)

    def mark_rejected(self, reply: OutboxMessage, error: str) -> None:
        """Mark a reply as rejected by its channel; ambiguous if an earlier attempt may be shown."""
        is_ambiguous = reply.is_ambiguous
        self._settle(reply, OutboxState.MAYBE_SENT if is_ambiguous else OutboxState.FAILED, error)

    def mark_ambiguous(self, reply: OutboxMessage, error: str) -> None:
        """Mark a reply as ambiguous: the channel may have shown it."""
        self._settle(reply, OutboxState.MAYBE_SENT, error)

    def schedule_retry(self, reply: OutboxMessage, error: str, *, is_unseen: bool) -> None:
        """Schedule the next attempt; after the last one the reply is rejected or ambiguous.

        `is_unseen`: the channel knows that this attempt was not shown. A later attempt by another
        process takes precedence.
        """
        is_unseen = is_unseen and not reply.is_ambiguous
        seconds = self._schedule.delay(reply.attempts, self._randomness)
        if seconds is None:
            (self.mark_rejected if is_unseen else self.mark_ambiguous)(reply, error)
            return
        state = OutboxState.PENDING if is_unseen else OutboxState.SENDING
        params = {
            "error": _cut(error),
            "seconds": seconds,
            "state": str(state),
            **_attempt(reply),
        }
        with self._store.transaction() as tx, self._unsent_position(tx, reply, is_wanted=is_unseen):
            tx.query("dispatch_outbox_later", **params)

    def _settle(self, reply: OutboxMessage, state: OutboxState, error: str) -> None:
        is_unseen = state is OutboxState.FAILED
        with self._store.transaction() as tx, self._unsent_position(tx, reply, is_wanted=is_unseen):
            # It may have been shown, so it gets a position, marked as uncertain.
            seq = None if is_unseen else self._dual.next_sequence(tx)
            params = {
                "state": str(state),
                "error": _cut(error),
                "seq": seq,
                **_attempt(reply),
            }
            tx.query("dispatch_outbox_mark_ambiguous", **params)

    @contextmanager
    def _unsent_position(
        self, tx: Transaction, reply: OutboxMessage, *, is_wanted: bool
    ) -> Iterator[None]:
        """Move a delivery's output position back before a reply that was not shown."""
        flying = self._dual.in_flight() if is_wanted else []
        batch = next((each for each in flying if each.group == reply.group), None)
        if batch is None or batch.number != reply.number:
            yield
            return
        with suppress(Superseded):  # The delivery has ended.
            self._dual.check(batch)
        yield
        place = {"group": reply.group, "number": reply.number}
        ((seen,),) = tx.query("dispatch_outbox_seen", **place)
        with suppress(Superseded):
            self._dual.output_unsent(batch, seen)


def _attempt(reply: OutboxMessage) -> dict[str, int]:
    """Return the id and the attempt, which identify this attempt among later ones."""
    return {"id": reply.id, "attempts": reply.attempts}


def _cut(error: str) -> str:
    return error.replace("\0", "�")[:ERROR_CHARACTERS_MAX]


def _outbox_message(row: tuple[Any, ...]) -> OutboxMessage:
    id_, key, group, number, position, body, state, attempts, wait = row
    return OutboxMessage(
        id=id_,
        key=key,
        group=group,
        number=number,
        position=position,
        text=bytes(body).decode(),
        state=OutboxState(state),
        attempts=attempts,
        wait_seconds=float(wait),
    )
