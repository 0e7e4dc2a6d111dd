"""Chat messages: what a dispatcher and a chat agent say to one another, one JSON object a line.

Owns how a delivery is cut into lines and put together again. Shapes are checked by `messages.py`,
as every other message is. Knows not who sends what when.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from onceward.agents import messages
from onceward.agents.lines import LINE_BYTES_MAX as LINE_BYTES_USUAL
from onceward.agents.lines import Arrival, Oversized
from onceward.agents.messages import CHAT_KINDS, Message
from onceward.errors import MessageRefused
from onceward.keys.canonical import compact_json

AGENT_TYPE: Final = "chat"
#: What a person says at once, and what an agent says at once.
TEXT_BYTES_MAX: Final = 128 * 1024
#: Six times a text fits, which is what the worst one takes: a NUL is written as six characters.
LINE_BYTES_MAX: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatMessage:
    """What a person said."""

    #: The channel's own id.
    id: str
    #: Its arrival number.
    seq: int
    sender: str
    #: As it was typed, whatever is in it.
    text: str
    #: When it was said, as the channel tells it.
    timestamp: str | None
    received_at: str
    #: Whether it calls the agent; the others are context.
    is_call: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Handed:
    """A whole delivery, as an agent gets it."""

    run_id: str
    group: str
    #: The number of the last message; `done` names it.
    upto: int
    #: Whether it was sent to an agent that was already at work, or waited after work.
    is_follow_up: bool
    messages: tuple[ChatMessage, ...]


def last_call(messages: Sequence[ChatMessage]) -> ChatMessage:
    """Return the last message that calls the agent, or the last of all if none does."""
    return ([each for each in messages if each.is_call] or messages)[-1]


def encode(message: Mapping[str, Any]) -> bytes:
    """Return the message as one line; raise MessageRefused for one of a wrong shape or size."""
    return messages.encode(message, line_bytes_max=LINE_BYTES_MAX, kinds=CHAT_KINDS)


def decode(line: bytes) -> Message:
    """Return the message that a line holds; raise MessageRefused or InvalidJson."""
    return messages.decode(line, line_bytes_max=LINE_BYTES_MAX, kinds=CHAT_KINDS)


def output(text: str, *, key: str | None = None, upto: int | None = None) -> Message:
    """Return something to say; the same key is the same saying.

    `upto`: how far the agent had taken messages when it said this.
    """
    said: Message = {"kind": "output", "text": text}
    return said | {
        name: value for name, value in (("key", key), ("upto", upto)) if value is not None
    }


def done(upto: int) -> Message:
    """Return that all is finished up to this number."""
    return {"kind": "done", "upto": upto}


def error(
    message: str,
    *,
    code: str | None = None,
    retryable: bool | None = None,
    upto: int | None = None,
) -> Message:
    """Return that what was handed over and is not done has failed."""
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
    """Return a delivery as lines, of which all but the last say that there is more.

    Lines are as long as any agent's, unless one message alone takes more.
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


#: More than all that stands around the messages of a line: names of at most 200 characters.
_AROUND_BYTES: Final = 4096


def _parts(items: Sequence[Message]) -> list[list[Message]]:
    """Cut into as few lists as lines of the usual length need; there is at least one."""
    parts: list[list[Message]] = [[]]
    room = LINE_BYTES_USUAL - _AROUND_BYTES
    for each in items:
        size = len(compact_json(each, root="message")) + 1
        if size > room and parts[-1]:
            parts.append([])
            room = LINE_BYTES_USUAL - _AROUND_BYTES
        parts[-1].append(each)
        room -= size
    return parts


class DeliveryReader:
    """Puts deliveries together from their lines."""

    def __init__(self) -> None:
        """Hold at most one delivery that is not whole yet."""
        self._parts: list[Message] = []

    def add(self, line: Arrival) -> Handed | None:
        """Take the next line; return the delivery that it ends, if it ends one.

        Raises MessageRefused or InvalidJson; what was there of that delivery is forgotten.
        """
        began, self._parts = self._parts, []
        if isinstance(line, Oversized):
            problem = f"has {line.size} bytes, and may have at most {LINE_BYTES_MAX}"
            raise MessageRefused(path="line", problem=problem)
        message = decode(line)
        if message["kind"] != "message":
            raise MessageRefused(path="kind", problem="must be message")
        names = ("run_id", "group", "upto", "is_follow_up")
        if began and any(began[0][name] != message[name] for name in names):
            raise MessageRefused(path="message.upto", problem="belongs to another delivery")
        parts = [*began, message]
        if message["more"]:
            self._parts = parts
            return None
        items = (each for part in parts for each in part["messages"])
        return Handed(
            **{name: message[name] for name in names},
            messages=tuple(ChatMessage(**each) for each in items),
        )
