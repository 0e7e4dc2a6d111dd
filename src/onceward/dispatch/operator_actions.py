"""Operator actions: show the status of groups and the messages of dead letters; replay messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from onceward.cursors import DualCursor
from onceward.dispatch.deliveries import record_of
from onceward.dispatch.groups import Groups
from onceward.dispatch.inbox import Inbox
from onceward.dispatch.models import (
    BATCH_MESSAGES_MAX,
    DUAL,
    DeliveryRecord,
    Group,
    GroupMessage,
    GroupStatus,
)
from onceward.errors import InvalidArgument
from onceward.retries import DeadLetter
from onceward.stores import Store

#: Pending messages are counted up to this.
COUNT_MAX: Final = 10_000
#: Numbers are integers that both engines keep.
NUMBER_MAX: Final = 2**63 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupReplay:
    """The plan of a replay, or its result."""

    group: str
    #: The processed position before and after.
    from_position: int
    to_position: int
    #: How many messages are delivered again.
    messages: int
    #: Whether one of them triggers the agent; else they stay pending as context.
    is_called: bool


class Operators:
    """Reads and changes of dispatch for operators."""

    def __init__(self, store: Store) -> None:
        """Use this store."""
        self._store = store
        self._dual = DualCursor(store, DUAL)
        self._groups = Groups(store)
        self._arrivals = Inbox(store)

    # --- status --- -----------------------------------------------------------------------------

    def positions(self) -> tuple[int, int]:
        """Return the number of the last arrival, and how far arrivals were read."""
        ((arrived, read),) = self._store.read("dual_positions", dual=DUAL)
        return arrived, read

    def status(self) -> list[GroupStatus]:
        """Return the status of every group."""
        running = self._running()
        return [self._status(group, running) for group in self._groups.list()]

    def status_of(self, name: str) -> GroupStatus:
        """Return the status of one group; GroupMissing if there is none."""
        return self._status(self._groups.show(name), self._running())

    def _running(self) -> dict[str, DeliveryRecord]:
        rows = self._store.read("dispatch_delivery_running")
        return {record.group: record for record in map(record_of, rows)}

    def _status(self, group: Group, running: dict[str, DeliveryRecord]) -> GroupStatus:
        processed = self._dual.processed(group.name)
        upto, read_upto = self.positions()
        place = {"group": group.name, "arrived": upto, "read": read_upto}
        ((arrived, read),) = self._store.read("dispatch_group_positions", **place)
        ((unsent,),) = self._store.read("dispatch_outbox_unsent", group=group.name)
        return GroupStatus(
            group=group,
            arrived=arrived,
            read=read,
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
        """Return the latest deliveries of a group, newest first."""
        rows = self._store.read("dispatch_delivery_list", group=group, limit=limit)
        return [record_of(row) for row in rows]

    # --- dead letters ---------------------------------------------------------------------------

    def messages_of(self, letter: DeadLetter) -> list[GroupMessage]:
        """Return the messages of a chat letter; none of one that was redriven."""
        if letter.group is None or letter.first_seq is None or letter.last_seq is None:
            return []
        messages: list[GroupMessage] = []
        after = letter.first_seq - 1
        while page := self._arrivals.between(
            letter.group, after, letter.last_seq, BATCH_MESSAGES_MAX
        ):
            messages += page
            after = page[-1].seq
        return messages

    # --- replays --------------------------------------------------------------------------------

    def replay(
        self, name: str, since: int, *, reason: str, actor: str, is_dry_run: bool = False
    ) -> GroupReplay:
        """Deliver the messages of a group again, from arrival number `since` on.

        BatchInFlight while an agent works on the group. A dry run returns the plan.
        """
        group = self._groups.show(name)
        arrived, read = self.positions()
        if not 1 <= since <= read + 1:
            message = f"since: {since} is not between 1 and {read + 1}; nothing was changed"
            fix = f"take a number from `onceward dispatch tail {name}`"
            raise InvalidArgument(message, fix=fix, field="since")
        processed = self._dual.processed(name)
        _check_back(since, processed)
        if not is_dry_run:
            with self._store.transaction() as tx:
                processed = self._dual.move_group(name, since - 1, reason=reason, actor=actor)
                _check_back(since, processed)
                place = {"group": name, "since": since}
                tx.query("dead_replay_lock", **place)
                tx.query("dead_replay", **place, actor=actor, reason=reason)
                # No message arrives, so wake the dispatcher.
                tx.query("dispatch_group_nudge", name=name)
        return GroupReplay(
            group=name,
            from_position=processed,
            to_position=since - 1,
            messages=self._count(name, since - 1, min(processed, arrived)),
            is_called=group.called_seq >= since,
        )


def _check_back(since: int, processed: int) -> None:
    """Raise InvalidArgument if the replay would skip pending messages."""
    if since - 1 > processed:
        message = (
            f"since: the group has processed messages up to {processed}, so {since} would skip "
            "some; nothing was changed"
        )
        raise InvalidArgument(
            message, fix=f"pass {processed + 1} or an earlier number", field="since"
        )
