"""Scan: what is wanted of the lines behind a position, up to a page.

With a filter the raw bytes are searched first and only lines that can match are parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

import orjson

from onceward.errors import InvalidArgument
from onceward.journal.cursor import Places
from onceward.journal.lines import BYTE_ORDER_MARK, blocks
from onceward.journal.models import Line, Record
from onceward.seams import OpenFile

#: Entries a page holds at the most, and when no limit is asked for.
PAGE_ENTRIES_MAX: Final = 500
#: Without a limit a page ends this many bytes behind its first entry.
PAGE_BYTES: Final = 1024 * 1024
#: What one read looks through at the most, so that a filter that matches nothing gives way too.
SCAN_BYTES_MAX: Final = 64 * 1024 * 1024
T_co = TypeVar("T_co", covariant=True)


class Wanted(Protocol[T_co]):
    """What a scan is for."""

    @property
    def needle(self) -> bytes | None:
        """Return bytes that every wanted line holds, or None: each has to be looked at."""

    def take(self, line: bytes, end: int) -> T_co | None:
        """Return what to keep of a line that ends before `end`, or None."""


class EveryLine:
    """All lines that are not blank, as they stand."""

    needle = None

    def __init__(self, places: Places) -> None:
        """Tag the end of each."""
        self._places = places

    def take(self, line: bytes, end: int) -> Line | None:
        """Return the line, unless it is blank."""
        if line.isspace():
            return None
        return Line(raw=line[:-1], end=str(end), tag=self._places.tag(end))


@dataclass(frozen=True, kw_only=True, slots=True)
class Filter:
    """Which lines of a journal are wanted."""

    #: Top-level fields and the text each must hold.
    match: Mapping[str, str]
    #: What makes a JSON object a valid record here; None takes every object.
    valid: Callable[[Record], bool] | None
    #: Bytes that a matching line holds unless it writes them with a Unicode escape; None when there
    #: are none, and every line has to be parsed.
    needle: bytes | None = field(init=False)

    def __post_init__(self) -> None:
        """Find the needle: quotes, slashes and control characters also have short escapes."""
        plain = [text for text in self.match.values() if not _has_short_escapes(text)]
        needle = f'"{max(plain, key=len)}"'.encode() if plain else None
        object.__setattr__(self, "needle", needle)

    def take(self, line: bytes, end: int) -> Record | None:  # noqa: ARG002 - a record has no place
        """Return the line's record when it is valid and matches, else None."""
        try:
            found = orjson.loads(line)
        except orjson.JSONDecodeError:
            return None
        if type(found) is not dict or (self.valid is not None and not self.valid(found)):
            return None
        for name, wanted in self.match.items():
            if found.get(name) != wanted:
                return None
        return found


def check_limit(limit: object) -> int | None:
    """Return how many entries are wanted at the most, or None when it is not said."""
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        message = f"limit: must be a positive whole number, not {limit!r:.60}"
        fix = f"pass a limit from 1 to {PAGE_ENTRIES_MAX}, or none"
        raise InvalidArgument(message, fix=fix, field="limit")
    return min(limit, PAGE_ENTRIES_MAX)


def check_wait(wait: object) -> float:
    """Return how many seconds to wait at the most."""
    if isinstance(wait, bool) or not isinstance(wait, (int, float)) or not 0 <= wait < 1e9:
        message = f"wait: must be a number of seconds, not {wait!r:.60}"
        raise InvalidArgument(message, fix="pass a number such as 30", field="wait")
    return wait


def check_match(match: object) -> dict[str, str]:
    """Return the fields and texts to look for."""
    if match is None:
        return {}
    if not isinstance(match, Mapping):
        message = "match: must be a mapping from field names to texts"
        raise InvalidArgument(message, fix='pass {"sessionId": "…"}', field="match")
    for name, text in match.items():
        if not isinstance(name, str) or not isinstance(text, str):
            message = f"match: {name!r:.60} must be a field name with a text to look for"
            raise InvalidArgument(message, fix='pass {"sessionId": "…"}', field="match")
        if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            message = f"match: the text for {name!r:.60} holds half of a surrogate pair"
            raise InvalidArgument(message, fix="pass well-formed Unicode", field="match")
    return dict(match)


def scan(
    file: OpenFile, start: int, end: int, wanted: Wanted[T_co], limit: int | None
) -> tuple[list[T_co], int]:
    """Return the page of what is wanted, and the position behind the last line consumed."""
    items: list[T_co] = []
    position = start
    entries_max = limit or PAGE_ENTRIES_MAX
    stop_at = start + SCAN_BYTES_MAX
    for offset, block, length in blocks(file, start, end):
        first = len(BYTE_ORDER_MARK) if not offset and block.startswith(BYTE_ORDER_MARK) else 0
        for line, line_end in _candidates(block, first, length, wanted.needle):
            if (item := wanted.take(line, offset + line_end)) is None:
                continue
            if not items and limit is None:
                stop_at = min(stop_at, offset + line_end + PAGE_BYTES)
            items.append(item)
            if len(items) == entries_max:
                return items, offset + line_end
        position = offset + length
        if position >= stop_at:
            break
    return items, position


def _candidates(
    block: bytes, start: int, end: int, needle: bytes | None
) -> Iterator[tuple[bytes, int]]:
    """Yield `(line, offset behind it)` for each line between `start` and `end` that may match."""
    hit = escape = -1 if needle else start
    while start < end:
        if needle:
            # Each search is remembered until it is overtaken, so that no byte is searched twice.
            hit = hit if hit >= start else _find(block, needle, start, end)
            escape = escape if escape >= start else _find_escape(block, start, end)
            found = min(hit, escape)
            if found == end:
                return
            start = max(start, block.rfind(b"\n", start, found) + 1)
        else:
            found = start
        line_end = block.index(b"\n", found) + 1
        yield block[start:line_end], line_end
        start = line_end


def _find(block: bytes, wanted: bytes, start: int, end: int) -> int:
    found = block.find(wanted, start, end)
    return end if found < 0 else found


def _find_escape(block: bytes, start: int, end: int) -> int:
    """Return where the next Unicode escape stands; one letter is found ten times as fast as two."""
    return _find(block, b"\\u", _find(block, b"\\", start, end), end)


def _has_short_escapes(text: str) -> bool:
    return any(letter in '"\\/' or letter < " " for letter in text)
