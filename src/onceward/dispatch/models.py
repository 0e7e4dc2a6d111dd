"""Models: groups, messages, deliveries and sayings, and their states. Frozen data only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from onceward.cursors import Batch

#: The dual cursor of all conversations: what was read, and what each group has processed.
DUAL: Final = "dispatch"
#: The lease that the one dispatcher of a store holds.
LEASE: Final = "~dispatch"

NAME_CHARACTERS_MAX: Final = 100
ID_CHARACTERS_MAX: Final = 200
SENDER_CHARACTERS_MAX: Final = 200
#: A message of a person, and a saying of an agent.
TEXT_BYTES_MAX: Final = 128 * 1024
#: What is handed to an agent at once; the rest follows as soon as that is done.
BATCH_MESSAGES_MAX: Final = 5_000
BATCH_BYTES_MAX: Final = 4 * 1024 * 1024
IDLE_SECONDS: Final = 300.0
HARD_SECONDS: Final = 1800.0
AGENTS_MAX: Final = 5


class TriggerKind(StrEnum):
    """When a message calls the agent; everything since its last run comes along as context."""

    ALWAYS = "always"  #: every message does
    PREFIX = "prefix"  #: one that begins with the word
    MENTION = "mention"  #: one that holds the word anywhere


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """A conversation, and the agent that takes part in it."""

    name: str
    #: Where its replies go.
    channel: str
    #: The agent's program and arguments.
    command: tuple[str, ...]
    trigger: TriggerKind = TriggerKind.ALWAYS
    #: What a prefix or mention is; not looked at otherwise.
    word: str = ""
    #: Where the agent works; None is a directory of the group's own.
    workdir: str | None = None
    #: An agent with nothing to do is closed after this.
    idle_seconds: float = IDLE_SECONDS
    #: An agent that has not finished what it was handed is ended after this.
    hard_seconds: float = HARD_SECONDS
    is_paused: bool = False
    #: The latest message that called the agent.
    called_seq: int = 0
    #: How often the messages that are next have failed.
    attempts: int = 0
    last_error: str | None = None
    #: How long until the next try; 0 is now.
    wait_seconds: float = 0.0
    retry_at: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NewMessage:
    """What a channel brings."""

    group: str
    #: The channel's own id; a message that comes again under it is the same.
    id: str
    sender: str
    text: str
    #: When it was said, as the channel tells it; only orders the text inside a batch.
    timestamp: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Received:
    """What became of an arrival."""

    seq: int
    #: `new`, `known` (it came before) or `edited` (it came before with another text).
    fate: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """A message as it is kept."""

    #: Its arrival number: what cursors count by.
    seq: int
    #: When it was last changed, in the same numbers.
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
    """Messages in the hands of an agent, and the token to end that with."""

    id: int
    group: str
    #: What is in flight, with the way back.
    batch: Batch
    #: The first try is 1.
    attempt: int
    #: What was handed over last: all of it, or the follow-ups.
    messages: tuple[Message, ...]
    #: Whether one message calls the agent, and the others are context.
    first_seq: int


class DeliveryState(StrEnum):
    """What became of a delivery."""

    RUNNING = "running"  #: an agent has it, or a crash left it
    DONE = "done"  #: the agent said so
    KEPT = "kept"  #: it failed after output went out, so it is not repeated
    ROLLED_BACK = "rolled back"  #: it failed, and its messages are handed out again
    DEAD = "dead"  #: it failed too often; a person decides
    REDRIVEN = "redriven"  #: a person let its messages arrive anew
    DROPPED = "dropped"  #: a person gave it up


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryRecord:
    """A delivery as it is kept."""

    id: int
    group: str
    number: int
    state: DeliveryState
    attempt: int
    first_seq: int
    last_seq: int
    #: Pid and start of the agent's process, as JSON.
    agent: str | None
    error: str | None
    started_at: str
    ended_at: str | None


class SayingState(StrEnum):
    """How far a saying of an agent has come."""

    PENDING = "pending"  #: said; nobody can have seen it
    SENDING = "sending"  #: on its way: somebody may have seen it
    SENT = "sent"  #: the channel has taken it
    MAYBE_SENT = "maybe sent"  #: we died while sending, and the channel cannot tell
    FAILED = "failed"  #: the channel refused it
    CANCELLED = "cancelled"  #: taken back before anybody saw it


@dataclass(frozen=True, kw_only=True, slots=True)
class Saying:
    """What an agent said, on its way out."""

    id: int
    #: The same for the same saying, however often it is sent.
    key: str
    group: str
    number: int
    #: How far the agent had been handed messages when it said this.
    position: int
    text: str
    state: SayingState
    attempts: int
    wait_seconds: float

    @property
    def is_doubtful(self) -> bool:
        """Say whether an earlier try may have been seen, whatever later ones are answered."""
        return self.state is SayingState.SENDING


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """What an agent said, as people see it."""

    seq: int
    key: str
    group: str
    text: str
    #: False when nobody knows whether the channel showed it.
    is_certain: bool
    at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """How a delivery that failed ended."""

    state: DeliveryState
    #: How long until the next try, if there is one.
    retry_seconds: float | None
    #: How many sayings were taken back.
    cancelled: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupStatus:
    """Where a group stands."""

    group: Group
    #: How far the group is processed, by way of trial while something is in flight.
    processed: int
    #: Messages that were not handed to an agent yet: waiting, or context.
    pending: int
    #: Whether one of those calls the agent.
    is_called: bool
    in_flight: DeliveryRecord | None
    #: Sayings that wait to be sent.
    unsent: int
