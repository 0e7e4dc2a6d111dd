"""Response models: request and response bodies of the conversation routes, for OpenAPI.

The models are for the document; responses are built as plain dictionaries.
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
from onceward.http.errors import ResponseDocs, response_docs

_DESCRIPTIONS: Final = {
    404: "There is no group of this name.",
    415: "The body is not application/json.",
    503: "The store cannot be reached now; try again with the same message id.",
}


class _ResponseModel(BaseModel):
    """A response body; its field names are in camel case in JSON."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, serialize_by_alias=True
    )


class PostedMessage(BaseModel):
    """A message to post. Idempotent by its id."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1, max_length=ID_CHARACTERS_MAX)
    sender: str = Field(min_length=1, max_length=SENDER_CHARACTERS_MAX)
    text: str = Field(min_length=1, max_length=TEXT_BYTES_MAX)
    #: When the message was written.
    timestamp: str | None = Field(default=None, min_length=1, max_length=64)


class MessageReceipt(_ResponseModel):
    """The result of posting a message, which is durable then."""

    id: str
    #: Its arrival number.
    seq: int
    fate: Literal["new", "known", "edited"]


class MessageItem(_ResponseModel):
    """A message of a person."""

    type: Literal["message"]
    id: str
    sender: str
    text: str
    timestamp: str | None
    received_at: str
    edited_at: str | None
    seq: int


class ReplyItem(_ResponseModel):
    """A reply of an agent."""

    type: Literal["reply"]
    key: str
    text: str
    at: str
    seq: int
    #: False when it is ambiguous whether the channel showed it.
    is_certain: bool


class LastFailure(_ResponseModel):
    """The failure of the latest delivery, when it is not retried."""

    #: `kept`: a reply was sent before the failure, so the delivery is not retried. `dead`: its
    #: retries are exhausted.
    state: Literal["kept", "dead"]
    error: str | None


class State(_ResponseModel):
    """The state of a group."""

    is_running: bool
    #: Messages that were not delivered to an agent yet.
    pending: int
    #: Whether one of those triggers the agent; else they stay pending as context.
    is_called: bool
    #: When a failed delivery is retried.
    retry_at: str | None
    last_error: str | None
    last_failure: LastFailure | None
    is_paused: bool
    #: Fingerprint of this state; pass it as `state` to also wait for its change.
    tag: str


class Conversation(_ResponseModel):
    """A page of a conversation by arrival number; an edited message is returned again."""

    items: tuple[Annotated[MessageItem | ReplyItem, Field(discriminator="type")], ...]
    #: Pass it as `since` for the next page.
    next_cursor: str
    #: Pass it as `before` with `last` for the previous page; null when there is none.
    previous_cursor: str | None
    state: State


class GroupItem(_ResponseModel):
    """A conversation in a list."""

    name: str
    trigger: TriggerKind
    word: str
    is_paused: bool


class GroupList(_ResponseModel):
    """All conversations, by name."""

    items: tuple[GroupItem, ...]


class ChatConfig(_ResponseModel):
    """The settings that a page needs to post messages."""

    #: The token; null if other machines can connect, because they must send their own.
    token: str | None
    version: str
    groups: tuple[GroupItem, ...]


class InFlightDelivery(_ResponseModel):
    """A running delivery."""

    id: int
    attempt: int
    first_seq: int
    last_seq: int
    started_at: str


class StatusItem(GroupItem):
    """The status of a group."""

    channel: str
    #: The number of its latest message, and of its latest one that was read.
    arrived: int
    read: int
    processed: int
    pending: int
    is_called: bool
    in_flight: InFlightDelivery | None
    unsent: int
    attempts: int
    retry_at: str | None
    last_error: str | None
    #: Its number of dead letters.
    dead: int


class Status(_ResponseModel):
    """The status of every group, and the positions of arrivals and of the reader of all groups."""

    #: Whether this server runs the agents; if not, another server may.
    is_held: bool
    arrived: int
    read: int
    items: tuple[StatusItem, ...]


def answers(model: type, *statuses: int) -> ResponseDocs:
    """Return the documented responses of a route: its model, the guard's, and these statuses."""
    return response_docs(_DESCRIPTIONS, *statuses, model=model)
