"""Line scanner: read complete lines of a file of any length, in linear time and bounded memory.

Only 0x0a ends a line. An unterminated last line is never returned.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

BLOCK_BYTES: Final = 256 * 1024
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class ByteReader(Protocol):
    """The part of a file that the scanner needs."""

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes from `offset`, fewer only at the end of the file."""


def blocks(file: ByteReader, start: int, end: int) -> Iterator[tuple[int, bytes, int]]:
    """Yield blocks of complete lines between `start` and `end`, in order.

    Each is `(offset, bytes, length)`. Only the first `length` bytes are valid; the rest belongs to
    the next block and is not cut off, to avoid a copy. A block has at most BLOCK_BYTES, or is a
    single longer line.
    """
    position = start
    while position < end:
        block = file.read(position, min(BLOCK_BYTES, end - position))
        length = block.rfind(b"\n") + 1
        if not length:
            # The search keeps no data: an endless line must not use memory.
            line_end = _line_end(file, position + len(block), end) if block else None
            if line_end is None:
                return
            block = file.read(position, line_end - position)
            length = line_end - position
            if len(block) < length:
                return  # Truncated while reading; the next cursor check detects it.
        yield position, block, length
        position += length


def _line_end(file: ByteReader, start: int, end: int) -> int | None:
    """Return the offset after the next newline, or None if there is none before `end`."""
    position = start
    while position < end:
        chunk = file.read(position, min(BLOCK_BYTES, end - position))
        if not chunk:
            return None
        found = chunk.find(b"\n")
        if found >= 0:
            return position + found + 1
        position += len(chunk)
    return None


def count_lines(file: ByteReader, start: int, end: int) -> int:
    """Return the number of complete, non-blank lines between `start` and `end`."""
    count = 0
    for offset, block, length in blocks(file, start, end):
        first = len(BYTE_ORDER_MARK) if not offset and block.startswith(BYTE_ORDER_MARK) else 0
        lines = block[first:length].split(b"\n")
        count += sum(1 for line in lines if line and not line.isspace())
    return count


def last_line_end(file: ByteReader, end: int) -> int:
    """Return the offset after the last newline before `end`; 0 if there is none."""
    position = end
    while position > 0:
        start = max(0, position - BLOCK_BYTES)
        found = file.read(start, position - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        position = start
    return 0
