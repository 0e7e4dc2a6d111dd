"""Chats: the conversations of one server as people take part in them.

Owns how a message comes in, which part of a conversation somebody sees, and what is told of a group
meanwhile. Knows no route.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from onceward.dispatch.arrivals import PAGE_ITEMS_MAX, place_of
from onceward.dispatch.dispatcher import Dispatcher
from onceward.dispatch.models import (
    NAME_CHARACTERS_MAX,
    DeliveryRecord,
    Group,
    GroupStatus,
    Message,
    NewMessage,
    Received,
    Reply,
)
from onceward.errors import GroupMissing, InvalidCursor
from onceward.handle import Onceward

#: More than any place is.
PLACE_MAX: Final = 2**53 - 1
#: So many dead letters are counted.
LETTERS_MAX: Final = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """What goes on in a group."""

    status: GroupStatus
    #: What was handed to an agent last, and what became of it.
    newest: DeliveryRecord | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatPage:
    """A part of a conversation, and where its group stands."""

    items: tuple[Message | Reply, ...]
    #: Behind this comes what is said next.
    next_place: int
    #: Up to this went what was said before; None when there is nothing, or nobody asked.
    previous_place: int | None = None
    standing: Standing


@dataclass(frozen=True, kw_only=True, slots=True)
class Board:
    """Where every group stands."""

    #: Whether this server runs the agents; another one may.
    is_held: bool
    #: The number of the last arrival, and how far arrivals were read.
    arrived: int
    read: int
    groups: tuple[GroupStatus, ...]
    #: How many times each group's messages were given up, and nobody has decided about it.
    dead: Mapping[str, int]


class Chats:
    """The conversations of one server."""

    def __init__(self, ow: Onceward, dispatcher: Dispatcher) -> None:
        """Use this store and this dispatcher."""
        #: Not to be shown to who asks from elsewhere.
        self.store = ow.store
        self.dispatcher = dispatcher
        self._arrivals = dispatcher.arrivals
        self._operators = dispatcher.operators

    def on_change(self, tell: Callable[[str], None]) -> None:
        """Tell of each group whose conversation or state has changed, from any thread."""
        self.dispatcher.on_change = tell

    def stop(self) -> None:
        """Let the dispatcher end its agents; does not wait for that."""
        self.dispatcher.stop(seconds=0)

    def receive(self, message: NewMessage) -> Received:
        """Keep a message, and let its agent be called; harmless to repeat."""
        name_of(message.group)
        received = self._arrivals.receive(message)
        self.dispatcher.wake()
        if self.dispatcher.on_change is not None:
            self.dispatcher.on_change(message.group)
        return received

    def groups(self) -> list[Group]:
        """Return all groups, by name."""
        return self.dispatcher.groups.list()

    def board(self) -> Board:
        """Return where every group stands."""
        arrived, read = self._operators.positions()
        return Board(
            is_held=self.dispatcher.is_held,
            arrived=arrived,
            read=read,
            groups=tuple(self._operators.status()),
            dead=Counter(each.group for each in self._operators.letters(limit=LETTERS_MAX)),
        )

    def page(self, group: str, since: int, limit: int = PAGE_ITEMS_MAX) -> ChatPage:
        """Return what was said behind a place; InvalidCursor when nothing ever came so far."""
        standing = self._standing(group)
        arrived, _ = self._operators.positions()
        if since > arrived:
            message = f"since: {since} lies beyond everything that was said here"
            raise InvalidCursor(message, field="since")
        items, place = self._arrivals.conversation(group, since, min(limit, PAGE_ITEMS_MAX))
        return ChatPage(items=tuple(items), next_place=place, standing=standing)

    def last(self, group: str, limit: int, upto: int = PLACE_MAX) -> ChatPage:
        """Return what was said last, up to a place."""
        standing = self._standing(group)
        most = min(limit, PAGE_ITEMS_MAX)
        after = self._place(group, upto, most)
        items, place = self._arrivals.conversation(group, after, most)
        return ChatPage(
            items=tuple(each for each in items if place_of(each) <= upto),
            next_place=place,
            previous_place=after or None,
            standing=standing,
        )

    def pulse(self, group: str) -> tuple[int, Standing]:
        """Return what is another when anything in a conversation has changed."""
        return self._place(group, PLACE_MAX, 0), self._standing(group)

    def _place(self, group: str, upto: int, offset: int) -> int:
        rows = self.store.read(
            "dispatch_chat_place", group=group, upto=upto, limit=offset + 1, offset=offset
        )
        return int(rows[0][0]) if rows else 0

    def _standing(self, group: str) -> Standing:
        status = self._operators.status_of(name_of(group))
        newest = self._operators.deliveries(group, limit=1)
        return Standing(status=status, newest=newest[0] if newest else None)


def name_of(group: str) -> str:
    """Refuse what is the name of no group, and what not every engine can be asked for."""
    if "\0" in group or len(group) > NAME_CHARACTERS_MAX:
        raise GroupMissing(group)
    return group
