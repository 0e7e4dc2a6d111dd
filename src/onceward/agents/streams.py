"""Streams: an agent's own ends of stdin and stdout, what came in, and what its heartbeats say.

Owns the pipes while an agent runs, so that nobody else reads commands or writes between messages.
Knows not what is done with a command.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final

from onceward.agents import messages
from onceward.agents.lines import LINE_BYTES_MAX, Arrival, LineReader
from onceward.agents.messages import Message
from onceward.seams import Clock, timestamp

#: More commands do not wait inside the agent; they wait in the pipe.
COMMANDS_WAITING_MAX: Final = 100

_CHUNK_BYTES: Final = 64 * 1024


class Waiting:
    """Lines that have come and are not dealt with yet."""

    def __init__(self, *, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        """Begin empty."""
        self._line_bytes_max = line_bytes_max
        self._changed = threading.Condition()
        self._lines: deque[Arrival] = deque()
        self._is_over = False

    def fill(self, stdin: BinaryIO) -> None:
        """Take in lines until there are no more."""
        reader = LineReader(line_bytes_max=self._line_bytes_max)
        try:
            while data := stdin.read(_CHUNK_BYTES):
                self._add(reader.feed(data))
        finally:
            self._add(reader.close(), is_over=True)

    def next(self) -> Arrival | None:
        """Return the next line, or None when there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._is_over)
            self._changed.notify_all()
            return self._lines.popleft() if self._lines else None

    def take(self) -> list[Arrival]:
        """Return, and take out, all that is here."""
        with self._changed:
            found = list(self._lines)
            self._lines.clear()
            self._changed.notify_all()
        return found

    def take_containing(self, text: bytes) -> list[bytes]:
        """Return, and take out, the lines that hold this text."""
        with self._changed:
            found = [each for each in self._lines if isinstance(each, bytes) and text in each]
            self._lines = deque(each for each in self._lines if each not in found)
            self._changed.notify_all()
        return found

    def _add(self, lines: list[Arrival], *, is_over: bool = False) -> None:
        with self._changed:
            self._changed.wait_for(lambda: len(self._lines) < COMMANDS_WAITING_MAX)
            self._lines.extend(lines)
            self._is_over = is_over
            self._changed.notify_all()


class Pulse:
    """What a heartbeat says."""

    def __init__(self, clock: Clock) -> None:
        """Be starting."""
        self._clock = clock
        self._lock = threading.Lock()
        self._began = clock.monotonic()
        self._seq = 0
        self._status = "starting"
        self._task_id: str | None = None
        self._active_at = timestamp(clock.now())

    def set(self, status: str, task_id: str | None = None) -> None:
        """Be at something else."""
        with self._lock:
            self._status, self._task_id = status, task_id
            self._active_at = timestamp(self._clock.now())

    def message(self, agent_type: str, agent_id: str | None) -> Message:
        """Return the next heartbeat."""
        with self._lock:
            self._seq += 1
            return messages.heartbeat(
                agent_type=agent_type,
                agent_id=agent_id,
                seq=self._seq,
                status=self._status,
                pid=os.getpid(),
                uptime_s=round(self._clock.monotonic() - self._began, 3),
                last_activity_at=self._active_at,
                task_id=self._task_id,
            )


def on_streams(
    run: Callable[[BinaryIO, BinaryIO], None], stdin: BinaryIO | None, stdout: BinaryIO | None
) -> None:
    """Run an agent on these streams, or on the process's own if one is not given."""
    if stdin is None or stdout is None:
        with own_streams() as (private_in, private_out):
            run(private_in, private_out)
    else:
        run(stdin, stdout)


@contextmanager
def own_streams() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Keep stdin and stdout for the protocol: others read nothing there, and write to stderr."""
    sys.stdout.flush()
    private_in, private_out = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    kept, sys.stdout = sys.stdout, sys.stderr
    try:
        # Without buffers: a line is on its way when it is written, and no thread holds their locks.
        with (
            os.fdopen(private_in, "rb", buffering=0) as stdin,
            os.fdopen(private_out, "wb", buffering=0) as stdout,
        ):
            yield stdin, stdout
    finally:
        sys.stdout = kept
