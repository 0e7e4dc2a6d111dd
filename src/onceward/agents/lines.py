"""Lines: bytes from a pipe as lines, in bounded memory whatever the other end sends.

Owns where a line ends, how long it may be, and how many may wait to be read. Knows not what a line
means, but for two marks: what answers the current command is kept longest, and of what is thrown
away the last sign of life is kept.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Final

#: A line is at most this long, its newline included; bigger content goes by path and checksum.
LINE_BYTES_MAX: Final = 256 * 1024
#: More lines do not wait; those behind are counted and thrown away.
LINES_WAITING_MAX: Final = 1000
#: Nor do more bytes; twice as many for what answers the current command.
BYTES_WAITING_MAX: Final = 4 * 1024 * 1024

_SIGN_OF_LIFE: Final = b'"heartbeat"'
#: No heartbeat is longer.
_SIGN_BYTES_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class Oversized:
    """A line that was too long to be kept."""

    #: Its length in bytes, with its newline.
    size: int


Arrival = bytes | Oversized


class LineReader:
    """Cuts a stream of bytes into lines."""

    def __init__(self, *, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        """Hold at most one line of that length."""
        assert line_bytes_max > 1, line_bytes_max
        self._line_bytes_max = line_bytes_max
        self._parts: list[bytes] = []
        #: How long the unfinished line is by now, kept or not.
        self._size = 0

    def feed(self, data: bytes) -> list[Arrival]:
        """Take the next bytes and return the lines that they end, without newlines."""
        *ended, rest = data.split(b"\n")
        arrivals: list[Arrival] = []
        for each in ended:
            self._extend(each)
            arrivals.append(self._end(newline=1))
        self._extend(rest)
        return [each for each in arrivals if each]

    def close(self) -> list[Arrival]:
        """Return what was begun and never ended."""
        return [each for each in [self._end(newline=0)] if each]

    def _extend(self, part: bytes) -> None:
        self._size += len(part)
        if self._size >= self._line_bytes_max:
            self._parts.clear()
        elif part:
            self._parts.append(part)

    def _end(self, *, newline: int) -> Arrival:
        size, line = self._size, b"".join(self._parts)
        self._size = 0
        self._parts.clear()
        return Oversized(size + newline) if size >= self._line_bytes_max else line.strip()


class Inbox:
    """The lines of one agent that wait to be read.

    Filled by a thread that never waits, but for one case: a line that answers the current command
    is never thrown away, so when too many of those wait, the agent does.
    """

    def __init__(self, reader: LineReader) -> None:
        """Begin empty, with no current command."""
        self._reader = reader
        self._changed = threading.Condition()
        self._waiting: deque[Arrival] = deque()
        self._bytes = 0
        self._dropped = 0
        self._sign: bytes | None = None
        self._mark: bytes | None = None
        self._is_last = False
        self._is_closed = False

    def expect(self, mark: str | None) -> None:
        """Keep every line in which `mark` stands, until another mark is named."""
        with self._changed:
            self._mark = mark.encode() if mark else None
            self._changed.notify_all()

    def feed(self, data: bytes) -> None:
        """Take bytes from the agent."""
        with self._changed:
            for piece in self._without_flood(data):
                for each in self._reader.feed(piece):
                    self._put(each)
            self._changed.notify_all()

    def close(self) -> None:
        """Say that nothing more will come; a line that was begun is the last one."""
        with self._changed:
            self._is_closed = True
            self._waiting.extend(self._reader.close())
            self._changed.notify_all()

    def finish(self) -> None:
        """Take what is left of a dead agent: no more than a pipe holds, so nothing has to wait."""
        with self._changed:
            self._is_last = True
            self._changed.notify_all()

    @property
    def is_over(self) -> bool:
        """Say whether nothing more will come."""
        return self._is_closed

    def take(self, timeout: float) -> list[Arrival]:
        """Return everything that waits; wait up to `timeout` seconds for the first line."""
        with self._changed:
            if not self._waiting and not self._sign and not self._is_closed and timeout > 0:
                self._changed.wait(timeout)
            arrivals = list(self._waiting)
            if self._sign is not None:
                arrivals.append(self._sign)
            self._waiting.clear()
            self._bytes, self._sign = 0, None
            self._changed.notify_all()
        return arrivals

    def take_dropped(self) -> int:
        """Return how many lines were thrown away since the last time."""
        with self._changed:
            dropped, self._dropped = self._dropped, 0
        return dropped

    def _is_full(self, share: int = 1) -> bool:
        too_many = len(self._waiting) >= LINES_WAITING_MAX * share
        return too_many or self._bytes >= BYTES_WAITING_MAX * share

    def _without_flood(self, data: bytes) -> list[bytes]:
        """Throw away a flood in big pieces, for it comes faster than its lines can be looked at."""
        first, last = data.find(b"\n") + 1, data.rfind(b"\n") + 1
        if first == last or not self._is_full():
            return [data]
        whole = data[first:last]
        if _SIGN_OF_LIFE in whole or (self._mark is not None and self._mark in whole):
            return [data]
        self._dropped += whole.count(b"\n")
        return [data[:first], data[last:]]

    def _put(self, arrival: Arrival) -> None:
        while self._is_answer(arrival) and self._is_full(share=2) and not self._is_last:
            self._changed.notify_all()
            self._changed.wait()
        if self._is_full() and not self._is_answer(arrival):
            self._drop(arrival)
            return
        self._waiting.append(arrival)
        self._bytes += len(arrival) if isinstance(arrival, bytes) else 0

    def _drop(self, arrival: Arrival) -> None:
        self._dropped += 1
        if isinstance(arrival, bytes) and len(arrival) <= _SIGN_BYTES_MAX:
            self._sign = arrival if _SIGN_OF_LIFE in arrival else self._sign

    def _is_answer(self, arrival: Arrival) -> bool:
        return isinstance(arrival, bytes) and self._mark is not None and self._mark in arrival
