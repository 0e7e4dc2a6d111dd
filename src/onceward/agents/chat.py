"""Chat: write a chat agent in Python with one message handler, replies and follow-ups.

Reads deliveries from stdin and writes replies to stdout. Each delivery is handled by one call of
the handler: its own call, or the call that was running when the delivery arrived.
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
from onceward.agents.chat_messages import ChatDelivery, ChatMessage, DeliveryReader, last_trigger
from onceward.agents.handlers import HandlerCalls
from onceward.agents.line_reader import ReceivedLine
from onceward.agents.message_writer import MessageWriter
from onceward.agents.protocol import message_and_fix
from onceward.agents.stdio_streams import LineQueue, run_on_streams
from onceward.errors import InvalidArgument, OncewardError
from onceward.system import Clock, SystemClock


class BadResult(OncewardError):
    """A chat handler returned something other than a text or None."""

    code = "BAD_RESULT"


class CallOver(OncewardError):
    """The handler call has ended: a reply sent now would answer other messages."""

    code = "CALL_OVER"


class Chat:
    """A delivery as its handler sees it."""

    def __init__(self, delivery: ChatDelivery, agent: ChatAgent) -> None:
        """Wrap a delivery for one call of the handler."""
        self.run_id = delivery.run_id
        self.group = delivery.group
        #: Messages since the last call: triggers, and other messages as context.
        self.messages: tuple[ChatMessage, ...] = delivery.messages
        #: Whether this continues an earlier call in this process.
        self.is_follow_up = delivery.is_follow_up
        #: The directory to work in.
        self.workspace = agent.workspace
        self._agent = agent
        self._upto = delivery.upto
        self._lock = threading.Lock()
        self._has_ended = False

    @property
    def text(self) -> str:
        """Return the text of the last message that triggers the agent."""
        return last_trigger(self.messages).text

    def follow_ups(self) -> tuple[ChatMessage, ...]:
        """Take the messages that arrived since; they are done when this call returns."""
        with self._lock:
            self._check_active()
            taken = self._agent.take_follow_ups()
            self._upto = taken[-1].upto if taken else self._upto
        return tuple(message for each in taken for message in each.messages)

    def reply(self, text: str, *, key: str | None = None) -> None:
        """Send a reply; a reply with the same key is sent only once."""
        if not text:
            message = f"text: must be a non-empty string, not {text!r}; nothing was sent"
            raise InvalidArgument(message, fix="pass a text, or send no reply", field="text")
        size = len(text.encode(errors="replace"))
        if size > chat_messages.TEXT_BYTES_MAX:
            most = chat_messages.TEXT_BYTES_MAX
            message = f"text: has {size} bytes; at most {most} are allowed; nothing was sent"
            raise InvalidArgument(message, fix="split it into several replies", field="text")
        with self._lock:
            self._check_active()
            self._agent.writer.send(chat_messages.output(text, key=key, upto=self._upto))

    def log(self, text: str, *, level: str = "info", **fields: object) -> None:
        """Write a log line for the operator: debug, info, warn or error."""
        self._agent.writer.log(text, level=level, **fields)

    def end(self) -> int:
        """Refuse further replies and follow-ups; return the number of the last message taken."""
        with self._lock:
            self._has_ended = True
            return self._upto

    def _check_active(self) -> None:
        if self._has_ended:
            message = "this handler call has ended: nothing was sent, and no follow-up was taken"
            raise CallOver(message, fix="call reply() and follow_ups() before the handler returns")


Handler = Callable[[Chat], str | Awaitable[str | None] | None]
_Handler = TypeVar("_Handler", bound=Handler)


class ChatAgent:
    """A chat agent: one handler, and a loop that calls it for each delivery."""

    def __init__(
        self,
        *,
        agent_id: str | None = None,
        environ: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Create the agent for the workspace that the dispatcher names."""
        env = os.environ if environ is None else environ
        self.workspace = Path(env.get("ONCEWARD_WORKSPACE") or ".").resolve()
        self.writer = MessageWriter(
            agent_type=chat_messages.AGENT_TYPE,
            agent_id=agent_id,
            env=env,
            clock=clock or SystemClock(),
            encode=chat_messages.encode,
        )
        self._handler: Handler | None = None
        self._stdin_lines = LineQueue(line_bytes_max=chat_messages.LINE_BYTES_MAX)
        self._reader = DeliveryReader()
        #: Complete deliveries and read errors, in order of arrival.
        self._deliveries: deque[ChatDelivery | InvalidArgument] = deque()
        self._calls = HandlerCalls()

    def on_message(self, handler: _Handler) -> _Handler:
        """Register the decorated function, `def` or `async def`, as the message handler."""
        self._handler = handler
        return handler

    def run(self, stdin: BinaryIO | None = None, stdout: BinaryIO | None = None) -> None:
        """Answer deliveries until stdin ends or one fails.

        Deliveries received before the end of stdin are still handled. After a failure none is: the
        dispatcher gives them to the agent's next process, and both must not answer.
        """
        if self._handler is None:
            message = "this agent has no message handler; it was not started"
            fix = "decorate a function with @agent.on_message before run()"
            raise InvalidArgument(message, fix=fix)
        run_on_streams(self._run, stdin, stdout)

    def take_follow_ups(self) -> list[ChatDelivery]:
        """Take the complete deliveries that have arrived."""
        for line in self._stdin_lines.take():
            self._add_line(line)
        taken = []
        while self._deliveries and isinstance(first := self._deliveries[0], ChatDelivery):
            taken.append(first)
            self._deliveries.popleft()
        return taken

    def _run(self, stdin: BinaryIO, stdout: BinaryIO) -> None:
        reading = threading.Thread(target=self._stdin_lines.fill, args=(stdin,), daemon=True)
        reading.start()
        with self._calls, self.writer.attach(stdout):
            has_succeeded = True
            while has_succeeded and (arrival := self._next()) is not None:
                has_succeeded = self._handle(arrival)

    def _next(self) -> ChatDelivery | InvalidArgument | None:
        while not self._deliveries:
            line = self._stdin_lines.next()
            if line is None:
                return None
            self._add_line(line)
        return self._deliveries.popleft()

    def _add_line(self, line: ReceivedLine) -> None:
        try:
            delivery = self._reader.add(line)
        except InvalidArgument as exc:
            self._deliveries.append(exc)
        else:
            if delivery is not None:
                self._deliveries.append(delivery)

    def _handle(self, arrival: ChatDelivery | InvalidArgument) -> bool:
        """Handle a delivery; return False if that failed."""
        if isinstance(arrival, InvalidArgument):
            self._send_error(message_and_fix(arrival), code="INVALID_MESSAGE", is_retryable=False)
            return False
        chat = Chat(arrival, self)
        self.writer.set_status("busy")
        try:
            self._answer(chat)
        except OncewardError as exc:
            self._send_error(
                message_and_fix(exc), code=exc.code, is_retryable=exc.retryable, upto=chat.end()
            )
            return False
        except (Exception, SystemExit) as exc:  # noqa: BLE001 - any failure is reported
            traceback.print_exc(file=sys.stderr)
            error = f"{type(exc).__name__}: {exc}"
            self._send_error(error, code="HANDLER_FAILED", is_retryable=True, upto=chat.end())
            return False
        upto = chat.end()
        self.writer.set_status("ready")
        self.writer.send(chat_messages.done(upto))
        return True

    def _answer(self, chat: Chat) -> None:
        assert self._handler is not None
        reply = self._calls.call(self._handler, chat)
        if not (reply is None or isinstance(reply, str)):
            message = f"the handler returned a {type(reply).__name__}, not a str or None"
            raise BadResult(message, fix="return the reply as text, or None for no reply")
        if reply:
            chat.reply(reply)

    def _send_error(
        self, error: str, *, code: str, is_retryable: bool, upto: int | None = None
    ) -> None:
        """Send an error message; text that cannot be encoded is escaped."""
        text = self.writer.truncate(error.encode("utf-8", "backslashreplace").decode())
        try:
            message = chat_messages.error(text, code=code, retryable=is_retryable, upto=upto)
            self.writer.send(message)
        except InvalidArgument:  # The exception's own code is not a valid one.
            self.writer.send(chat_messages.error(text, retryable=bool(is_retryable), upto=upto))
