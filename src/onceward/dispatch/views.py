"""Conversation views: conversations and group status as JSON, for HTTP and the terminal.

Pure; `response_models` documents the fields.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from typing_extensions import TypedDict

from onceward.cursors import HistoryEntry
from onceward.dispatch.conversations import ChatPage, DispatchStatus, GroupActivity
from onceward.dispatch.models import (
    DeliveryRecord,
    DeliveryState,
    Group,
    GroupMessage,
    GroupStatus,
    Reply,
)
from onceward.keys.encoding import encoded


def page_body(page: ChatPage) -> dict[str, Any]:
    """Return a page of a conversation as JSON."""
    before = page.previous_place
    return {
        "items": [plain_item(each) for each in page.items],
        "nextCursor": str(page.next_place),
        "previousCursor": None if before is None else str(before),
        "state": state_body(page.activity),
    }


def state_body(activity: GroupActivity) -> dict[str, Any]:
    """Return the state of a group as JSON."""
    status = activity.status
    body = {
        "isRunning": status.in_flight is not None,
        "pending": status.pending,
        "isCalled": status.is_called,
        "retryAt": _retry_at(status.group),
        "lastError": status.group.last_error,
        "lastFailure": _last_failure(activity.newest),
        "isPaused": status.group.is_paused,
    }
    return {**body, "tag": hashlib.sha256(encoded(body)).hexdigest()[:16]}


def _last_failure(record: DeliveryRecord | None) -> dict[str, Any] | None:
    if record is None or record.state not in (DeliveryState.KEPT, DeliveryState.DEAD):
        return None
    return {"state": str(record.state), "error": record.error}


def group_item(group: Group) -> dict[str, Any]:
    """Return a group as JSON for a list."""
    return {
        "name": group.name,
        "trigger": str(group.trigger),
        "word": group.word,
        "isPaused": group.is_paused,
    }


def status_body(board: DispatchStatus) -> dict[str, Any]:
    """Return the status of every group as JSON."""
    return {
        "isHeld": board.is_held,
        "arrived": board.arrived,
        "read": board.read,
        "items": [_status_item(each, board.dead) for each in board.groups],
    }


def _status_item(status: GroupStatus, dead: Mapping[str, int]) -> dict[str, Any]:
    group = status.group
    return {
        **group_item(group),
        "channel": group.channel,
        "arrived": status.arrived,
        "read": status.read,
        "processed": status.processed,
        "pending": status.pending,
        "isCalled": status.is_called,
        "inFlight": None if status.in_flight is None else _in_flight(status.in_flight),
        "unsent": status.unsent,
        "attempts": group.attempts,
        "retryAt": _retry_at(group),
        "lastError": group.last_error,
        "dead": dead.get(group.name, 0),
    }


def _retry_at(group: Group) -> str | None:
    return group.retry_at if group.wait_seconds > 0 else None


def _in_flight(record: DeliveryRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "attempt": record.attempt,
        "firstSeq": record.first_seq,
        "lastSeq": record.last_seq,
        "startedAt": record.started_at,
    }


def plain_item(item: GroupMessage | Reply) -> dict[str, Any]:
    """Return a message or a reply as JSON."""
    if isinstance(item, Reply):
        return {
            "type": "reply",
            "key": item.key,
            "text": item.text,
            "at": item.at,
            "seq": item.seq,
            "isCertain": item.is_certain,
        }
    return {
        "type": "message",
        "id": item.id,
        "sender": item.sender,
        "text": item.text,
        "timestamp": item.timestamp,
        "receivedAt": item.received_at,
        "editedAt": item.edited_at,
        "seq": item.seq,
    }


#: A move of a group's cursor; a dictionary, since `from` cannot be the name of a field.
GroupMove = TypedDict("GroupMove", {"at": str, "from": int, "to": int, "actor": str, "reason": str})


def plain_move(move: HistoryEntry) -> GroupMove:
    """Return a move of a group's cursor as JSON, with its time and reason."""
    return {
        "at": move.happened_at,
        "from": int(move.from_position or 0),
        "to": int(move.to_position or 0),
        "actor": move.actor,
        "reason": move.reason,
    }
