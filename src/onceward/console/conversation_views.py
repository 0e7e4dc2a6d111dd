"""Conversation views: groups, deliveries, messages and dead letters as JSON for the API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from onceward.console.responses import ActionResult, extended
from onceward.dispatch.models import (
    DeliveryRecord,
    DeliveryState,
    Group,
    GroupMessage,
    GroupStatus,
    OutboxState,
    TriggerKind,
)
from onceward.dispatch.views import GroupMove
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


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryItem:
    """A delivery to an agent and its result."""

    id: int
    group: str
    number: int
    state: DeliveryState
    attempt: int
    first_seq: int
    last_seq: int
    error: str | None
    started_at: str
    ended_at: str | None
    #: The identity of the agent's process.
    agent: dict[str, Any] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class OutboxItem:
    """A reply of an agent and its delivery state."""

    id: int
    key: str
    number: int
    position: int
    text: str
    #: Whether the reply is longer than what is shown.
    is_cut: bool
    state: OutboxState
    attempts: int
    seq: int | None
    error: str | None
    created_at: str
    sent_at: str | None
    retry_at: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupView:
    """The settings and the status of a group."""

    name: str
    channel: str
    command: tuple[str, ...]
    trigger: TriggerKind
    word: str
    workdir: str | None
    idle_seconds: float
    hard_seconds: float
    is_paused: bool
    #: The number of its latest message, and of its latest one that was read.
    arrived: int
    read: int
    processed: int
    pending: int
    is_called: bool
    in_flight: DeliveryItem | None
    unsent: int
    attempts: int
    retry_at: str | None
    last_error: str | None
    #: Pass it as `seen` of an action.
    version: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupDetail(GroupView):
    """A group with its latest deliveries, replies and moves, the newest first."""

    deliveries: list[DeliveryItem]
    outbox: list[OutboxItem]
    history: list[GroupMove]
    #: The dispatcher that runs the agents of this store, if there is one.
    holder: str | None
    is_held: bool
    #: How many dead letters the group has.
    dead: int
    as_of: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupChange(ActionResult):
    """A group after it was paused or resumed."""

    group: GroupView


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageExcerpt:
    """A message whose text may be cut."""

    seq: int
    id: str
    sender: str
    text: str
    is_cut: bool
    received_at: str
    edited_at: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayResult(ActionResult):
    """The plan of a replay, or its result; see `GroupReplay`."""

    group: str
    from_position: int
    to_position: int
    messages: int
    is_called: bool
    #: The first messages that are delivered again.
    sample: list[MessageExcerpt]
    #: Pass it as `seen`.
    version: str


def group_version(group: Group) -> str:
    """Return a version that changes when a group is paused or resumed."""
    return "paused" if group.is_paused else "open"


def group_view(status: GroupStatus) -> GroupView:
    """Return a group with its status."""
    group = status.group
    return extended(
        GroupView,
        group,
        arrived=status.arrived,
        read=status.read,
        processed=status.processed,
        pending=status.pending,
        is_called=status.is_called,
        in_flight=None if status.in_flight is None else delivery_item(status.in_flight),
        unsent=status.unsent,
        retry_at=group.retry_at if group.wait_seconds > 0 else None,
        version=group_version(group),
    )


def delivery_item(record: DeliveryRecord) -> DeliveryItem:
    """Return a delivery to an agent and its result."""
    return extended(DeliveryItem, record, agent=_agent(record.agent))


def _agent(text: str | None) -> dict[str, Any] | None:
    """Return the agent process of a delivery as JSON."""
    try:
        found = orjson.loads(text or "null")
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def excerpt_of(message: GroupMessage, characters: int = TEXT_CHARACTERS_MAX) -> MessageExcerpt:
    """Return a message, with a long text cut."""
    return extended(
        MessageExcerpt,
        message,
        text=message.text[:characters],
        is_cut=len(message.text) > characters,
    )


def sample(messages: Sequence[GroupMessage]) -> list[MessageExcerpt]:
    """Return the first few messages, one line each."""
    return [excerpt_of(each, LINE_CHARACTERS_MAX) for each in messages[:SAMPLE_MAX]]


def latest_replies(store: Store, group: str) -> list[OutboxItem]:
    """Return the latest replies of a group's agent, newest first, and their delivery state."""
    place = {"group": group, "shown": TEXT_CHARACTERS_MAX, "limit": REPLIES_MAX}
    return [_reply(row) for row in store.read("dispatch_outbox_list", **place)]


def _reply(row: Row) -> OutboxItem:
    id_, key, number, position, body, size, state, attempts, seq, error, *times = row
    created_at, sent_at, retry_at = times
    start = bytes(body)
    return OutboxItem(
        id=id_,
        key=key,
        number=number,
        position=position,
        # The cut may split a UTF-8 character; its bytes are dropped.
        text=start.decode(errors="ignore" if size > len(start) else "replace"),
        is_cut=size > len(start),
        state=OutboxState(state),
        attempts=attempts,
        seq=seq,
        error=error,
        created_at=created_at,
        sent_at=sent_at,
        retry_at=retry_at if state in ("pending", "sending") else None,
    )
