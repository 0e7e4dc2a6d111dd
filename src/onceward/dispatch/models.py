"""Dispatch models: data of groups, messages, deliveries and replies, with their states."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from onceward.cursors import DualBatch
from onceward.retries.models import CHAT_CURSOR

#: The dual cursor of all conversations: one read position, and a processed one for each group.
DUAL: Final = CHAT_CURSOR
#: The lease that the one dispatcher of a store holds.
LEASE: Final = "~dispatch"

NAME_CHARACTERS_MAX: Final = 100
ID_CHARACTERS_MAX: Final = 200
SENDER_CHARACTERS_MAX: Final = 200
#: Maximum size of a message, and of a reply.
TEXT_BYTES_MAX: Final = 128 * 1024
#: Limits of one delivery; the rest follows as soon as it is done.
BATCH_MESSAGES_MAX: Final = 5_000
BATCH_BYTES_MAX: Final = 4 * 1024 * 1024
IDLE_SECONDS: Final = 300.0
HARD_SECONDS: Final = 1800.0
AGENTS_MAX: Final = 5


class TriggerKind(StrEnum):
    """When a message triggers the agent; messages since its last run are delivered as context."""

    ALWAYS = "always"  #: every message
    PREFIX = "prefix"  #: a message that begins with the word
    MENTION = "mention"  #: a message that contains the word


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """A conversation and its agent's settings."""

    name: str
    #: Where its replies go.
    channel: str
    #: The agent's program and arguments.
    command: tuple[str, ...]
    trigger: TriggerKind = TriggerKind.ALWAYS
    #: The word of a prefix or mention trigger; ignored otherwise.
    word: str = ""
    #: Where the agent works; None is a directory of the group's own.
    workdir: str | None = None
    #: An idle agent is closed after this.
    idle_seconds: float = IDLE_SECONDS
    #: An agent that has not finished a delivery is ended after this.
    hard_seconds: float = HARD_SECONDS
    is_paused: bool = False
    #: The latest message that triggered the agent.
    called_seq: int = 0
    #: Failed attempts at the next messages.
    attempts: int = 0
    last_error: str | None = None
    #: Seconds until the next attempt; 0 is now.
    wait_seconds: float = 0.0
    retry_at: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NewMessage:
    """An incoming message of a channel."""

    group: str
    #: The channel's id of the message: a second arrival is the same message.
    id: str
    sender: str
    text: str
    #: When it was written, according to the channel; only orders messages inside a delivery.
    timestamp: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Received:
    """The result of storing an incoming message."""

    seq: int
    #: `new`, `known` (already stored) or `edited` (already stored with another text).
    fate: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupMessage:
    """A stored message of a group."""

    #: Its arrival number, which is its position.
    seq: int
    #: The arrival number of its last change.
    changed_seq: int
    channel: str
    group: str
    id: str
    sender: str
    text: str
    timestamp: str | None
    received_at: str
    edited_at: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Delivery:
    """Messages that an agent works on, and the token that ends the delivery."""

    id: int
    group: str
    #: The batch in flight, with the position to roll back to.
    batch: DualBatch
    #: 1 for the first attempt.
    attempt: int
    #: The messages delivered last: all of them, or the follow-ups.
    messages: tuple[GroupMessage, ...]
    #: The arrival number of its first message.
    first_seq: int


class DeliveryState(StrEnum):
    """State of a delivery."""

    RUNNING = "running"  #: an agent works on it, or a crash left it
    DONE = "done"  #: the agent reported success
    KEPT = "kept"  #: it failed after a reply was sent, so it is not repeated
    ROLLED_BACK = "rolled back"  #: it failed, and its messages are delivered again
    DEAD = "dead"  #: its retries are exhausted; it is a dead letter
    REDRIVEN = "redriven"  #: an operator redrove its dead letter
    DROPPED = "dropped"  #: an operator dropped its dead letter


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryRecord:
    """A stored delivery."""

    id: int
    group: str
    number: int
    state: DeliveryState
    attempt: int
    first_seq: int
    last_seq: int
    #: The identity of the agent's process, as JSON.
    agent: str | None
    error: str | None
    started_at: str
    ended_at: str | None


class OutboxState(StrEnum):
    """State of a reply in the outbox."""

    PENDING = "pending"  #: stored and not shown
    SENDING = "sending"  #: being sent: it may have been shown
    SENT = "sent"  #: the channel accepted it
    MAYBE_SENT = "maybe sent"  #: ambiguous: the process died while sending
    FAILED = "failed"  #: the channel rejected it
    CANCELLED = "cancelled"  #: cancelled before it was shown


@dataclass(frozen=True, kw_only=True, slots=True)
class OutboxMessage:
    """A reply of an agent, stored until it is sent."""

    id: int
    #: The idempotency key of the reply, the same for every attempt.
    key: str
    group: str
    number: int
    #: The last message that the agent had when it replied.
    position: int
    text: str
    state: OutboxState
    attempts: int
    wait_seconds: float

    @property
    def is_ambiguous(self) -> bool:
        """Return whether an earlier attempt may have been shown."""
        return self.state is OutboxState.SENDING


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """A reply of an agent, as readers see it."""

    seq: int
    key: str
    group: str
    text: str
    #: False when it is ambiguous whether the channel showed it.
    is_certain: bool
    at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryOutcome:
    """The result of ending a failed delivery."""

    state: DeliveryState
    #: Seconds until the next attempt; None if there is none.
    retry_seconds: float | None
    #: The number of cancelled replies.
    cancelled: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupStatus:
    """A group's positions, work in flight and pending messages."""

    group: Group
    #: The number of the group's latest message, and of its latest one that was read; 0 if none.
    arrived: int
    read: int
    #: The processed position; tentative while a delivery is in flight.
    processed: int
    #: Messages not delivered to an agent yet, context included.
    pending: int
    #: Whether one of those triggers the agent.
    is_called: bool
    in_flight: DeliveryRecord | None
    #: Replies that are not sent yet.
    unsent: int
