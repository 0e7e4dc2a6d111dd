"""Conversations: post messages, read pages of a conversation, and show the state of its group.

The interface between a server's dispatcher and its HTTP routes or terminal commands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from onceward.client import Onceward
from onceward.dispatch.dispatcher import Dispatcher
from onceward.dispatch.inbox import PAGE_ITEMS_MAX, place_of
from onceward.dispatch.models import (
    NAME_CHARACTERS_MAX,
    DeliveryRecord,
    Group,
    GroupMessage,
    GroupStatus,
    NewMessage,
    Received,
    Reply,
)
from onceward.errors import GroupMissing, InvalidCursor

#: Above the position of any item.
PLACE_MAX: Final = 2**53 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupActivity:
    """The state of a group, and its latest delivery."""

    status: GroupStatus
    #: The latest delivery.
    newest: DeliveryRecord | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatPage:
    """A page of a conversation, and the state of its group."""

    items: tuple[GroupMessage | Reply, ...]
    #: The next page begins after this position.
    next_place: int
    #: The previous page ends at this position; None when there is none, or on `page`.
    previous_place: int | None = None
    activity: GroupActivity


@dataclass(frozen=True, kw_only=True, slots=True)
class DispatchStatus:
    """The status of every group."""

    #: Whether this server holds the dispatcher lease; another server may.
    is_held: bool
    #: The number of the last arrival, and how far arrivals were read.
    arrived: int
    read: int
    groups: tuple[GroupStatus, ...]
    #: How many dead letters each group has.
    dead: Mapping[str, int]


class Chats:
    """The conversations of one server."""

    def __init__(self, ow: Onceward, dispatcher: Dispatcher) -> None:
        """Use this store and this dispatcher."""
        #: Not for remote callers.
        self.store = ow.store
        self.dispatcher = dispatcher
        self._arrivals = dispatcher.arrivals
        self._operators = dispatcher.operators
        self._dead = ow.dead

    def on_change(self, tell: Callable[[str], None]) -> None:
        """Set the callback for changed groups; it may be called from any thread."""
        self.dispatcher.on_change = tell

    def stop(self) -> None:
        """Stop the dispatcher and its agents, without waiting."""
        self.dispatcher.stop(seconds=0)

    def receive(self, message: NewMessage) -> Received:
        """Store a message and wake the dispatcher. Idempotent by the message id."""
        name_of(message.group)
        received = self._arrivals.receive(message)
        self.dispatcher.wake()
        if self.dispatcher.on_change is not None:
            self.dispatcher.on_change(message.group)
        return received

    def groups(self) -> list[Group]:
        """Return all groups, by name."""
        return self.dispatcher.groups.list()

    def board(self) -> DispatchStatus:
        """Return the status of every group."""
        arrived, read = self._operators.positions()
        return DispatchStatus(
            is_held=self.dispatcher.is_held,
            arrived=arrived,
            read=read,
            groups=tuple(self._operators.status()),
            dead=self._dead.count_by_group(),
        )

    def page(self, group: str, since: int, limit: int = PAGE_ITEMS_MAX) -> ChatPage:
        """Return the items after a position; InvalidCursor if no item has reached the position."""
        activity = self._activity(group)
        arrived, _ = self._operators.positions()
        if since > arrived:
            message = f"since: {since} is after the last item of this conversation"
            fix = "pass a number that this conversation has shown, or 0 for its start"
            raise InvalidCursor(message, fix=fix, field="since")
        items, place = self._arrivals.conversation(group, since, min(limit, PAGE_ITEMS_MAX))
        return ChatPage(items=tuple(items), next_place=place, activity=activity)

    def last(self, group: str, limit: int, upto: int = PLACE_MAX) -> ChatPage:
        """Return the last items, up to a position."""
        activity = self._activity(group)
        most = min(limit, PAGE_ITEMS_MAX)
        after = self._place(group, upto, most)
        items, place = self._arrivals.conversation(group, after, most)
        return ChatPage(
            items=tuple(each for each in items if place_of(each) <= upto),
            next_place=place,
            previous_place=after or None,
            activity=activity,
        )

    def fingerprint(self, group: str) -> tuple[int, GroupActivity]:
        """Return a fingerprint of a conversation, which changes with it."""
        return self._place(group, PLACE_MAX, 0), self._activity(group)

    def _place(self, group: str, upto: int, offset: int) -> int:
        rows = self.store.read(
            "dispatch_conversation_start", group=group, upto=upto, limit=offset + 1, offset=offset
        )
        return int(rows[0][0]) if rows else 0

    def _activity(self, group: str) -> GroupActivity:
        status = self._operators.status_of(name_of(group))
        newest = self._operators.deliveries(group, limit=1)
        return GroupActivity(status=status, newest=newest[0] if newest else None)


def name_of(group: str) -> str:
    """Return a group name; GroupMissing for one that no group can have."""
    if "\0" in group or len(group) > NAME_CHARACTERS_MAX:
        raise GroupMissing(group)
    return group
