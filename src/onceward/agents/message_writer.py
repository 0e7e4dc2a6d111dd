"""Message writer: write an agent's messages and heartbeats to stdout, one at a time.

Only this module writes to stdout while the agent runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, Final

from onceward.agents import protocol
from onceward.agents.protocol import Message
from onceward.agents.stdio_streams import HeartbeatState
from onceward.errors import MessageRefused
from onceward.system import Clock, timestamp
from onceward.system.redaction import Redactor

HEARTBEAT_SECONDS: Final = 10.0
#: Maximum length of log texts and error messages.
TEXT_CHARACTERS_MAX: Final = 8000


class MessageWriter:
    """Writes the messages of one agent."""

    def __init__(
        self,
        *,
        agent_type: str,
        agent_id: str | None,
        env: Mapping[str, str],
        clock: Clock,
        encode: Callable[[Message], bytes] = protocol.encode,
    ) -> None:
        """Write as this agent; messages are discarded until a stream is attached."""
        self.heartbeat_seconds = _seconds(env.get("ONCEWARD_HEARTBEAT_SECONDS"))
        self._agent = (agent_type, agent_id)
        self._redactor = Redactor.from_environment(env)
        self._clock = clock
        self._encode = encode
        self._heartbeat = HeartbeatState(clock)
        self._out: BinaryIO | None = None
        self._writing = threading.Lock()

    @contextmanager
    def attach(self, stdout: BinaryIO) -> Iterator[None]:
        """Write to `stdout` and send heartbeats until the block ends."""
        self._out = stdout
        self.send_heartbeat()
        ended = threading.Event()
        heartbeats = threading.Thread(target=self._send_heartbeats, args=(ended,), daemon=True)
        self.set_status("ready")
        self.send_heartbeat()
        heartbeats.start()
        try:
            yield
            self.set_status("stopping")
            self.send_heartbeat()
        finally:
            ended.set()

    def set_status(self, status: str, task_id: str | None = None) -> None:
        """Set the status and the task that heartbeats report."""
        self._heartbeat.set(status, task_id)

    def send_heartbeat(self) -> None:
        """Send a heartbeat."""
        self.send(self._heartbeat.message(*self._agent))

    def send(self, message: Message) -> None:
        """Send a message; it has been written when this returns."""
        rest = memoryview(self._encode(message))
        with self._writing:
            try:
                while rest and self._out is not None:
                    rest = rest[self._out.write(rest) :]
            except OSError:
                # The reader is gone; current work is finished nevertheless.
                self._out = None

    def log(self, text: str, *, level: str = "info", **fields: object) -> None:
        """Send a log line."""
        at = timestamp(self._clock.now())
        redacted = self.redacted(fields) or None
        self.send(
            protocol.log(level=level, message=self.truncate(text), timestamp=at, fields=redacted)
        )

    def truncate(self, text: str) -> str:
        """Return the text redacted and short enough to be sent."""
        # Truncated after redaction: half of a secret would not be recognised.
        clean = self._redactor.text(text)
        return clean if len(clean) <= TEXT_CHARACTERS_MAX else clean[:TEXT_CHARACTERS_MAX] + "…"

    def redacted(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return a redacted copy."""
        try:
            clean = self._redactor.value(value)
        except RecursionError as exc:
            raise MessageRefused(
                path="payload", problem="is nested too deeply", fix=protocol.SEND_LESS
            ) from exc
        assert isinstance(clean, dict)
        return clean

    def _send_heartbeats(self, ended: threading.Event) -> None:
        while not ended.wait(self.heartbeat_seconds):
            self.send_heartbeat()


def _seconds(text: str | None) -> float:
    try:
        seconds = float(text or HEARTBEAT_SECONDS)
    except ValueError:
        return HEARTBEAT_SECONDS
    return seconds if 0 < seconds < float("inf") else HEARTBEAT_SECONDS
