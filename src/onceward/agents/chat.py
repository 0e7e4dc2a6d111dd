"""Chat: an agent in Python that talks with people: one handler, follow-ups, and what it has done.

Owns what happens to a delivery between stdin and stdout. Each is handled by one call, alone or
together with one that was at work when it came. Knows not what the handler says, nor to whom.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import BinaryIO, TypeVar

from onceward.agents import chat_messages
from onceward.agents.chat_messages import ChatMessage, DeliveryReader, Handed, last_call
from onceward.agents.handlers import HandlerCalls
from onceward.agents.lines import Arrival
from onceward.agents.streams import Waiting, on_streams
from onceward.agents.voice import Voice
from onceward.errors import InvalidArgument, OncewardError
from onceward.seams import Clock, SystemClock


class BadResult(OncewardError):
    """A handler of chats returns a text, or nothing."""

    code = "BAD_RESULT"


class CallOver(OncewardError):
    """This call is over, and what it would say now would answer other messages."""

    code = "CALL_OVER"


class Chat:
    """What its handler sees of a delivery."""

    def __init__(self, handed: Handed, agent: ChatAgent) -> None:
        """Show what was handed over."""
        self.run_id = handed.run_id
        self.group = handed.group
        #: What people said since the last time: what calls the agent, and what else there was.
        self.messages: tuple[ChatMessage, ...] = handed.messages
        #: Whether this goes on with what an earlier call of this process was about.
        self.is_follow_up = handed.is_follow_up
        #: The directory to work in.
        self.workspace = agent.workspace
        self._agent = agent
        self._upto = handed.upto
        self._lock = threading.Lock()
        self._is_over = False

    @property
    def text(self) -> str:
        """Return what the agent was last called with."""
        return last_call(self.messages).text

    def follow_ups(self) -> tuple[ChatMessage, ...]:
        """Return, and take, what people said since; it is done when this call is."""
        with self._lock:
            self._refuse_late()
            taken = self._agent.take_follow_ups()
            self._upto = taken[-1].upto if taken else self._upto
        return tuple(message for each in taken for message in each.messages)

    def reply(self, text: str, *, key: str | None = None) -> None:
        """Say something; what was said under the same key is not said twice."""
        if not text:
            message = "text: must be a text that is not empty"
            raise InvalidArgument(message, fix="say something, or nothing at all", field="text")
        size = len(text.encode(errors="replace"))
        if size > chat_messages.TEXT_BYTES_MAX:
            message = f"text: has {size} bytes, and may have {chat_messages.TEXT_BYTES_MAX}"
            raise InvalidArgument(message, fix="say it in parts", field="text")
        with self._lock:
            self._refuse_late()
            self._agent.voice.say(chat_messages.output(text, key=key, upto=self._upto))

    def log(self, text: str, *, level: str = "info", **fields: object) -> None:
        """Write a line for those who run the agent: debug, info, warn or error."""
        self._agent.voice.log(text, level=level, **fields)

    def end(self) -> int:
        """Let nothing more be said or taken; return how far the messages were taken."""
        with self._lock:
            self._is_over = True
            return self._upto

    def _refuse_late(self) -> None:
        if self._is_over:
            message = "this call is over"
            raise CallOver(message, fix="reply before the handler returns")


Handler = Callable[[Chat], str | Awaitable[str | None] | None]
_Handler = TypeVar("_Handler", bound=Handler)


class ChatAgent:
    """An agent that talks with people: one handler, and a loop that hands it what they say."""

    def __init__(
        self,
        *,
        agent_id: str | None = None,
        environ: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Be a chat agent, in the directory that the dispatcher names."""
        env = os.environ if environ is None else environ
        self.workspace = Path(env.get("ONCEWARD_WORKSPACE") or ".").resolve()
        self.voice = Voice(
            agent_type=chat_messages.AGENT_TYPE,
            agent_id=agent_id,
            env=env,
            clock=clock or SystemClock(),
            encode=chat_messages.encode,
        )
        self._handler: Handler | None = None
        self._waiting = Waiting(line_bytes_max=chat_messages.LINE_BYTES_MAX)
        self._reader = DeliveryReader()
        #: Whole deliveries, and what could not be read as one, in their order.
        self._arrived: deque[Handed | InvalidArgument] = deque()
        self._calls = HandlerCalls()

    def on_message(self, handler: _Handler) -> _Handler:
        """Let the decorated function, `def` or `async def`, answer what people say."""
        self._handler = handler
        return handler

    def run(self, stdin: BinaryIO | None = None, stdout: BinaryIO | None = None) -> None:
        """Answer until stdin ends, or until something fails.

        Whatever came before the end of stdin is still done. Behind a failure nothing is: those
        messages are handed to the agent's next life, and must not be answered by both.
        """
        if self._handler is None:
            message = "this agent has no handler"
            raise InvalidArgument(message, fix="decorate a function with @agent.on_message")
        on_streams(self._run, stdin, stdout)

    def take_follow_ups(self) -> list[Handed]:
        """Return, and take out, the whole deliveries that are here."""
        for line in self._waiting.take():
            self._sort_in(line)
        taken = []
        while self._arrived and isinstance(first := self._arrived[0], Handed):
            taken.append(first)
            self._arrived.popleft()
        return taken

    def _run(self, stdin: BinaryIO, stdout: BinaryIO) -> None:
        reading = threading.Thread(target=self._waiting.fill, args=(stdin,), daemon=True)
        reading.start()
        with self._calls, self.voice.opened(stdout):
            is_well = True
            while is_well and (arrival := self._next()) is not None:
                is_well = self._take(arrival)

    def _next(self) -> Handed | InvalidArgument | None:
        while not self._arrived:
            line = self._waiting.next()
            if line is None:
                return None
            self._sort_in(line)
        return self._arrived.popleft()

    def _sort_in(self, line: Arrival) -> None:
        try:
            handed = self._reader.add(line)
        except InvalidArgument as exc:
            self._arrived.append(exc)
        else:
            if handed is not None:
                self._arrived.append(handed)

    def _take(self, arrival: Handed | InvalidArgument) -> bool:
        """Handle a delivery; False when that failed."""
        if isinstance(arrival, InvalidArgument):
            self._fail(arrival.message, code="INVALID_MESSAGE", is_retryable=False)
            return False
        chat = Chat(arrival, self)
        self.voice.show("busy")
        try:
            self._answer(chat)
        except OncewardError as exc:
            self._fail(exc.message, code=exc.code, is_retryable=exc.retryable, upto=chat.end())
            return False
        except (Exception, SystemExit) as exc:  # noqa: BLE001 - whatever it is, it is told
            traceback.print_exc(file=sys.stderr)
            said = f"{type(exc).__name__}: {exc}"
            self._fail(said, code="HANDLER_FAILED", is_retryable=True, upto=chat.end())
            return False
        upto = chat.end()
        self.voice.show("ready")
        self.voice.say(chat_messages.done(upto))
        return True

    def _answer(self, chat: Chat) -> None:
        assert self._handler is not None
        said = self._calls.call(self._handler, chat)
        if not (said is None or isinstance(said, str)):
            message = f"the handler returned a {type(said).__name__}, not a text"
            raise BadResult(message, fix="return a text or nothing")
        if said:
            chat.reply(said)

    def _fail(self, said: str, *, code: str, is_retryable: bool, upto: int | None = None) -> None:
        """Tell of a failure; whatever was raised, it must be possible to send."""
        text = self.voice.cut(said.encode("utf-8", "backslashreplace").decode())
        try:
            told = chat_messages.error(text, code=code, retryable=is_retryable, upto=upto)
            self.voice.say(told)
        except InvalidArgument:  # A code of somebody's own that is none.
            self.voice.say(chat_messages.error(text, retryable=bool(is_retryable), upto=upto))
