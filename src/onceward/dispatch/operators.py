"""Operators: what people look at and decide: where groups stand, dead letters, replays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from onceward.crash import crash_point
from onceward.cursors import DualCursor
from onceward.dispatch.arrivals import Arrivals
from onceward.dispatch.deliveries import record_of
from onceward.dispatch.groups import Groups
from onceward.dispatch.models import (
    BATCH_MESSAGES_MAX,
    DUAL,
    DeliveryRecord,
    DeliveryState,
    Group,
    GroupStatus,
    Message,
)
from onceward.errors import DeadLetterMissing, InvalidArgument
from onceward.stores import Store

#: Nobody needs to know exactly how many wait beyond this.
COUNT_MAX: Final = 10_000
#: Numbers are integers that both engines keep.
NUMBER_MAX: Final = 2**63 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Replay:
    """What a replay repeats, or would."""

    group: str
    #: Where the group stood, and where it stands then.
    from_position: int
    to_position: int
    #: How many messages are handed out again; none if it moves onward.
    messages: int
    #: Whether one of them calls the agent; else they wait as context.
    is_called: bool


class Operators:
    """The view and the hands of a person."""

    def __init__(self, store: Store) -> None:
        """Use this store."""
        self._store = store
        self._dual = DualCursor(store, DUAL)
        self._groups = Groups(store)
        self._arrivals = Arrivals(store)

    # --- looking --------------------------------------------------------------------------------

    def positions(self) -> tuple[int, int]:
        """Return the number of the last arrival, and how far arrivals were read."""
        ((arrived, read),) = self._store.read("dual_positions", dual=DUAL)
        return arrived, read

    def status(self) -> list[GroupStatus]:
        """Return where every group stands."""
        running = self._running()
        return [self._status(group, running) for group in self._groups.list()]

    def status_of(self, name: str) -> GroupStatus:
        """Return where one group stands; GroupMissing if there is none."""
        return self._status(self._groups.show(name), self._running())

    def _running(self) -> dict[str, DeliveryRecord]:
        rows = self._store.read("dispatch_delivery_running")
        return {record.group: record for record in map(record_of, rows)}

    def _status(self, group: Group, running: dict[str, DeliveryRecord]) -> GroupStatus:
        processed = self._dual.processed(group.name)
        arrived, _ = self.positions()
        ((unsent,),) = self._store.read("dispatch_outbox_unsent", group=group.name)
        return GroupStatus(
            group=group,
            processed=processed,
            pending=self._count(group.name, processed, arrived),
            is_called=group.called_seq > processed,
            in_flight=running.get(group.name),
            unsent=unsent,
        )

    def _count(self, group: str, after: int, upto: int) -> int:
        place = {"group": group, "after": after, "upto": upto, "limit": COUNT_MAX}
        return int(self._store.read("dispatch_count_between", **place)[0][0])

    def deliveries(self, group: str, limit: int = 50) -> list[DeliveryRecord]:
        """Return what was handed out for a group lately, the newest first."""
        rows = self._store.read("dispatch_delivery_list", group=group, limit=limit)
        return [record_of(row) for row in rows]

    # --- dead letters ---------------------------------------------------------------------------

    def letters(self, after: int = 0, limit: int = 100) -> list[DeliveryRecord]:
        """Return what was given up and nobody decided about, the oldest first."""
        place = {"after": min(after, NUMBER_MAX), "limit": limit}
        rows = self._store.read("dispatch_delivery_letters", **place)
        return [record_of(row) for row in rows]

    def letter(self, number: int) -> tuple[DeliveryRecord, list[Message]]:
        """Return a dead letter and its messages."""
        rows = self._store.read("dispatch_delivery_show", id=min(number, NUMBER_MAX))
        if not rows or rows[0][3] not in (
            DeliveryState.DEAD,
            DeliveryState.REDRIVEN,
            DeliveryState.DROPPED,
        ):
            message = f"no dead letter of dispatch has the number {number}"
            raise DeadLetterMissing(message, fix="see `onceward dispatch dead list`")
        record = record_of(rows[0])
        messages: list[Message] = []
        after = record.first_seq - 1
        while page := self._arrivals.between(
            record.group, after, record.last_seq, BATCH_MESSAGES_MAX
        ):
            messages += page
            after = page[-1].seq
        return record, messages

    def redrive(self, number: int) -> list[Message]:
        """Let the messages of a dead letter arrive anew; returns them, or nothing if it is over."""
        record, messages = self.letter(number)
        with self._store.transaction() as tx:
            # The counter first, as everybody takes it.
            drawn = [self._dual.next_sequence(tx, record.group) for _ in messages]
            decided = tx.query(
                "dispatch_delivery_decide", id=number, state=str(DeliveryState.REDRIVEN)
            )
            if not decided:
                return []  # Somebody was faster; the numbers are given back with nothing in them.
            for message, seq in zip(messages, drawn, strict=True):
                place = {"group": record.group, "old": message.seq}
                tx.query("dispatch_message_renumber", **place, seq=seq)
            if drawn:
                # Whatever called the agent then, a person does now.
                tx.query("dispatch_group_called", name=record.group, seq=drawn[-1])
            crash_point("dispatch.redrive.before_commit")
        return messages

    def drop(self, number: int) -> bool:
        """Give a dead letter up for good; False when somebody decided before."""
        self.letter(number)
        state = str(DeliveryState.DROPPED)
        return bool(
            self._store.write(
                lambda tx: tx.query("dispatch_delivery_decide", id=number, state=state)
            )
        )

    # --- replays --------------------------------------------------------------------------------

    def replay(
        self, name: str, since: int, *, reason: str, actor: str, is_dry_run: bool = False
    ) -> Replay:
        """Hand the messages of a group out again, from arrival number `since` on.

        Refused while an agent works on the group. A dry run says what it would repeat.
        """
        group = self._groups.show(name)
        arrived, read = self.positions()
        if not 1 <= since <= read + 1:
            message = f"since: {since} is not between 1 and {read + 1}"
            raise InvalidArgument(message, fix="take a number from `onceward dispatch tail`")
        stood = self._dual.processed(name)
        _check_back(since, stood)
        if not is_dry_run:
            with self._store.transaction() as tx:
                stood = self._dual.move_group(name, since - 1, reason=reason, actor=actor)
                _check_back(since, stood)
                tx.query("dispatch_delivery_replayed", group=name, since=since)
                # Nothing arrives, so the dispatcher must be told.
                tx.query("dispatch_group_nudge", name=name)
        return Replay(
            group=name,
            from_position=stood,
            to_position=since - 1,
            messages=self._count(name, since - 1, min(stood, arrived)),
            is_called=group.called_seq >= since,
        )


def _check_back(since: int, stood: int) -> None:
    """Refuse to skip what nobody has handled: that is no replay."""
    if since - 1 > stood:
        message = f"since: the group has handled messages up to {stood}, so {since} would skip some"
        raise InvalidArgument(message, fix=f"begin at {stood + 1} or before", field="since")
