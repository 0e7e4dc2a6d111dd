"""Byte cursors: parse positions in a journal, and detect cursors that do not match the file."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from onceward.errors import InvalidCursor
from onceward.system import FileStat, OpenFile

START: Final = "0"
#: Bytes of the first line that identify a file; bounded, since every poll reads them.
HEAD_BYTES: Final = 4096
#: Bytes before a cursor that identify the position.
BEFORE_BYTES: Final = 256
_FORM: Final = re.compile(r"0|[1-9][0-9]{0,18}")


def parse_cursor(cursor: object) -> int:
    """Return the byte offset of a cursor."""
    if not isinstance(cursor, str) or not _FORM.fullmatch(cursor):
        shown = repr(cursor)[:60]
        message = f"{shown} is not a cursor: it must be a non-negative integer, as text"
        raise InvalidCursor(message, since=shown)
    return int(cursor)


def check_position(file: OpenFile, stat: FileStat, position: int, tag: str | None) -> None:
    """Raise InvalidCursor unless `position` is the start of a line and matches its fingerprint."""
    if position == 0:
        return
    if position > stat.size:
        message = f"cursor {position} is beyond the end of the file, which has {stat.size} bytes"
        raise InvalidCursor(message, since=str(position), size=stat.size)
    if file.read(position - 1, 1) != b"\n":
        message = f"cursor {position} is not at the start of a line"
        raise InvalidCursor(message, since=str(position))
    if tag is not None and tag != position_tag(file, stat, position):
        message = f"cursor {position} belongs to another file, or the bytes before it have changed"
        raise InvalidCursor(message, since=str(position))


def position_tag(file: OpenFile, stat: FileStat, position: int) -> str:
    """Return the fingerprint of the file and of the bytes just before `position`."""
    return PositionTags(file, stat).tag(position)


class PositionTags:
    """Computes fingerprints for many positions of one open file."""

    def __init__(self, file: OpenFile, stat: FileStat) -> None:
        """Use this file."""
        self._file = file
        self._identity = f"{stat.device:x}-{stat.inode:x}"
        self._head: str | None = None

    def tag(self, position: int) -> str:
        """Return the fingerprint of the file and of the bytes just before `position`."""
        if position == 0:
            return START  # Nothing was read yet, so any file matches.
        if self._head is None:
            # A line ends before any position above 0: the first line is complete and final.
            self._head = _digest(self._file.read(0, HEAD_BYTES).partition(b"\n")[0])
        before = self._file.read(max(0, position - BEFORE_BYTES), min(position, BEFORE_BYTES))
        return f"{self._identity}-{self._head}-{_digest(before)}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
