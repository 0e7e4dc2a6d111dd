"""Inbox: store each incoming message once, and read conversations in order of arrival.

Messages get arrival numbers in commit order, so that a reader at one number has read all earlier
ones. Replies draw from the same numbers, so that one cursor reads a conversation.
"""

from __future__ import annotations

import re
from typing import Any, Final

from onceward.cursors import DualCursor
from onceward.dispatch.groups import group_of
from onceward.dispatch.models import (
    DUAL,
    ID_CHARACTERS_MAX,
    SENDER_CHARACTERS_MAX,
    TEXT_BYTES_MAX,
    GroupMessage,
    NewMessage,
    Received,
    Reply,
)
from onceward.dispatch.triggers import calls
from onceward.errors import GroupMissing, InvalidArgument
from onceward.stores import Store
from onceward.system.crash_points import crash_point

#: How many messages one read takes.
SEEN_MAX: Final = 1_000
PAGE_ITEMS_MAX: Final = 200
_TIMESTAMP_CHARACTERS_MAX: Final = 64
_ODD: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class Inbox:
    """The incoming messages of one store."""

    def __init__(self, store: Store) -> None:
        """Use this store."""
        self._store = store
        self._dual = DualCursor(store, DUAL)

    def receive(self, message: NewMessage) -> Received:
        """Store a message durably. Idempotent by its id.

        A message with a known id and another text is an edit.
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
        # Most redeliveries are recognised without a write.
        if known := self._known(self._store.read("dispatch_message_find", **named), content):
            return known
        with self._store.transaction() as tx:
            seq = self._dual.next_sequence(tx, message.group)
            # Under the counter's lock no other transaction can add it.
            before = tx.query("dispatch_message_find", **named)
            if before and (known := self._known(before, content)):
                return known  # The unused number leaves a gap, which readers ignore.
            if before:
                tx.query("dispatch_message_edit", **named, **content, changed_seq=seq)
                received = Received(seq=before[0][0], fate="edited")
            else:
                tx.query("dispatch_message_add", **named, **content, seq=seq)
                received = Received(seq=seq, fate="new")
            if calls(group, message.text):
                tx.query("dispatch_group_called", name=message.group, seq=received.seq)
                if received.fate == "edited":
                    # It was read before, so no new arrival wakes the dispatcher.
                    tx.query("dispatch_group_nudge", name=message.group)
            crash_point("dispatch.receive.before_commit")
        crash_point("dispatch.receive.after_commit")
        return received

    @staticmethod
    def _known(rows: list[tuple[Any, ...]], content: dict[str, Any]) -> Received | None:
        if not rows:
            return None
        seq, sender, body, sent_at = rows[0]
        # A redelivery without its timestamp is no edit.
        is_same = (bytes(sender), bytes(body)) == (content["sender"], content["body"])
        is_same = is_same and content["sent_at"] in (None, sent_at)
        return Received(seq=seq, fate="known") if is_same else None

    def see(self) -> list[str]:
        """Advance the read cursor over new messages, and return their groups."""
        seen: dict[str, None] = {}
        while True:
            after = self._dual.read
            rows = self._store.read("dispatch_message_new", after=after, limit=SEEN_MAX)
            if not rows:
                return list(seen)
            seen.update(dict.fromkeys(group for _, group in rows))
            self._dual.advance_global(rows[-1][0])

    def between(self, group: str, after: int, upto: int, limit: int) -> list[GroupMessage]:
        """Return messages of a group in the order of arrival."""
        rows = self._store.read(
            "dispatch_message_between", group=group, after=after, upto=upto, limit=limit
        )
        return [_message(row) for row in rows]

    def conversation(
        self, group: str, after: int, limit: int = PAGE_ITEMS_MAX
    ) -> tuple[list[GroupMessage | Reply], int]:
        """Return messages and replies after a position, and the position of the next page.

        An edited message is returned again, under its id.
        """
        ((upto, _),) = self._store.read("dual_positions", dual=DUAL)
        place = {"group": group, "after": after, "upto": upto, "limit": limit}
        items: list[GroupMessage | Reply] = [
            _message(row) for row in self._store.read("dispatch_message_changed", **place)
        ]
        items += [_reply(row) for row in self._store.read("dispatch_outbox_page", **place)]
        items.sort(key=place_of)
        if len(items) > limit:
            del items[limit:]
            return items, place_of(items[-1])
        # Each query is complete only up to its own last row, so later rows of the other are
        # dropped.
        return items, max(upto, after) if len(items) < limit else place_of(items[-1])


def place_of(item: GroupMessage | Reply) -> int:
    """Return the position of an item in its conversation."""
    return item.changed_seq if isinstance(item, GroupMessage) else item.seq


def check(message: NewMessage) -> None:
    """Raise InvalidArgument for the first invalid field."""
    for field, text, most in (
        ("id", message.id, ID_CHARACTERS_MAX),
        ("sender", message.sender, SENDER_CHARACTERS_MAX),
        ("timestamp", message.timestamp or "-", _TIMESTAMP_CHARACTERS_MAX),
    ):
        if not 0 < len(text) <= most or not text.strip() or _ODD.search(text):
            message_ = (
                f"{field}: must be 1 to {most} characters, not all blank, without control "
                f"characters and unpaired surrogates, not {text!r:.60}; nothing was stored"
            )
            fix = f"send such a text; it has {len(text)} characters now"
            raise InvalidArgument(message_, fix=fix, field=field)
    try:
        size = len(message.text.encode())
    except UnicodeEncodeError as exc:
        problem = "text: contains an unpaired surrogate, so it is not valid Unicode"
        raise InvalidArgument(problem, fix="send valid Unicode", field="text") from exc
    if not 0 < size <= TEXT_BYTES_MAX:
        problem = f"text: must have 1 to {TEXT_BYTES_MAX} bytes, not {size}; nothing was stored"
        fix = "split it, or put it into a file" if size else "send a text that is not empty"
        raise InvalidArgument(problem, fix=fix, field="text")


def _message(row: tuple[Any, ...]) -> GroupMessage:
    seq, changed, channel, group, id_, sender, body, sent_at, received_at, edited_at = row
    return GroupMessage(
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
