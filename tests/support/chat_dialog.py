"""Chat dialog: a chat agent in a thread, with its input and output under a test's control."""

import io
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from onceward.agents import Chat, ChatAgent, chat_messages
from onceward.agents.line_reader import LineReader
from onceward.agents.protocol import Message
from tests.support.agent_messages import Feed, a_delivery
from tests.support.waiting import until

Handler = Callable[[Chat], Any]


class ChatDialog:
    """An agent at work in a thread, with a test at both of its ends."""

    def __init__(self, handler: Handler, **environ: str) -> None:
        self.agent = ChatAgent(environ=environ)
        self.agent.on_message(handler)
        self.stdin, self.stdout = Feed(), io.BytesIO()
        self._thread = threading.Thread(target=self.agent.run, args=(self.stdin, self.stdout))
        self._thread.start()

    def give(self, *said: Any, **fields: Any) -> None:
        self.stdin.give(a_delivery(*said, **fields))

    def all(self) -> list[Message]:
        """Return all messages so far."""
        reader = LineReader(line_bytes_max=chat_messages.LINE_BYTES_MAX)
        lines = reader.feed(self.stdout.getvalue())
        return [chat_messages.decode(each) for each in lines if isinstance(each, bytes)]

    def said(self) -> list[tuple[str, Any]]:
        """Return what was said so far, and what was done."""
        names = {"output": "text", "done": "upto", "error": "code", "log": "message"}
        return [
            (each["kind"], each.get(names[each["kind"]]))
            for each in self.all()
            if each["kind"] in names
        ]

    def end(self) -> list[tuple[str, Any]]:
        self.stdin.give(b"")
        return self.ended()

    def ended(self) -> list[tuple[str, Any]]:
        """Wait until the agent has ended by itself."""
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.said()


@pytest.fixture
def talk() -> Iterator[Callable[..., ChatDialog]]:
    talks: list[ChatDialog] = []

    def begin(handler: Handler, **environ: str) -> ChatDialog:
        talks.append(ChatDialog(handler, **environ))
        return talks[-1]

    yield begin
    for each in talks:
        each.end()


Begin = Callable[..., ChatDialog]


def taking(chat: Chat, count: int) -> list[str]:
    """Take follow-ups until there are that many."""
    found: list[str] = []

    def is_enough() -> bool:
        found.extend(each.text for each in chat.follow_ups())
        return len(found) >= count

    until(is_enough)
    return found
