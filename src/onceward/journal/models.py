"""Journal models: the results of appending to, reading and verifying a journal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: One line of a journal: a JSON object.
Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Appended:
    """The position of appended records; exact as long as every writer takes the lock."""

    #: The cursor before the first record: reading after it returns the records.
    start: str
    #: The cursor after the last record.
    end: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordPage:
    """The records after a cursor."""

    #: Valid records that match, in file order.
    items: list[Record]
    #: The cursor to resume after. If it moved and `items` is empty, read again at once.
    next_cursor: str
    #: File fingerprint at `next_cursor`; pass it with the cursor to detect a replaced file.
    tag: str


@dataclass(frozen=True, kw_only=True, slots=True)
class JournalLine:
    """One complete line that is not blank, record or not."""

    #: Its bytes without the newline.
    raw: bytes
    #: The cursor after it.
    end: str
    #: The tag of that cursor.
    tag: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Damage:
    """A complete line that is not a record; readers skip it."""

    #: Byte offset of the line.
    offset: int
    #: Bytes of the line, without its newline.
    length: int
    #: Why it is not a record.
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class JournalVerification:
    """The result of checking every line of a journal file."""

    size: int
    record_count: int
    blank_count: int
    damaged_count: int
    #: The first of the damaged lines.
    damage: tuple[Damage, ...]
    #: Bytes after the last newline: a writer is active, or died. The next append repairs it.
    torn_bytes: int

    @property
    def ok(self) -> bool:
        """Return whether every byte of the file belongs to a record or a blank line."""
        return not self.damaged_count and not self.torn_bytes
