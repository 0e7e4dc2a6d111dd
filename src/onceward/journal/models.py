"""Models: what a journal gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: One line of a journal: a JSON object.
Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Appended:
    """Where records came to stand; exact as long as every writer takes the lock."""

    #: The cursor from which a reader would get the first of them.
    start: str
    #: The cursor after the last of them.
    end: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """What lies behind a cursor."""

    #: Valid records that match, in file order.
    items: list[Record]
    #: Where to go on. Different from `since` although `items` is empty: ask again at once.
    next_cursor: str
    #: Identifies the file and the bytes before `next_cursor`; send it back to notice a replacement.
    tag: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One complete line that is not blank, record or not."""

    #: Its bytes without the newline.
    raw: bytes
    #: The cursor behind it.
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
class Verification:
    """What a journal file holds, line by line."""

    size: int
    record_count: int
    blank_count: int
    damaged_count: int
    #: The first of the damaged lines.
    damage: tuple[Damage, ...]
    #: Bytes behind the last newline: a writer is at work, or died. The next append mends it.
    torn_bytes: int

    @property
    def ok(self) -> bool:
        """Say whether every byte of the file belongs to a record or a blank line."""
        return not self.damaged_count and not self.torn_bytes
