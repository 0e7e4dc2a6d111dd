"""Reply handling: decide what each line from an agent means for the command that it answers.

A line is an answer, a progress event, a log message, a heartbeat, noise to count, or a protocol
violation that fails the command. Knows neither processes nor time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from onceward.agents import artifacts, protocol
from onceward.agents.line_reader import OversizedLine, ReceivedLine
from onceward.agents.protocol import Message
from onceward.errors import AgentFailed, InvalidArgument, MessageRefused
from onceward.keys.canonical import loads
from onceward.system.redaction import Redactor

#: Maximum number of progress events per command; further ones are counted and dropped.
EVENTS_PER_COMMAND_MAX: Final = 1000
#: Maximum number of log messages per command; further ones are counted and dropped.
LOGS_PER_COMMAND_MAX: Final = 1000
#: Longer log messages are truncated.
LOG_CHARACTERS_MAX: Final = 4000


@dataclass(kw_only=True, slots=True)
class PendingCommand:
    """A command that waits for its answer."""

    command: Message
    #: Type of the agent that has it.
    agent: str
    #: Deadline of the answer, in the clock's monotonic seconds.
    deadline: float
    on_event: Callable[[Message], None]
    on_log: Callable[[Message], None]
    on_heartbeat: Callable[[], None]
    on_noise: Callable[[str, str], None]
    #: The event that ends it.
    answer: Message | None = None
    #: When the supervisor last checked it.
    checked_at: float = 0.0
    events: int = 0
    logs: int = 0

    def result(self) -> Message:
        """Return the answer; raise AgentFailed if it is an error event."""
        assert self.answer is not None
        if self.answer["event"] == "error":
            payload = self.answer["payload"]
            raise AgentFailed(
                payload["message"],
                code=payload["code"],
                retryable=payload["retryable"],
                event=self.answer,
            )
        return self.answer


class ReplyReceiver:
    """Handles the lines received from agents."""

    def __init__(self, workspace: Path, redactor: Redactor, line_bytes_max: int) -> None:
        """Check artifacts against this workspace, and redact secrets."""
        self._workspace = workspace
        self._redactor = redactor
        self._line_bytes_max = line_bytes_max

    def take(self, arrival: ReceivedLine, pending: PendingCommand) -> None:
        """Handle one line; raise AgentFailed if it violates the protocol."""
        if isinstance(arrival, OversizedLine):
            pending.on_noise("oversized line", f"{arrival.size} bytes")
            return
        try:
            message = protocol.decode(arrival, line_bytes_max=self._line_bytes_max)
        except MessageRefused as exc:
            self._handle_invalid(arrival, pending, exc)
        except InvalidArgument as exc:
            pending.on_noise("broken line", self._redactor.text(exc.message))
        else:
            self._dispatch(message, pending)

    def _dispatch(self, message: Message, pending: PendingCommand) -> None:
        if message["kind"] == "heartbeat":
            pending.on_heartbeat()
        elif message["kind"] == "log":
            self._log(message, pending)
        elif message["kind"] == "event":
            self._event(message, pending)
        else:
            pending.on_noise("wrong shape", "kind: an agent sends no commands")

    def _handle_invalid(
        self, line: bytes, pending: PendingCommand, problem: MessageRefused
    ) -> None:
        """Fail the command if the invalid line is its answer; otherwise count it as noise."""
        message = loads(line)
        correlation_id = pending.command["correlation_id"]
        if (
            pending.answer is None
            and isinstance(message, dict)
            and message.get("kind") == "event"
            and message.get("correlation_id") == correlation_id
            and message.get("event") not in protocol.PROGRESS_EVENTS
        ):
            raise self._rejected(pending, "BAD_ANSWER", problem.message)
        pending.on_noise("wrong shape", self._redactor.text(problem.message))

    def _log(self, message: Message, pending: PendingCommand) -> None:
        pending.logs += 1
        if pending.logs > LOGS_PER_COMMAND_MAX:
            pending.on_noise("too many logs", "")
            return
        redacted: Any = self._redactor.value(message)
        text = redacted["message"]
        cut = text if len(text) <= LOG_CHARACTERS_MAX else text[:LOG_CHARACTERS_MAX] + "…"
        pending.on_log({**redacted, "level": message["level"], "message": cut})

    def _event(self, event: Message, pending: PendingCommand) -> None:
        if event["correlation_id"] != pending.command["correlation_id"]:
            pending.on_noise("wrong correlation", f"{event['event']} for another command")
            return
        if pending.answer is not None:
            pending.on_noise("event after the answer", event["event"])
            return
        is_terminal = protocol.is_terminal(event)
        if not is_terminal:
            pending.events += 1
            if pending.events > EVENTS_PER_COMMAND_MAX:
                pending.on_noise("too many events", event["event"])
                return
        self._check(event, pending)
        shown = {**event, "payload": self._redactor.value(event["payload"])}
        if is_terminal:
            pending.answer = shown
        else:
            pending.on_event(shown)

    def _check(self, event: Mapping[str, Any], pending: PendingCommand) -> None:
        """Refuse an event that matches the schema but not its command."""
        command = pending.command
        if event["from"]["agent_type"] != pending.agent or event["task_id"] != command["task_id"]:
            sender, wanted = event["from"]["agent_type"], command["task_id"]
            problem = (
                f"it is from a {sender} for {event['task_id']}, "
                f"not from a {pending.agent} for {wanted}"
            )
            raise self._rejected(pending, "BAD_ANSWER", problem)
        observed = event.get("observed_version")
        if observed is not None and observed != command["version"]:
            expected = command["version"]["snapshot_id"]
            problem = (
                f"its observed_version is {observed['snapshot_id']}, "
                f"but the command is for {expected}"
            )
            raise self._rejected(pending, "VERSION_MISMATCH", problem)
        for artifact in event.get("artifacts", ()):
            try:
                artifacts.check_path(artifact["path"], self._workspace)
            except InvalidArgument as exc:
                raise self._rejected(pending, "BAD_ARTIFACT", exc.message) from exc

    def _rejected(self, pending: PendingCommand, code: str, problem: str) -> AgentFailed:
        shown = self._redactor.text(problem)
        action = pending.command["action"]
        message = f"the {pending.agent}'s answer to {action} was rejected: {shown}"
        fix = "correct the agent: answers follow agents/schemas/event.json of the package onceward"
        # Only a garbled answer may be better at the next attempt.
        return AgentFailed(message, code=code, retryable=code == "BAD_ANSWER", fix=fix)
