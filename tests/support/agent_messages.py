"""Messages as tests need them: whole, and different where a test says so."""

import io
import json
import queue
from typing import Any

import pytest

from onceward.agents import chat_messages, protocol
from onceward.agents.chat_messages import ChatMessage
from onceward.errors import MessageRefused

AT = "2026-01-01T00:00:00.000Z"
#: Texts that something on the way might change.
ODD_TEXTS = (
    "agent: agent, are you there?",
    "100 % _of_ <b>this</b> & 'that' \"too\"",
    "a NUL \0 and \x1b[31m, \r\n\t, \u2028, \ufeff and \x7f",
    "👩‍👩‍👧 ❤️ \U0010ffff \ue000",
    '{"kind":"done","upto":99}\n{text} {0} \\u0000',
    "  spaces around  \n",
)


def check_wire(codec: Any, message: dict[str, Any]) -> None:
    """See that a message is one line on its way, and the same at its end."""
    line = codec.encode(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert codec.decode(line) == message


def check_refused(codec: Any, message: dict[str, Any], path: str) -> None:
    """See that a message is refused when it is sent and when it is received, and where."""
    for refuse, given in ((codec.encode, message), (codec.decode, json.dumps(message).encode())):
        with pytest.raises(MessageRefused) as caught:
            refuse(given)
        assert caught.value.path == path
        assert caught.value.fix


def a_command(**changes: Any) -> protocol.Message:
    fields: dict[str, Any] = {
        "message_id": "msg_1",
        "correlation_id": "corr_1",
        "task_id": "T-0042",
        "agent_type": "builder",
        "action": "implement",
        "inputs": {"goal": "implement feature X"},
        "snapshot_id": "snap-abc123",
        "deadline": AT,
    }
    return protocol.command(**{**fields, **changes})


def an_event(**changes: Any) -> protocol.Message:
    fields: dict[str, Any] = {
        "message_id": "msg_2",
        "correlation_id": "corr_1",
        "task_id": "T-0042",
        "agent_type": "builder",
        "event": "builder.completed",
        "payload": {"tests": {"status": "pass"}},
        "occurred_at": AT,
    }
    return protocol.event(**{**fields, **changes})


def a_heartbeat(**changes: Any) -> protocol.Message:
    fields: dict[str, Any] = {
        "agent_type": "builder",
        "seq": 1,
        "status": "ready",
        "pid": 42,
        "uptime_s": 0.5,
        "last_activity_at": AT,
    }
    return protocol.heartbeat(**{**fields, **changes})


def a_log(text: str = "hello", **changes: Any) -> protocol.Message:
    return protocol.log(**{"level": "info", "message": text, "timestamp": AT, **changes})


def a_message(seq: int = 1, text: str = "hello", **changes: Any) -> ChatMessage:
    fields: dict[str, Any] = {
        "id": f"m{seq}",
        "seq": seq,
        "sender": "ann",
        "text": text,
        "timestamp": None,
        "received_at": AT,
        "is_call": True,
    }
    return ChatMessage(**{**fields, **changes})


def a_delivery(*said: ChatMessage | str, first: int = 1, is_follow_up: bool = False) -> bytes:
    """Return the lines of a delivery, of messages or of texts that are numbered."""
    found = [
        each if isinstance(each, ChatMessage) else a_message(number, each)
        for number, each in enumerate(said, start=first)
    ]
    upto = max(each.seq for each in found)
    return b"".join(chat_messages.delivery_lines("run-1", "garden", upto, found, is_follow_up))


class Feed(io.RawIOBase):
    """A stdin whose other end a test holds."""

    def __init__(self) -> None:
        self._given: queue.Queue[bytes] = queue.Queue()

    def give(self, data: bytes) -> None:
        """Let the reader have this; nothing at all is the end."""
        self._given.put(data)

    def read(self, size: int = -1) -> bytes:
        del size
        return self._given.get(timeout=60)
