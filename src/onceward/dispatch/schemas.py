"""Schemas: what the routes of conversations take and answer, as the OpenAPI document describes it.

The models are for the document; answers are built as plain dictionaries. Knows no route.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from onceward.dispatch.chats import Board, ChatPage, Standing
from onceward.dispatch.models import (
    ID_CHARACTERS_MAX,
    SENDER_CHARACTERS_MAX,
    TEXT_BYTES_MAX,
    DeliveryRecord,
    DeliveryState,
    Group,
    GroupStatus,
    Message,
    Reply,
    TriggerKind,
)
from onceward.failures import GATE_ANSWERS, Failure
from onceward.keys.encoding import encoded

#: Answers by status, as routes document them.
Documented = dict[int | str, dict[str, Any]]
_BEHIND_THE_GATE: Final = {
    404: "There is no group of this name.",
    415: "The body is not application/json.",
    503: "The store cannot be reached now; try again with the same message id.",
}


class _Answer(BaseModel):
    """A body that leaves; names are written in camel case on the wire."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, serialize_by_alias=True
    )


class PostedMessage(BaseModel):
    """What somebody says; the same id is the same message, however often it is sent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1, max_length=ID_CHARACTERS_MAX)
    sender: str = Field(min_length=1, max_length=SENDER_CHARACTERS_MAX)
    text: str = Field(min_length=1, max_length=TEXT_BYTES_MAX)
    #: When it was said.
    timestamp: str | None = Field(default=None, min_length=1, max_length=64)


class Kept(_Answer):
    """What became of a message; durable when this is answered."""

    id: str
    #: Its arrival number.
    seq: int
    fate: Literal["new", "known", "edited"]


class MessageItem(_Answer):
    """What a person said."""

    type: Literal["message"]
    id: str
    sender: str
    text: str
    timestamp: str | None
    received_at: str
    edited_at: str | None
    seq: int


class ReplyItem(_Answer):
    """What an agent said."""

    type: Literal["reply"]
    key: str
    text: str
    at: str
    seq: int
    #: False when nobody knows whether the channel showed it.
    is_certain: bool


class LastFailure(_Answer):
    """How the last work on a group failed, when it is not tried again."""

    #: `kept`: something was answered before, so nothing is repeated. `dead`: it failed too often.
    state: Literal["kept", "dead"]
    error: str | None


class State(_Answer):
    """What goes on in a group."""

    is_running: bool
    #: Messages that were not handed to an agent yet.
    pending: int
    #: Whether one of those calls the agent; else they wait as context.
    is_called: bool
    #: When a failed attempt is repeated.
    retry_at: str | None
    last_error: str | None
    last_failure: LastFailure | None
    is_paused: bool
    #: Names this state: send it as `state` to wait for another one, too.
    tag: str


class Conversation(_Answer):
    """A part of a conversation, in the order of its numbers; an edited message comes again."""

    items: tuple[Annotated[MessageItem | ReplyItem, Field(discriminator="type")], ...]
    #: Send it as `since` for what comes next.
    next_cursor: str
    #: Send it as `before` with `last` for what was said before; null when there is nothing.
    previous_cursor: str | None
    state: State


class GroupItem(_Answer):
    """A conversation that there is."""

    name: str
    trigger: TriggerKind
    word: str
    is_paused: bool


class GroupList(_Answer):
    """All conversations, by name."""

    items: tuple[GroupItem, ...]


class ChatConfig(_Answer):
    """What a page must know before its first message."""

    #: None where other machines can ask: they must bring it.
    token: str | None
    version: str
    groups: tuple[GroupItem, ...]


class InFlight(_Answer):
    """Messages in the hands of an agent."""

    id: int
    attempt: int
    first_seq: int
    last_seq: int
    started_at: str


class StatusItem(GroupItem):
    """Where a group stands."""

    channel: str
    processed: int
    pending: int
    is_called: bool
    in_flight: InFlight | None
    unsent: int
    attempts: int
    retry_at: str | None
    last_error: str | None
    #: How often its messages were given up, and nobody has decided about it.
    dead: int


class Status(_Answer):
    """Where every group stands, and how far messages came and were read."""

    #: Whether this server is the one that runs the agents; another one may be.
    is_held: bool
    arrived: int
    read: int
    items: tuple[StatusItem, ...]


def answers(*statuses: int) -> Documented:
    """Return what a route documents besides its success: the gate's answers, and these."""
    chosen: Documented = {
        status: {"model": Failure, "description": _BEHIND_THE_GATE[status]}
        for status in (*statuses, 503)
    }
    return {**GATE_ANSWERS, **chosen}


def page_body(page: ChatPage) -> dict[str, Any]:
    """Return a part of a conversation as it leaves."""
    before = page.previous_place
    return {
        "items": [_item(each) for each in page.items],
        "nextCursor": str(page.next_place),
        "previousCursor": None if before is None else str(before),
        "state": state_body(page.standing),
    }


def state_body(standing: Standing) -> dict[str, Any]:
    """Return what goes on in a group as it leaves."""
    status = standing.status
    body = {
        "isRunning": status.in_flight is not None,
        "pending": status.pending,
        "isCalled": status.is_called,
        "retryAt": _retry_at(status.group),
        "lastError": status.group.last_error,
        "lastFailure": _last_failure(standing.newest),
        "isPaused": status.group.is_paused,
    }
    return {**body, "tag": hashlib.sha256(encoded(body)).hexdigest()[:16]}


def _last_failure(record: DeliveryRecord | None) -> dict[str, Any] | None:
    if record is None or record.state not in (DeliveryState.KEPT, DeliveryState.DEAD):
        return None
    return {"state": str(record.state), "error": record.error}


def group_item(group: Group) -> dict[str, Any]:
    """Return a group as lists show it."""
    return {
        "name": group.name,
        "trigger": str(group.trigger),
        "word": group.word,
        "isPaused": group.is_paused,
    }


def board_body(board: Board) -> dict[str, Any]:
    """Return where every group stands as it leaves."""
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


def _item(item: Message | Reply) -> dict[str, Any]:
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
