"""Schemas: what the routes of conversations take and answer, as the OpenAPI document describes it.

The models are for the document; answers are built as plain dictionaries. Knows no route.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from onceward.dispatch.models import (
    ID_CHARACTERS_MAX,
    SENDER_CHARACTERS_MAX,
    TEXT_BYTES_MAX,
    TriggerKind,
)
from onceward.failures import Documented, documented

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
    return documented(_BEHIND_THE_GATE, *statuses)
