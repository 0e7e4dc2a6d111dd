"""Receiving: what a line from an agent means for the command that is being waited for.

Owns which lines count, which are noise, and which break the rules. Knows neither processes nor
time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from onceward.agents import artifacts, messages
from onceward.agents.lines import Arrival, Oversized
from onceward.agents.messages import Message
from onceward.errors import AgentFailed, InvalidArgument, MessageRefused
from onceward.keys.canonical import loads
from onceward.secrets import Redactor

#: More events on the way to one answer are counted and thrown away.
EVENTS_PER_COMMAND_MAX: Final = 1000
#: And so are more lines for people.
LOGS_PER_COMMAND_MAX: Final = 1000
#: A longer line for people is cut.
LOG_CHARACTERS_MAX: Final = 4000


@dataclass(kw_only=True, slots=True)
class Work:
    """A command that is waited for."""

    command: Message
    #: Type of the agent that has it.
    agent: str
    #: By when, in the clock's monotonic seconds, an answer must be here.
    deadline: float
    on_event: Callable[[Message], None]
    on_log: Callable[[Message], None]
    on_beat: Callable[[], None]
    on_noise: Callable[[str, str], None]
    #: The event that ends it.
    answer: Message | None = None
    #: When the supervisor last looked after it.
    looked_at: float = 0.0
    events: int = 0
    logs: int = 0

    def result(self) -> Message:
        """Return the answer; raise AgentFailed when it is an error."""
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


class Receiver:
    """Reads the lines of agents."""

    def __init__(self, workspace: Path, redactor: Redactor, line_bytes_max: int) -> None:
        """Hold artifacts against this workspace, and blot out secrets."""
        self._workspace = workspace
        self._redactor = redactor
        self._line_bytes_max = line_bytes_max

    def take(self, arrival: Arrival, work: Work) -> None:
        """Deal with one line; raise AgentFailed when it breaks the rules."""
        if isinstance(arrival, Oversized):
            work.on_noise("oversized line", f"{arrival.size} bytes")
            return
        try:
            message = messages.decode(arrival, line_bytes_max=self._line_bytes_max)
        except MessageRefused as exc:
            self._wrong_shape(arrival, work, exc)
        except InvalidArgument as exc:
            work.on_noise("broken line", self._redactor.text(exc.message))
        else:
            self._sort(message, work)

    def _sort(self, message: Message, work: Work) -> None:
        if message["kind"] == "heartbeat":
            work.on_beat()
        elif message["kind"] == "log":
            self._log(message, work)
        elif message["kind"] == "event":
            self._event(message, work)
        else:
            work.on_noise("wrong shape", "kind: an agent sends no commands")

    def _wrong_shape(self, line: bytes, work: Work, problem: MessageRefused) -> None:
        """Tell an answer that cannot be read, after which none will come, from mere noise."""
        message = loads(line)
        asked = work.command["correlation_id"]
        if (
            work.answer is None
            and isinstance(message, dict)
            and message.get("kind") == "event"
            and message.get("correlation_id") == asked
            and message.get("event") not in messages.PASSING_EVENTS
        ):
            raise self._broken(work, "BAD_ANSWER", problem.message)
        work.on_noise("wrong shape", self._redactor.text(problem.message))

    def _log(self, message: Message, work: Work) -> None:
        work.logs += 1
        if work.logs > LOGS_PER_COMMAND_MAX:
            work.on_noise("too many logs", "")
            return
        redacted: Any = self._redactor.value(message)
        text = redacted["message"]
        cut = text if len(text) <= LOG_CHARACTERS_MAX else text[:LOG_CHARACTERS_MAX] + "…"
        work.on_log({**redacted, "level": message["level"], "message": cut})

    def _event(self, event: Message, work: Work) -> None:
        if event["correlation_id"] != work.command["correlation_id"]:
            work.on_noise("wrong correlation", f"{event['event']} for another command")
            return
        if work.answer is not None:
            work.on_noise("event after the answer", event["event"])
            return
        is_terminal = messages.is_terminal(event)
        if not is_terminal:
            work.events += 1
            if work.events > EVENTS_PER_COMMAND_MAX:
                work.on_noise("too many events", event["event"])
                return
        self._check(event, work)
        shown = {**event, "payload": self._redactor.value(event["payload"])}
        if is_terminal:
            work.answer = shown
        else:
            work.on_event(shown)

    def _check(self, event: Mapping[str, Any], work: Work) -> None:
        """Refuse what is of the right shape, and wrong all the same."""
        command = work.command
        if event["from"]["agent_type"] != work.agent or event["task_id"] != command["task_id"]:
            said = f"it speaks for {event['from']['agent_type']} and {event['task_id']}"
            raise self._broken(work, "BAD_ANSWER", said)
        seen = event.get("observed_version")
        if seen is not None and seen != command["version"]:
            said = f"it saw {seen['snapshot_id']}, not {command['version']['snapshot_id']}"
            raise self._broken(work, "VERSION_MISMATCH", said)
        for artifact in event.get("artifacts", ()):
            try:
                artifacts.check_path(artifact["path"], self._workspace)
            except InvalidArgument as exc:
                raise self._broken(work, "BAD_ARTIFACT", exc.message) from exc

    def _broken(self, work: Work, code: str, said: str) -> AgentFailed:
        shown = self._redactor.text(said)
        message = f"the {work.agent}'s answer to {work.command['action']} is refused: {shown}"
        fix = "correct the agent; see the reference of the protocol"
        # Asked again, an agent may do better only if it garbled its answer on the way.
        return AgentFailed(message, code=code, retryable=code == "BAD_ANSWER", fix=fix)
