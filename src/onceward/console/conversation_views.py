"""Conversation views: groups, deliveries, messages and dead letters as JSON for the API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson

from onceward.dispatch.models import DeliveryRecord, Group, GroupMessage, GroupStatus
from onceward.stores import Row, Store

#: Maximum length of a message's text in a list.
TEXT_CHARACTERS_MAX: Final = 2_000
LINE_CHARACTERS_MAX: Final = 200
DELIVERIES_MAX: Final = 50
REPLIES_MAX: Final = 50
MOVES_MAX: Final = 20
#: Messages of a dead letter, or of a replay, that a preview shows.
SAMPLE_MAX: Final = 5
MESSAGES_MAX: Final = 50


def group_version(group: Group) -> str:
    """Return a version that changes when a group is paused or resumed."""
    return "paused" if group.is_paused else "open"


def plain_group(status: GroupStatus) -> dict[str, Any]:
    """Return a group's status as JSON."""
    group = status.group
    return {
        "name": group.name,
        "channel": group.channel,
        "command": list(group.command),
        "trigger": str(group.trigger),
        "word": group.word,
        "workdir": group.workdir,
        "idle_seconds": group.idle_seconds,
        "hard_seconds": group.hard_seconds,
        "is_paused": group.is_paused,
        "processed": status.processed,
        "pending": status.pending,
        "is_called": status.is_called,
        "in_flight": None if status.in_flight is None else plain_delivery(status.in_flight),
        "unsent": status.unsent,
        "attempts": group.attempts,
        "retry_at": group.retry_at if group.wait_seconds > 0 else None,
        "last_error": group.last_error,
        "version": group_version(group),
    }


def plain_delivery(record: DeliveryRecord) -> dict[str, Any]:
    """Return a delivery to an agent and its result as JSON."""
    return {
        "id": record.id,
        "group": record.group,
        "number": record.number,
        "state": str(record.state),
        "attempt": record.attempt,
        "first_seq": record.first_seq,
        "last_seq": record.last_seq,
        "error": record.error,
        "started_at": record.started_at,
        "ended_at": record.ended_at,
        "agent": _agent(record.agent),
    }


def _agent(text: str | None) -> dict[str, Any] | None:
    """Return the agent process of a delivery as JSON."""
    try:
        found = orjson.loads(text or "null")
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def plain_message(message: GroupMessage, characters: int = TEXT_CHARACTERS_MAX) -> dict[str, Any]:
    """Return a message as JSON, with a long text cut."""
    return {
        "seq": message.seq,
        "id": message.id,
        "sender": message.sender,
        "text": message.text[:characters],
        "is_cut": len(message.text) > characters,
        "received_at": message.received_at,
        "edited_at": message.edited_at,
    }


def sample(messages: Sequence[GroupMessage]) -> list[dict[str, Any]]:
    """Return the first few messages, one line each."""
    return [plain_message(each, LINE_CHARACTERS_MAX) for each in messages[:SAMPLE_MAX]]


def latest_replies(store: Store, group: str) -> list[dict[str, Any]]:
    """Return the latest replies of a group's agent, newest first, and their delivery state."""
    place = {"group": group, "shown": TEXT_CHARACTERS_MAX, "limit": REPLIES_MAX}
    return [_reply(row) for row in store.read("dispatch_outbox_list", **place)]


def _reply(row: Row) -> dict[str, Any]:
    id_, key, number, position, body, size, state, attempts, seq, error, *times = row
    created_at, sent_at, retry_at = times
    start = bytes(body)
    return {
        "id": id_,
        "key": key,
        "number": number,
        "position": position,
        # The cut may split a UTF-8 character; its bytes are dropped.
        "text": start.decode(errors="ignore" if size > len(start) else "replace"),
        "is_cut": size > len(start),
        "state": state,
        "attempts": attempts,
        "seq": seq,
        "error": error,
        "created_at": created_at,
        "sent_at": sent_at,
        "retry_at": retry_at if state in ("pending", "sending") else None,
    }
