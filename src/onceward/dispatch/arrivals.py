"""Arrivals: messages as they come in, each once, and what people see of a conversation.

A message has an arrival number, drawn in the order of commits: whoever has seen one has seen all
before it. What agents say draws from the same numbers, so that one cursor reads a conversation.
"""

from __future__ import annotations

import re
from typing import Any, Final

from onceward.crash import crash_point
from onceward.cursors import DualCursor
from onceward.dispatch.groups import group_of
from onceward.dispatch.models import (
    DUAL,
    ID_CHARACTERS_MAX,
    SENDER_CHARACTERS_MAX,
    TEXT_BYTES_MAX,
    Message,
    NewMessage,
    Received,
    Reply,
)
from onceward.dispatch.triggers import calls
from onceward.errors import GroupMissing, InvalidArgument
from onceward.stores import Store

#: How many arrivals are seen at once.
SEEN_MAX: Final = 1_000
PAGE_ITEMS_MAX: Final = 200
_TIMESTAMP_CHARACTERS_MAX: Final = 64
_ODD: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class Arrivals:
    """What comes in."""

    def __init__(self, store: Store) -> None:
        """Use this store."""
        self._store = store
        self._dual = DualCursor(store, DUAL)

    def receive(self, message: NewMessage) -> Received:
        """Keep a message; durable when it returns, and harmless to repeat.

        One that came before under the same id is known; if its text differs, it was edited.
        """
        check(message)
        rows = self._store.read("dispatch_group_show", name=message.group)
        if not rows:
            raise GroupMissing(message.group)
        group = group_of(rows[0])
        named = {"channel": group.channel, "group": message.group, "id": message.id}
        content = {
            "sender": message.sender.encode(),
            "body": message.text.encode(),
            "sent_at": message.timestamp,
        }
        # Most redeliveries are recognised without writing anything.
        if known := self._known(self._store.read("dispatch_message_find", **named), content):
            return known
        with self._store.transaction() as tx:
            seq = self._dual.next_sequence(tx, message.group)
            # Behind the counter's lock nobody else can add it any more.
            before = tx.query("dispatch_message_find", **named)
            if before and (known := self._known(before, content)):
                return known  # The number is given back with nothing in it, which harms nobody.
            if before:
                tx.query("dispatch_message_edit", **named, **content, changed_seq=seq)
                received = Received(seq=before[0][0], fate="edited")
            else:
                tx.query("dispatch_message_add", **named, **content, seq=seq)
                received = Received(seq=seq, fate="new")
            if calls(group, message.text):
                tx.query("dispatch_group_called", name=message.group, seq=received.seq)
                if received.fate == "edited":
                    # It was read before, so nothing arrives that would be looked at.
                    tx.query("dispatch_group_nudge", name=message.group)
            crash_point("dispatch.receive.before_commit")
        crash_point("dispatch.receive.after_commit")
        return received

    @staticmethod
    def _known(rows: list[tuple[Any, ...]], content: dict[str, Any]) -> Received | None:
        if not rows:
            return None
        seq, sender, body, sent_at = rows[0]
        # A redelivery that lost its time is no edit.
        is_same = (bytes(sender), bytes(body)) == (content["sender"], content["body"])
        is_same = is_same and content["sent_at"] in (None, sent_at)
        return Received(seq=seq, fate="known") if is_same else None

    def see(self) -> list[str]:
        """Move the read cursor over what has come, and return the groups that it came for."""
        seen: dict[str, None] = {}
        while True:
            after = self._dual.read
            rows = self._store.read("dispatch_message_new", after=after, limit=SEEN_MAX)
            if not rows:
                return list(seen)
            seen.update(dict.fromkeys(group for _, group in rows))
            self._dual.advance_global(rows[-1][0])

    def between(self, group: str, after: int, upto: int, limit: int) -> list[Message]:
        """Return messages of a group in the order of arrival."""
        rows = self._store.read(
            "dispatch_message_between", group=group, after=after, upto=upto, limit=limit
        )
        return [_message(row) for row in rows]

    def conversation(
        self, group: str, after: int, limit: int = PAGE_ITEMS_MAX
    ) -> tuple[list[Message | Reply], int]:
        """Return what was said behind a place, by people and agents, and the place to go on from.

        An edited message comes again, under its id.
        """
        ((upto, _),) = self._store.read("dual_positions", dual=DUAL)
        place = {"group": group, "after": after, "upto": upto, "limit": limit}
        items: list[Message | Reply] = [
            _message(row) for row in self._store.read("dispatch_message_changed", **place)
        ]
        items += [_reply(row) for row in self._store.read("dispatch_outbox_said", **place)]
        items.sort(key=place_of)
        if len(items) > limit:
            del items[limit:]
            return items, place_of(items[-1])
        # Each read is full only up to its own last row; nothing lies beyond it in the other.
        return items, max(upto, after) if len(items) < limit else place_of(items[-1])


def place_of(item: Message | Reply) -> int:
    """Return where an item stands in its conversation."""
    return item.changed_seq if isinstance(item, Message) else item.seq


def check(message: NewMessage) -> None:
    """Refuse what is no message, by its field."""
    for field, text, most in (
        ("id", message.id, ID_CHARACTERS_MAX),
        ("sender", message.sender, SENDER_CHARACTERS_MAX),
        ("timestamp", message.timestamp or "-", _TIMESTAMP_CHARACTERS_MAX),
    ):
        if not 0 < len(text) <= most or not text.strip() or _ODD.search(text):
            message_ = f"{field}: must be 1 to {most} characters, none of them a control character"
            raise InvalidArgument(
                message_, fix="shorten it, or leave odd characters out", field=field
            )
    try:
        size = len(message.text.encode())
    except UnicodeEncodeError as exc:
        problem = "text: has half of a surrogate pair, which is no text"
        raise InvalidArgument(problem, fix="send valid Unicode", field="text") from exc
    if not 0 < size <= TEXT_BYTES_MAX:
        problem = f"text: has {size} bytes, and may have 1 to {TEXT_BYTES_MAX}"
        raise InvalidArgument(problem, fix="split it, or put it into a file", field="text")


def _message(row: tuple[Any, ...]) -> Message:
    seq, changed, channel, group, id_, sender, body, sent_at, received_at, edited_at = row
    return Message(
        seq=seq,
        changed_seq=changed,
        channel=channel,
        group=group,
        id=id_,
        sender=bytes(sender).decode(),
        text=bytes(body).decode(),
        timestamp=sent_at,
        received_at=received_at,
        edited_at=edited_at,
    )


def _reply(row: tuple[Any, ...]) -> Reply:
    seq, key, group, body, state, at = row
    return Reply(
        seq=seq,
        key=key,
        group=group,
        text=bytes(body).decode(),
        is_certain=state == "sent",
        at=at,
    )
