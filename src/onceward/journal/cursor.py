"""Cursors: byte positions in a journal, and how to tell that one does not fit the file."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from onceward.errors import InvalidCursor
from onceward.seams import FileStat, OpenFile

START: Final = "0"
#: How much of the first line identifies a file; a long one must not make every poll slow.
HEAD_BYTES: Final = 4096
#: How many bytes before a cursor identify the place.
BEFORE_BYTES: Final = 256
_FORM: Final = re.compile(r"0|[1-9][0-9]{0,18}")


def parse_cursor(cursor: object) -> int:
    """Return the byte offset that a cursor names."""
    if not isinstance(cursor, str) or not _FORM.fullmatch(cursor):
        shown = repr(cursor)[:60]
        message = f"{shown} is not a cursor: a non-negative whole number, written as text"
        raise InvalidCursor(message, since=shown)
    return int(cursor)


def check_position(file: OpenFile, stat: FileStat, position: int, tag: str | None) -> None:
    """Refuse a position that is not the start of a line of this file, or not the tagged place."""
    if position == 0:
        return
    if position > stat.size:
        message = f"cursor {position} is beyond the end of the file, which has {stat.size} bytes"
        raise InvalidCursor(message, since=str(position), size=stat.size)
    if file.read(position - 1, 1) != b"\n":
        message = f"cursor {position} does not stand at the start of a line"
        raise InvalidCursor(message, since=str(position))
    if tag is not None and tag != place_tag(file, stat, position):
        message = f"cursor {position} was given for another file or for bytes that changed since"
        raise InvalidCursor(message, since=str(position))


def place_tag(file: OpenFile, stat: FileStat, position: int) -> str:
    """Return what identifies the file and the bytes just before `position`."""
    return Places(file, stat).tag(position)


class Places:
    """The places of one open file, when many of them want a tag."""

    def __init__(self, file: OpenFile, stat: FileStat) -> None:
        """Tag places of this file."""
        self._file = file
        self._identity = f"{stat.device:x}-{stat.inode:x}"
        self._head: str | None = None

    def tag(self, position: int) -> str:
        """Return what identifies the file and the bytes just before `position`."""
        if position == 0:
            return START  # Nothing was read yet, so any file fits.
        if self._head is None:
            # A line ends before any position above 0: the first one is complete and stays as it is.
            self._head = _digest(self._file.read(0, HEAD_BYTES).partition(b"\n")[0])
        before = self._file.read(max(0, position - BEFORE_BYTES), min(position, BEFORE_BYTES))
        return f"{self._identity}-{self._head}-{_digest(before)}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
