"""Stdio streams: an agent's private stdin and stdout, received lines and heartbeat state.

While an agent runs, no other code in its process can read commands or write between messages.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final

from onceward.agents import protocol
from onceward.agents.line_reader import LINE_BYTES_MAX, LineReader, ReceivedLine
from onceward.agents.protocol import Message
from onceward.system import Clock, timestamp

#: Maximum number of commands queued in the agent; further ones stay in the pipe.
COMMANDS_WAITING_MAX: Final = 100

_CHUNK_BYTES: Final = 64 * 1024


class LineQueue:
    """Received lines that wait to be handled."""

    def __init__(self, *, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        """Start empty."""
        self._line_bytes_max = line_bytes_max
        self._changed = threading.Condition()
        self._lines: deque[ReceivedLine] = deque()
        self._is_closed = False

    def fill(self, stdin: BinaryIO) -> None:
        """Read lines from `stdin` until its end."""
        reader = LineReader(line_bytes_max=self._line_bytes_max)
        try:
            while data := stdin.read(_CHUNK_BYTES):
                self._add(reader.feed(data))
        finally:
            self._add(reader.close(), is_closed=True)

    def next(self) -> ReceivedLine | None:
        """Wait for the next line and return it, or None at the end of input."""
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._is_closed)
            self._changed.notify_all()
            return self._lines.popleft() if self._lines else None

    def take(self) -> list[ReceivedLine]:
        """Remove and return all queued lines."""
        with self._changed:
            found = list(self._lines)
            self._lines.clear()
            self._changed.notify_all()
        return found

    def take_containing(self, text: bytes) -> list[bytes]:
        """Remove and return the queued lines that contain this text."""
        with self._changed:
            found = [each for each in self._lines if isinstance(each, bytes) and text in each]
            self._lines = deque(each for each in self._lines if each not in found)
            self._changed.notify_all()
        return found

    def _add(self, lines: list[ReceivedLine], *, is_closed: bool = False) -> None:
        with self._changed:
            self._changed.wait_for(lambda: len(self._lines) < COMMANDS_WAITING_MAX)
            self._lines.extend(lines)
            self._is_closed = is_closed
            self._changed.notify_all()


class HeartbeatState:
    """The content of an agent's heartbeats."""

    def __init__(self, clock: Clock) -> None:
        """Start with the status `starting`."""
        self._clock = clock
        self._lock = threading.Lock()
        self._started_at = clock.monotonic()
        self._seq = 0
        self._status = "starting"
        self._task_id: str | None = None
        self._active_at = timestamp(clock.now())

    def set(self, status: str, task_id: str | None = None) -> None:
        """Set the status and the task."""
        with self._lock:
            self._status, self._task_id = status, task_id
            self._active_at = timestamp(self._clock.now())

    def message(self, agent_type: str, agent_id: str | None) -> Message:
        """Return the next heartbeat."""
        with self._lock:
            self._seq += 1
            return protocol.heartbeat(
                agent_type=agent_type,
                agent_id=agent_id,
                seq=self._seq,
                status=self._status,
                pid=os.getpid(),
                uptime_s=round(self._clock.monotonic() - self._started_at, 3),
                last_activity_at=self._active_at,
                task_id=self._task_id,
            )


def run_on_streams(
    run: Callable[[BinaryIO, BinaryIO], None], stdin: BinaryIO | None, stdout: BinaryIO | None
) -> None:
    """Run an agent on these streams, or on the process's own if one is missing."""
    if stdin is None or stdout is None:
        with own_streams() as (private_in, private_out):
            run(private_in, private_out)
    else:
        run(stdin, stdout)


@contextmanager
def own_streams() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Reserve stdin and stdout for the protocol: other code reads nothing and writes to stderr."""
    sys.stdout.flush()
    private_in, private_out = os.dup(0), os.dup(1)
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    os.close(devnull)
    os.dup2(2, 1)
    original_stdout, sys.stdout = sys.stdout, sys.stderr
    try:
        # Unbuffered: a written line is sent at once, and no thread can hold a buffer's lock.
        with (
            os.fdopen(private_in, "rb", buffering=0) as stdin,
            os.fdopen(private_out, "wb", buffering=0) as stdout,
        ):
            yield stdin, stdout
    finally:
        sys.stdout = original_stdout
