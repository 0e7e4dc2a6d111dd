"""Deliveries: messages handed to agents, and what becomes of them, each step one transaction.

The processed cursor of a group moves when a delivery begins, with the way back recorded. Whether a
failure goes back is decided where the sayings are: if one may have been seen, nothing is repeated
but what came after it; else its sayings are taken back, and all of it is handed out again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from onceward.crash import crash_point
from onceward.cursors import Batch, DualCursor
from onceward.cursors.dual_models import Arrival
from onceward.dispatch.arrivals import Arrivals
from onceward.dispatch.groups import Groups
from onceward.dispatch.models import (
    BATCH_BYTES_MAX,
    BATCH_MESSAGES_MAX,
    DUAL,
    Delivery,
    DeliveryRecord,
    DeliveryState,
    Ending,
    Group,
    Message,
    TriggerKind,
)
from onceward.dispatch.triggers import calls
from onceward.errors import StoreBusy
from onceward.retries.schedule import DISPATCH, Schedule
from onceward.seams import Randomness, SystemRandomness
from onceward.stores import Store, Transaction

ERROR_CHARACTERS_MAX: Final = 2_000


class Deliveries:
    """What agents were handed, in one store."""

    def __init__(
        self,
        store: Store,
        *,
        schedule: Schedule = DISPATCH,
        randomness: Randomness | None = None,
    ) -> None:
        """Use this store, and wait after failures as the schedule says."""
        self._store = store
        self._schedule = schedule
        self._randomness = randomness or SystemRandomness()
        self._dual = DualCursor(store, DUAL)
        self._groups = Groups(store)
        self._arrivals = Arrivals(store)

    def waiting(self, group: Group) -> list[Message]:
        """Return the messages that are next for a group, if one of them calls its agent.

        Those that nobody called for stay where they are, as context for the next call.
        """
        return self._waiting(group)[1]

    def _waiting(self, group: Group) -> tuple[int, list[Message]]:
        """Return where the group stands, and the messages that are next."""
        if not self.is_waiting(self._groups.show(group.name)):
            return 0, []
        processed = self._dual.processed(group.name)
        return processed, self._next(group, processed, self._dual.read)

    def is_waiting(self, group: Group) -> bool:
        """Say whether there is something to hand out, apart from pauses and waits."""
        processed, read = self._dual.processed(group.name), self._dual.read
        if group.trigger is TriggerKind.ALWAYS:
            # What was read is handed out, though more may come all the time.
            rows = self._store.read("dispatch_message_last", group=group.name, upto=read)
            return bool(rows) and rows[0][0] > processed and group.called_seq > processed
        # A call that was not read yet is not handed out without it.
        return processed < group.called_seq <= read

    def begin(self, group: Group) -> Delivery | None:
        """Take what is next for a group into flight; None when there is nothing to hand out."""
        with self._store.transaction() as tx:
            stood, messages = self._waiting(group)
            if not messages:
                return None
            batch = self._dual.advance_group(
                group.name, messages[-1].seq, batch=[each.id for each in messages]
            )
            if batch.previous != stood:
                # A person moved the group between our look and our turn.
                message = f"{group.name} was moved meanwhile"
                raise StoreBusy(message, fix="look again")
            attempt = self._groups.show(group.name).attempts + 1
            delivery = self._noted(tx, batch, attempt, messages)
            crash_point("dispatch.begin.before_commit")
        crash_point("dispatch.begin.after_commit")
        return delivery

    def started(self, delivery: Delivery, agent: str) -> None:
        """Note which process has it, so that a later life can end that."""

        def operation(tx: Transaction) -> None:
            tx.query("dispatch_delivery_agent", id=delivery.id, agent=agent)
            tx.query("dispatch_group_agent", name=delivery.group, agent=agent)

        self._store.write(operation)

    def ended(self, group: str) -> None:
        """Note that a group's agent is no more."""
        self._store.write(lambda tx: tx.query("dispatch_group_agent", name=group, agent=None))

    def agents(self) -> dict[str, str]:
        """Return the processes that were agents of groups, as they were noted."""
        return dict(self._store.read("dispatch_group_agents"))

    def extend(self, delivery: Delivery, group: Group) -> Delivery | None:
        """Take follow-ups into the flight of work that goes on; None when there are none."""
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
        """End what the agent has finished, up to this message.

        Returns what it was handed and has not finished, as a delivery of its own; None if nothing.
        """
        batch = delivery.batch
        if upto <= batch.previous:
            return delivery  # Nothing of it is done.
        named = Arrival(min(upto, batch.position))
        with self._store.transaction() as tx:
            # The agent's own word counts: what it said may have been said with more in its hands.
            finished = self._dual.commit_group(replace(batch, position=named), is_literal=True)
            self._close(tx, delivery.id, DeliveryState.DONE, finished, None)
            tx.query("dispatch_group_fresh", name=delivery.group)
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
    ) -> Ending:
        """End work that failed: back and again later, given up, or kept if something was seen.

        `upto`: how far the agent had looked at what it was handed; what lies behind is not given
        up with it.
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

    def returned(self, delivery: Delivery) -> Ending:
        """Give back what nobody worked on: it is handed out again, and no failure is counted."""
        with self._store.transaction() as tx:
            return self._hand_back(tx, delivery.id, delivery.batch, "returned")

    def recover(self, group: str | None = None) -> list[tuple[DeliveryRecord, Ending]]:
        """End what was left in flight, of all groups or of one; nobody may work on it any more."""
        ended = []
        for record in self.running():
            if group not in (None, record.group):
                continue
            with self._store.transaction() as tx:
                batches = {each.group: each for each in self._dual.in_flight()}
                batch = batches.get(record.group)
                if batch is None or batch.number != record.number:
                    # The cursor has moved on without it; only the note was left behind.
                    self._close(tx, record.id, DeliveryState.ROLLED_BACK, record.last_seq, "lost")
                    continue
                ended.append((record, self._hand_back(tx, record.id, batch, "recovered")))
                crash_point("dispatch.recover.before_commit")
        return ended

    def running(self) -> list[DeliveryRecord]:
        """Return the deliveries whose end is not known."""
        return [record_of(row) for row in self._store.read("dispatch_delivery_running")]

    # --- inside a transaction -------------------------------------------------------------------

    def _next(self, group: Group, after: int, upto: int) -> list[Message]:
        """Return what is next, as much as is handed out at once, but never without a call."""
        found = self._slice(group.name, after, upto)
        while found and not any(calls(group, each.text) for each in found):
            more = self._slice(group.name, found[-1].seq, upto)
            if not more:
                break
            found += more
        return found

    def _slice(self, group: str, after: int, upto: int) -> list[Message]:
        found = self._arrivals.between(group, after, upto, BATCH_MESSAGES_MAX)
        size = 0
        for at, each in enumerate(found):
            size += len(each.text.encode())
            if size > BATCH_BYTES_MAX:
                return found[: max(1, at)]
        return found

    def _noted(
        self, tx: Transaction, batch: Batch, attempt: int, messages: Sequence[Message]
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
    ) -> Ending:
        said = error.replace("\0", "�")[:ERROR_CHARACTERS_MAX]
        batch, attempt = delivery.batch, delivery.attempt
        wait = None if is_final else self._schedule.delay(attempt, self._randomness)
        if wait is None:
            return self._give_up(tx, delivery.id, batch, reached, said)
        ending = self._hand_back(tx, delivery.id, batch, said)
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

    def _hand_back(self, tx: Transaction, id_: int, batch: Batch, error: str) -> Ending:
        """Go back, unless a saying may have been seen; what was said and is kept will be sent."""
        ended = self._dual.rollback_group(batch, reason=error[:200])
        said = {"group": batch.group, "number": batch.number, "after": ended.position}
        # What was said about messages that come again is said again too.
        cancelled = tx.query("dispatch_outbox_cancel", **said)
        # What was said about nothing that is in flight keeps nothing of it.
        if ended.ending == "kept" and ended.position > batch.previous:
            self._close(tx, id_, DeliveryState.KEPT, ended.position, error)
            tx.query("dispatch_group_fresh", name=batch.group)
            kept = DeliveryState.KEPT
            return Ending(state=kept, retry_seconds=None, cancelled=len(cancelled))
        self._close(tx, id_, DeliveryState.ROLLED_BACK, batch.position, error)
        return Ending(state=DeliveryState.ROLLED_BACK, retry_seconds=0.0, cancelled=len(cancelled))

    def _give_up(
        self, tx: Transaction, id_: int, batch: Batch, reached: Arrival, error: str
    ) -> Ending:
        """Let the group go on without these messages; a person decides about them."""
        ended = self._hand_back(tx, id_, batch, error)
        if ended.state is DeliveryState.KEPT:
            return ended
        # Behind that nobody can say anything of it any more, so that it is past for good.
        self._dual.commit_group(self._dual.advance_group(batch.group, reached))
        tx.query("dispatch_delivery_dead", id=id_, last_seq=reached)
        tx.query("dispatch_group_fresh", name=batch.group)
        return replace(ended, state=DeliveryState.DEAD, retry_seconds=None)

    def _close(
        self, tx: Transaction, id_: int, state: DeliveryState, upto: int, error: str | None
    ) -> None:
        tx.query("dispatch_delivery_end", id=id_, state=str(state), last_seq=upto, error=error)


def in_order(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return messages as people said them: by their times, where they have some, else by arrival.

    Only the text inside a batch is ordered so; what is handed out is decided by arrival alone.
    """
    return tuple(sorted(messages, key=lambda each: (_moment(each), each.seq)))


def _moment(message: Message) -> float:
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
    """Return a delivery as it is kept."""
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
