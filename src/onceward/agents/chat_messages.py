"""Chat messages: the messages between a dispatcher and a chat agent, one JSON object per line.

Splits deliveries into lines and joins them again. `protocol.py` validates the messages against
their schemas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from onceward.agents import protocol
from onceward.agents.line_reader import LINE_BYTES_MAX as LINE_BYTES_USUAL
from onceward.agents.line_reader import OversizedLine, ReceivedLine
from onceward.agents.protocol import CHAT_KINDS, Message
from onceward.errors import MessageRefused
from onceward.keys.canonical import compact_json

AGENT_TYPE: Final = "chat"
#: Maximum size of one message text and of one reply.
TEXT_BYTES_MAX: Final = 128 * 1024
#: Fits a text at its worst encoding: a NUL takes six characters in JSON.
LINE_BYTES_MAX: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatMessage:
    """A message of a person."""

    #: The channel's own id.
    id: str
    #: Its number in order of arrival.
    seq: int
    sender: str
    #: The text, unchanged and untrusted.
    text: str
    #: When it was sent, according to the channel.
    timestamp: str | None
    received_at: str
    #: Whether it triggers the agent; other messages are context.
    is_call: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatDelivery:
    """A complete delivery, as an agent receives it."""

    run_id: str
    group: str
    #: The number of the last message; `done` names it.
    upto: int
    #: Whether the agent was already running, at work or idle after work.
    is_follow_up: bool
    messages: tuple[ChatMessage, ...]


def last_trigger(messages: Sequence[ChatMessage]) -> ChatMessage:
    """Return the last message that triggers the agent, or the last message if none does."""
    return ([each for each in messages if each.is_call] or messages)[-1]


def encode(message: Mapping[str, Any]) -> bytes:
    """Return the message as one line; raise MessageRefused if it violates schema or size."""
    return protocol.encode(message, line_bytes_max=LINE_BYTES_MAX, kinds=CHAT_KINDS)


def decode(line: bytes) -> Message:
    """Return the message of a line; raise MessageRefused or InvalidJson."""
    return protocol.decode(line, line_bytes_max=LINE_BYTES_MAX, kinds=CHAT_KINDS)


def output(text: str, *, key: str | None = None, upto: int | None = None) -> Message:
    """Return a reply message; replies with the same key are one reply.

    `upto` is the number of the last message that the agent had taken when it replied.
    """
    message: Message = {"kind": "output", "text": text}
    return message | {
        name: value for name, value in (("key", key), ("upto", upto)) if value is not None
    }


def done(upto: int) -> Message:
    """Return the message that all deliveries up to this number are done."""
    return {"kind": "done", "upto": upto}


def error(
    message: str,
    *,
    code: str | None = None,
    retryable: bool | None = None,
    upto: int | None = None,
) -> Message:
    """Return the message that the deliveries not yet done have failed."""
    fields = {"message": message, "code": code, "retryable": retryable, "upto": upto}
    return {"kind": "error"} | {name: each for name, each in fields.items() if each is not None}


# --- deliveries ----------------------------------------------------------------------------------


def delivery_lines(
    run_id: str,
    group: str,
    upto: int,
    messages: Sequence[ChatMessage],
    is_follow_up: bool,  # noqa: FBT001 - a field like the others
) -> list[bytes]:
    """Return a delivery as lines; all but the last have `more` set.

    Lines have at most the usual length, unless a single message needs more.
    """
    parts = _parts([asdict(each) for each in messages])
    return [
        encode(
            {
                "kind": "message",
                "run_id": run_id,
                "group": group,
                "upto": upto,
                "is_follow_up": is_follow_up,
                "more": number < len(parts),
                "messages": part,
            }
        )
        for number, part in enumerate(parts, start=1)
    ]


#: Upper bound for the fields around the messages of a line; names have at most 200 characters.
_AROUND_BYTES: Final = 4096


def _parts(items: Sequence[Message]) -> list[list[Message]]:
    """Split messages into as few lines of the usual length as possible; at least one."""
    parts: list[list[Message]] = [[]]
    bytes_left = LINE_BYTES_USUAL - _AROUND_BYTES
    for each in items:
        size = len(compact_json(each, root="message")) + 1
        if size > bytes_left and parts[-1]:
            parts.append([])
            bytes_left = LINE_BYTES_USUAL - _AROUND_BYTES
        parts[-1].append(each)
        bytes_left -= size
    return parts


class DeliveryReader:
    """Joins deliveries from their lines."""

    def __init__(self) -> None:
        """Start without a partial delivery; at most one is held."""
        self._parts: list[Message] = []

    def add(self, line: ReceivedLine) -> ChatDelivery | None:
        """Take the next line; return the delivery if the line completes it.

        Raises MessageRefused or InvalidJson and discards the partial delivery.
        """
        began, self._parts = self._parts, []
        if isinstance(line, OversizedLine):
            problem = f"has {line.size} bytes; at most {LINE_BYTES_MAX} are allowed"
            raise MessageRefused(path="line", problem=problem, fix=protocol.SEND_LESS)
        message = decode(line)
        if message["kind"] != "message":
            problem = f"must be message, not {message['kind']}"
            raise MessageRefused(path="kind", problem=problem, fix="send deliveries only")
        names = ("run_id", "group", "upto", "is_follow_up")
        if began and any(began[0][name] != message[name] for name in names):
            problem = f"differs in {', '.join(names)} from the lines before it"
            fix = "send the lines of one delivery in a row; this one was discarded"
            raise MessageRefused(path="message", problem=problem, fix=fix)
        parts = [*began, message]
        if message["more"]:
            self._parts = parts
            return None
        items = (each for part in parts for each in part["messages"])
        return ChatDelivery(
            **{name: message[name] for name in names},
            messages=tuple(ChatMessage(**each) for each in items),
        )
