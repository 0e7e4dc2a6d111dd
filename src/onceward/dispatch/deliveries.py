"""Deliveries: which messages an agent has been given, and what became of them.

A delivery begins with the waiting messages, may be extended by later ones (follow-ups), and ends
done or failed. Each of these is one transaction.

The processed cursor of a group moves when a delivery begins; the position to roll back to is
recorded. After a failure the outbox decides: if a reply may have been shown, only messages after it
are delivered again; else the replies are cancelled and all messages are delivered again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from onceward.cursors import DualBatch, DualCursor
from onceward.cursors.dual_models import Arrival
from onceward.dispatch.groups import Groups
from onceward.dispatch.inbox import Inbox
from onceward.dispatch.models import (
    BATCH_BYTES_MAX,
    BATCH_MESSAGES_MAX,
    DUAL,
    Delivery,
    DeliveryOutcome,
    DeliveryRecord,
    DeliveryState,
    Group,
    GroupMessage,
    TriggerKind,
)
from onceward.dispatch.triggers import calls
from onceward.errors import StoreBusy
from onceward.retries.chat_letters import write_chat_letter
from onceward.retries.models import FAILURES_MAX, ChatRange, FailedAttempt, to_utc
from onceward.retries.retry_schedule import DISPATCH, Schedule
from onceward.stores import Store, Transaction
from onceward.system import Randomness, SystemRandomness
from onceward.system.crash_points import crash_point

ERROR_CHARACTERS_MAX: Final = 2_000
#: What the dispatcher records of deliveries that ended without a failed attempt.
NOT_COUNTED: Final = ("returned", "recovered", "lost")


class Deliveries:
    """The deliveries of one store."""

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
        self._groups = Groups(store)
        self._arrivals = Inbox(store)

    def waiting(self, group: Group) -> list[GroupMessage]:
        """Return the next messages of a group, if one of them triggers its agent.

        Messages without a trigger stay pending, as context for the next one that triggers.
        """
        return self._waiting(group)[1]

    def _waiting(self, group: Group) -> tuple[int, list[GroupMessage]]:
        """Return the processed position of a group, and its next messages."""
        if not self.is_waiting(self._groups.show(group.name)):
            return 0, []
        processed = self._dual.processed(group.name)
        return processed, self._next(group, processed, self._dual.read)

    def is_waiting(self, group: Group) -> bool:
        """Return whether messages can be delivered, ignoring pauses and backoff."""
        processed, read = self._dual.processed(group.name), self._dual.read
        if group.trigger is TriggerKind.ALWAYS:
            # Messages that were read are delivered, even while more arrive.
            rows = self._store.read("dispatch_message_last", group=group.name, upto=read)
            return bool(rows) and rows[0][0] > processed and group.called_seq > processed
        # A trigger that was not read yet is not delivered in part.
        return processed < group.called_seq <= read

    def begin(self, group: Group) -> Delivery | None:
        """Begin a delivery of the next messages of a group; None when there are none."""
        with self._store.transaction() as tx:
            stood, messages = self._waiting(group)
            if not messages:
                return None
            batch = self._dual.advance_group(
                group.name, messages[-1].seq, batch=[each.id for each in messages]
            )
            if batch.previous != stood:
                # An operator moved the group between the read and the lock.
                message = (
                    f"an operator moved the position of group {group.name} while its messages were "
                    "read; nothing was changed"
                )
                raise StoreBusy(message, fix="try again")
            attempt = self._groups.show(group.name).attempts + 1
            delivery = self._noted(tx, batch, attempt, messages)
            crash_point("dispatch.begin.before_commit")
        crash_point("dispatch.begin.after_commit")
        return delivery

    def started(self, delivery: Delivery, agent: str) -> None:
        """Record the process of the agent, so that a restarted dispatcher can end it."""

        def operation(tx: Transaction) -> None:
            tx.query("dispatch_delivery_agent", id=delivery.id, agent=agent)
            tx.query("dispatch_group_agent", name=delivery.group, agent=agent)

        self._store.write(operation)

    def ended(self, group: str) -> None:
        """Record that a group has no agent process."""
        self._store.write(lambda tx: tx.query("dispatch_group_agent", name=group, agent=None))

    def agents(self) -> dict[str, str]:
        """Return the recorded agent processes, by group."""
        return dict(self._store.read("dispatch_group_agents"))

    def extend(self, delivery: Delivery, group: Group) -> Delivery | None:
        """Add new messages to a running delivery; None when there are none.

        The returned delivery's `messages` are only the new ones, to be sent to the agent; its
        `batch` covers all messages since the delivery began.
        """
        with self._store.transaction() as tx:
            messages = self.waiting(group)
            if not messages:
                return None
            upto = messages[-1].seq
            items = [each.id for each in messages]
            batch = self._dual.advance_group(group.name, upto, batch=items, extends=delivery.batch)
            tx.query("dispatch_delivery_extend", id=delivery.id, last_seq=upto)
        crash_point("dispatch.extend.after_commit")
        return replace(delivery, batch=batch, messages=in_order(messages))

    def done(self, delivery: Delivery, upto: int) -> Delivery | None:
        """End a delivery up to this message, which the agent has finished.

        Returns the unfinished rest as another delivery; None if there is none.
        """
        batch = delivery.batch
        if upto <= batch.previous:
            return delivery  # Nothing of it is done.
        named = Arrival(min(upto, batch.position))
        with self._store.transaction() as tx:
            # The agent's position counts, even if it replied when it had more messages.
            finished = self._dual.commit_group(replace(batch, position=named), is_literal=True)
            self._close(tx, delivery.id, DeliveryState.DONE, finished, None)
            tx.query("dispatch_group_reset_failures", name=delivery.group)
            rest = None
            left = self._slice(delivery.group, finished, batch.position)
            if left:
                items = [each.id for each in left]
                again = self._dual.advance_group(delivery.group, batch.position, batch=items)
                rest = self._noted(tx, again, 1, left)
            crash_point("dispatch.done.before_commit")
        crash_point("dispatch.done.after_commit")
        return rest

    def failed(
        self, delivery: Delivery, error: str, *, is_final: bool = False, upto: int | None = None
    ) -> DeliveryOutcome:
        """End a failed delivery: retried later, a dead letter, or kept if a reply may be shown.

        `upto`: the last message that the agent had processed. Messages after it do not become
        part of the dead letter.
        """
        batch = delivery.batch
        if upto is not None and upto > batch.previous:
            reached = Arrival(min(upto, batch.position))
        else:
            reached = batch.position
        with self._store.transaction() as tx:
            ending = self._fail(tx, delivery, error, reached, is_final=is_final)
            crash_point("dispatch.fail.before_commit")
        crash_point("dispatch.fail.after_commit")
        return ending

    def returned(self, delivery: Delivery) -> DeliveryOutcome:
        """Roll a delivery back without counting a failure, since no agent worked on it."""
        with self._store.transaction() as tx:
            return self._roll_back_or_keep(tx, delivery.id, delivery.batch, "returned")

    def recover(self, group: str | None = None) -> list[tuple[DeliveryRecord, DeliveryOutcome]]:
        """Roll back deliveries that a crash left in flight, of one group or of all.

        Call it only when no agent works on them.
        """
        ended = []
        for record in self.running():
            if group not in (None, record.group):
                continue
            with self._store.transaction() as tx:
                batches = {each.group: each for each in self._dual.in_flight()}
                batch = batches.get(record.group)
                if batch is None or batch.number != record.number:
                    # The cursor has moved on without it; only the record is left.
                    self._close(tx, record.id, DeliveryState.ROLLED_BACK, record.last_seq, "lost")
                    continue
                ended.append((record, self._roll_back_or_keep(tx, record.id, batch, "recovered")))
                crash_point("dispatch.recover.before_commit")
        return ended

    def running(self) -> list[DeliveryRecord]:
        """Return the deliveries that are running, or were when a process died."""
        return [record_of(row) for row in self._store.read("dispatch_delivery_running")]

    # --- inside a transaction -------------------------------------------------------------------

    def _next(self, group: Group, after: int, upto: int) -> list[GroupMessage]:
        """Return the next messages up to the delivery limits, but at least up to a trigger."""
        found = self._slice(group.name, after, upto)
        while found and not any(calls(group, each.text) for each in found):
            more = self._slice(group.name, found[-1].seq, upto)
            if not more:
                break
            found += more
        return found

    def _slice(self, group: str, after: int, upto: int) -> list[GroupMessage]:
        found = self._arrivals.between(group, after, upto, BATCH_MESSAGES_MAX)
        size = 0
        for at, each in enumerate(found):
            size += len(each.text.encode())
            if size > BATCH_BYTES_MAX:
                return found[: max(1, at)]
        return found

    def _noted(
        self, tx: Transaction, batch: DualBatch, attempt: int, messages: Sequence[GroupMessage]
    ) -> Delivery:
        ((number,),) = tx.query(
            "dispatch_delivery_begin",
            group=batch.group,
            number=batch.number,
            attempt=attempt,
            first_seq=messages[0].seq,
            last_seq=batch.position,
        )
        return Delivery(
            id=number,
            group=batch.group,
            batch=batch,
            attempt=attempt,
            messages=in_order(messages),
            first_seq=messages[0].seq,
        )

    def _fail(
        self, tx: Transaction, delivery: Delivery, error: str, reached: Arrival, *, is_final: bool
    ) -> DeliveryOutcome:
        said = error.replace("\0", "�")[:ERROR_CHARACTERS_MAX]
        batch, attempt = delivery.batch, delivery.attempt
        wait = None if is_final else self._schedule.delay(attempt, self._randomness)
        if wait is None:
            return self._give_up(tx, delivery, reached, said)
        ending = self._roll_back_or_keep(tx, delivery.id, batch, said)
        if ending.state is DeliveryState.KEPT:
            return ending
        tx.query(
            "dispatch_group_failed",
            name=batch.group,
            attempt=attempt,
            error=said,
            seconds=float(wait),
        )
        return replace(ending, retry_seconds=wait)

    def _roll_back_or_keep(
        self, tx: Transaction, id_: int, batch: DualBatch, error: str
    ) -> DeliveryOutcome:
        """Roll back, unless a reply may have been shown; replies that are kept will be sent."""
        ended = self._dual.rollback_group(batch, reason=error[:200])
        said = {"group": batch.group, "number": batch.number, "after": ended.position}
        # Replies to messages that are delivered again are cancelled.
        cancelled = tx.query("dispatch_outbox_cancel", **said)
        # A reply that concerns no message in flight keeps none of them.
        if ended.ending == "kept" and ended.position > batch.previous:
            self._close(tx, id_, DeliveryState.KEPT, ended.position, error)
            tx.query("dispatch_group_reset_failures", name=batch.group)
            kept = DeliveryState.KEPT
            return DeliveryOutcome(state=kept, retry_seconds=None, cancelled=len(cancelled))
        self._close(tx, id_, DeliveryState.ROLLED_BACK, batch.position, error)
        return DeliveryOutcome(
            state=DeliveryState.ROLLED_BACK, retry_seconds=0.0, cancelled=len(cancelled)
        )

    def _give_up(
        self, tx: Transaction, delivery: Delivery, reached: Arrival, error: str
    ) -> DeliveryOutcome:
        """Make these messages a dead letter, so that the group continues with the next ones."""
        id_, batch = delivery.id, delivery.batch
        ended = self._roll_back_or_keep(tx, id_, batch, error)
        if ended.state is DeliveryState.KEPT:
            return ended
        # After this commit no late reply can change the position.
        self._dual.commit_group(self._dual.advance_group(batch.group, reached))
        tx.query("dispatch_delivery_dead", id=id_, last_seq=reached)
        first = delivery.first_seq
        chat = ChatRange(group=batch.group, first_seq=first, last_seq=reached, delivery=id_)
        earlier = self._earlier_failures(tx, delivery)
        write_chat_letter(tx, chat, error, attempt=delivery.attempt, earlier=earlier)
        tx.query("dispatch_group_reset_failures", name=batch.group)
        return replace(ended, state=DeliveryState.DEAD, retry_seconds=None)

    def _earlier_failures(self, tx: Transaction, delivery: Delivery) -> list[FailedAttempt]:
        """Return the failed attempts at these messages before the last one, oldest first."""
        found: list[FailedAttempt] = []
        attempt = delivery.attempt - 1
        place = {
            "group": delivery.group,
            "number": delivery.batch.number,
            "limit": 2 * FAILURES_MAX,
        }
        for tried, at, error, first, state in tx.query("dispatch_delivery_failures", **place):
            # A replay may begin at messages that were completed at the same attempt.
            is_failure = state == DeliveryState.ROLLED_BACK and error not in NOT_COUNTED
            if is_failure and (tried, first) == (attempt, delivery.first_seq):
                found.append(FailedAttempt(attempt=tried, at=to_utc(at), error=error[:200]))
                attempt -= 1
        return found[::-1][-FAILURES_MAX:]

    def _close(
        self, tx: Transaction, id_: int, state: DeliveryState, upto: int, error: str | None
    ) -> None:
        tx.query("dispatch_delivery_end", id=id_, state=str(state), last_seq=upto, error=error)


def in_order(messages: Sequence[GroupMessage]) -> tuple[GroupMessage, ...]:
    """Return messages by their timestamps, else by arrival.

    Only the order inside a delivery; arrival alone decides what is delivered.
    """
    return tuple(sorted(messages, key=lambda each: (_moment(each), each.seq)))


def _moment(message: GroupMessage) -> float:
    for text in (message.timestamp, message.received_at):
        if text:
            try:
                found = datetime.fromisoformat(text)
            except ValueError:
                continue
            zoned = found if found.tzinfo else found.replace(tzinfo=UTC)
            try:
                return zoned.timestamp()
            except (OverflowError, ValueError):
                continue
    return 0.0


def record_of(row: tuple[Any, ...]) -> DeliveryRecord:
    """Return the delivery of a row."""
    id_, group, number, state, attempt, first, last, agent, error, started_at, ended_at = row
    return DeliveryRecord(
        id=id_,
        group=group,
        number=number,
        state=DeliveryState(state),
        attempt=attempt,
        first_seq=first,
        last_seq=last,
        agent=agent,
        error=error,
        started_at=started_at,
        ended_at=ended_at,
    )
