"""Line reader: split bytes from a pipe into lines, in bounded memory.

When too many lines wait to be read, further ones are dropped. Lines that answer the current command
are never dropped, and the last dropped heartbeat is kept.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Final

#: Maximum line length including its newline; larger content is passed by path and checksum.
LINE_BYTES_MAX: Final = 256 * 1024
#: Maximum number of waiting lines; further lines are counted and dropped.
LINES_WAITING_MAX: Final = 1000
#: Maximum bytes of waiting lines; twice as many for answers to the current command.
BYTES_WAITING_MAX: Final = 4 * 1024 * 1024

_HEARTBEAT_MARKER: Final = b'"heartbeat"'
#: Maximum length of a heartbeat.
_HEARTBEAT_BYTES_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class OversizedLine:
    """A line that was too long and was discarded."""

    #: Its length in bytes, with its newline.
    size: int


ReceivedLine = bytes | OversizedLine


class LineReader:
    """Splits a stream of bytes into lines."""

    def __init__(self, *, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        """Hold at most one line of `line_bytes_max` bytes."""
        assert line_bytes_max > 1, line_bytes_max
        self._line_bytes_max = line_bytes_max
        self._parts: list[bytes] = []
        #: Length of the unfinished line so far, including discarded bytes.
        self._size = 0

    def feed(self, data: bytes) -> list[ReceivedLine]:
        """Add bytes and return the lines that they complete, without newlines."""
        *ended, rest = data.split(b"\n")
        arrivals: list[ReceivedLine] = []
        for each in ended:
            self._extend(each)
            arrivals.append(self._end(newline=1))
        self._extend(rest)
        return [each for each in arrivals if each]

    def close(self) -> list[ReceivedLine]:
        """Return the last line if it had no newline."""
        return [each for each in [self._end(newline=0)] if each]

    def _extend(self, part: bytes) -> None:
        self._size += len(part)
        if self._size >= self._line_bytes_max:
            self._parts.clear()
        elif part:
            self._parts.append(part)

    def _end(self, *, newline: int) -> ReceivedLine:
        size, line = self._size, b"".join(self._parts)
        self._size = 0
        self._parts.clear()
        return OversizedLine(size + newline) if size >= self._line_bytes_max else line.strip()


class MessageQueue:
    """The received lines of one agent that wait to be read.

    The thread that fills it blocks in one case only: answers to the current command are never
    dropped, so when too many of them wait, the agent has to wait too.
    """

    def __init__(self, reader: LineReader) -> None:
        """Start empty, without a protected marker."""
        self._reader = reader
        self._changed = threading.Condition()
        self._waiting: deque[ReceivedLine] = deque()
        self._bytes = 0
        self._dropped = 0
        self._last_heartbeat: bytes | None = None
        self._marker: bytes | None = None
        self._has_exited = False
        self._is_closed = False

    def protect(self, marker: str | None) -> None:
        """Never drop lines that contain `marker`; replaces the previous marker."""
        with self._changed:
            self._marker = marker.encode() if marker else None
            self._changed.notify_all()

    def feed(self, data: bytes) -> None:
        """Add bytes received from the agent."""
        with self._changed:
            for piece in self._drop_flood(data):
                for each in self._reader.feed(piece):
                    self._put(each)
            self._changed.notify_all()

    def close(self) -> None:
        """Mark the end of input; an unfinished line becomes the last one."""
        with self._changed:
            self._is_closed = True
            self._waiting.extend(self._reader.close())
            self._changed.notify_all()

    def finish(self) -> None:
        """Stop blocking: the agent is dead, and at most one pipe buffer is left to read."""
        with self._changed:
            self._has_exited = True
            self._changed.notify_all()

    @property
    def is_closed(self) -> bool:
        """Return whether the input has ended."""
        return self._is_closed

    def take(self, timeout: float) -> list[ReceivedLine]:
        """Return all waiting lines; wait up to `timeout` seconds for the first."""
        with self._changed:
            if (
                not self._waiting
                and not self._last_heartbeat
                and not self._is_closed
                and timeout > 0
            ):
                self._changed.wait(timeout)
            arrivals = list(self._waiting)
            if self._last_heartbeat is not None:
                arrivals.append(self._last_heartbeat)
            self._waiting.clear()
            self._bytes, self._last_heartbeat = 0, None
            self._changed.notify_all()
        return arrivals

    def take_dropped(self) -> int:
        """Return how many lines were dropped since the last call."""
        with self._changed:
            dropped, self._dropped = self._dropped, 0
        return dropped

    def _is_full(self, share: int = 1) -> bool:
        too_many = len(self._waiting) >= LINES_WAITING_MAX * share
        return too_many or self._bytes >= BYTES_WAITING_MAX * share

    def _drop_flood(self, data: bytes) -> list[bytes]:
        """Drop many lines at once: a flood arrives faster than single lines can be checked."""
        first, last = data.find(b"\n") + 1, data.rfind(b"\n") + 1
        if first == last or not self._is_full():
            return [data]
        flood = data[first:last]
        if _HEARTBEAT_MARKER in flood or (self._marker is not None and self._marker in flood):
            return [data]
        self._dropped += flood.count(b"\n")
        return [data[:first], data[last:]]

    def _put(self, arrival: ReceivedLine) -> None:
        while self._is_answer(arrival) and self._is_full(share=2) and not self._has_exited:
            self._changed.notify_all()
            self._changed.wait()
        if self._is_full() and not self._is_answer(arrival):
            self._drop(arrival)
            return
        self._waiting.append(arrival)
        self._bytes += len(arrival) if isinstance(arrival, bytes) else 0

    def _drop(self, arrival: ReceivedLine) -> None:
        self._dropped += 1
        if isinstance(arrival, bytes) and len(arrival) <= _HEARTBEAT_BYTES_MAX:
            self._last_heartbeat = arrival if _HEARTBEAT_MARKER in arrival else self._last_heartbeat

    def _is_answer(self, arrival: ReceivedLine) -> bool:
        return isinstance(arrival, bytes) and self._marker is not None and self._marker in arrival
