"""Voice: what an agent says, one message at a time, without secrets; and its signs of life.

Owns the agent's stdout while it runs. Knows not what the messages are about.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, Final

from onceward.agents import messages
from onceward.agents.messages import Message
from onceward.agents.streams import Pulse
from onceward.errors import MessageRefused
from onceward.seams import Clock, timestamp
from onceward.secrets import Redactor

HEARTBEAT_SECONDS: Final = 10.0
#: What is said for people is cut after this.
TEXT_CHARACTERS_MAX: Final = 8000


class Voice:
    """The voice of one agent."""

    def __init__(
        self,
        *,
        agent_type: str,
        agent_id: str | None,
        env: Mapping[str, str],
        clock: Clock,
        encode: Callable[[Message], bytes] = messages.encode,
    ) -> None:
        """Speak for this agent; heard by nobody until it is opened."""
        self.heartbeat_seconds = _seconds(env.get("ONCEWARD_HEARTBEAT_SECONDS"))
        self._agent = (agent_type, agent_id)
        self._redactor = Redactor.from_environment(env)
        self._clock = clock
        self._encode = encode
        self._pulse = Pulse(clock)
        self._out: BinaryIO | None = None
        self._writing = threading.Lock()

    @contextmanager
    def opened(self, stdout: BinaryIO) -> Iterator[None]:
        """Speak on this, and give signs of life, until the work inside is over."""
        self._out = stdout
        self.beat()
        ended = threading.Event()
        beating = threading.Thread(target=self._keep_beating, args=(ended,), daemon=True)
        self.show("ready")
        self.beat()
        beating.start()
        try:
            yield
            self.show("stopping")
            self.beat()
        finally:
            ended.set()

    def show(self, status: str, task_id: str | None = None) -> None:
        """Let the heartbeats say that the agent is at something else."""
        self._pulse.set(status, task_id)

    def beat(self) -> None:
        """Give a sign of life."""
        self.say(self._pulse.message(*self._agent))

    def say(self, message: Message) -> None:
        """Send a message; it is on its way when this returns."""
        rest = memoryview(self._encode(message))
        with self._writing:
            try:
                while rest and self._out is not None:
                    rest = rest[self._out.write(rest) :]
            except OSError:
                # Nobody listens any more; what is at work is finished all the same.
                self._out = None

    def log(self, text: str, *, level: str = "info", **fields: object) -> None:
        """Write a line for people."""
        at = timestamp(self._clock.now())
        told = self.redacted(fields) or None
        self.say(messages.log(level=level, message=self.cut(text), timestamp=at, fields=told))

    def cut(self, text: str) -> str:
        """Return a text for people, of a length that can be sent, and without secrets."""
        # Cut afterwards: half of a secret would not be found.
        clean = self._redactor.text(text)
        return clean if len(clean) <= TEXT_CHARACTERS_MAX else clean[:TEXT_CHARACTERS_MAX] + "…"

    def redacted(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy without secrets."""
        try:
            clean = self._redactor.value(value)
        except RecursionError as exc:
            raise MessageRefused(path="payload", problem="is nested too deeply") from exc
        assert isinstance(clean, dict)
        return clean

    def _keep_beating(self, ended: threading.Event) -> None:
        while not ended.wait(self.heartbeat_seconds):
            self.beat()


def _seconds(text: str | None) -> float:
    try:
        seconds = float(text or HEARTBEAT_SECONDS)
    except ValueError:
        return HEARTBEAT_SECONDS
    return seconds if 0 < seconds < float("inf") else HEARTBEAT_SECONDS
