"""Page scan: read the matching records after a position, up to one page.

With a filter the raw bytes are searched first, and only possible matches are parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

import orjson

from onceward.errors import InvalidArgument
from onceward.journal.byte_cursor import PositionTags
from onceward.journal.line_scanner import BYTE_ORDER_MARK, blocks
from onceward.journal.models import JournalLine, Record
from onceward.system import OpenFile

#: Maximum and default number of entries in a page.
PAGE_ENTRIES_MAX: Final = 500
#: Without a limit a page ends this many bytes after its first entry.
PAGE_BYTES: Final = 1024 * 1024
#: Bytes that one read scans at most, so that a filter without matches returns, too.
SCAN_BYTES_MAX: Final = 64 * 1024 * 1024
T_co = TypeVar("T_co", covariant=True)


class LineSelector(Protocol[T_co]):
    """Selects lines of a scan and converts them to results."""

    @property
    def needle(self) -> bytes | None:
        """Return bytes that every selected line contains, or None to examine each line."""

    def take(self, line: bytes, end: int) -> T_co | None:
        """Return the result for a line that ends before `end`, or None to skip it."""


class AllLines:
    """Selects all non-blank lines, unparsed."""

    needle = None

    def __init__(self, places: PositionTags) -> None:
        """Compute fingerprints with `places`."""
        self._places = places

    def take(self, line: bytes, end: int) -> JournalLine | None:
        """Return the line, unless it is blank."""
        if line.isspace():
            return None
        return JournalLine(raw=line[:-1], end=str(end), tag=self._places.tag(end))


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordFilter:
    """Selects the valid records whose fields match."""

    #: Top-level fields and their text.
    match: Mapping[str, str]
    #: Returns whether a JSON object is a valid record; None accepts every object.
    valid: Callable[[Record], bool] | None
    #: Bytes that a matching line contains unless it uses Unicode escapes; None if every line has to
    #: be parsed.
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
    """Return the validated maximum number of entries, or None for the default."""
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        message = f"limit: must be a positive integer, not {limit!r:.60}"
        fix = f"pass a limit from 1 to {PAGE_ENTRIES_MAX}, or omit it"
        raise InvalidArgument(message, fix=fix, field="limit")
    return min(limit, PAGE_ENTRIES_MAX)


def check_wait(wait: object) -> float:
    """Return the validated maximum number of seconds to wait."""
    if isinstance(wait, bool) or not isinstance(wait, (int, float)) or not 0 <= wait < 1e9:
        message = f"wait: must be 0 seconds or more, and less than 1e9, not {wait!r:.60}"
        raise InvalidArgument(message, fix="pass seconds, such as 30", field="wait")
    return wait


def check_match(match: object) -> dict[str, str]:
    """Return the validated fields and texts to match."""
    if match is None:
        return {}
    if not isinstance(match, Mapping):
        message = f"match: must be a mapping from field names to texts, not {match!r:.60}"
        raise InvalidArgument(message, fix='pass {"sessionId": "…"}', field="match")
    for name, text in match.items():
        if not isinstance(name, str) or not isinstance(text, str):
            message = f"match: names and values must be text, not {name!r:.60}: {text!r:.60}"
            raise InvalidArgument(message, fix='pass {"sessionId": "…"}', field="match")
        if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            message = f"match: the text for the field {name!r:.60} contains an unpaired surrogate"
            raise InvalidArgument(message, fix="pass valid Unicode", field="match")
    return dict(match)


def scan(
    file: OpenFile, start: int, end: int, wanted: LineSelector[T_co], limit: int | None
) -> tuple[list[T_co], int]:
    """Return the selected entries of one page, and the position after the last line read."""
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
    """Yield `(line, offset after it)` for each line between `start` and `end` that may match."""
    hit = escape = -1 if needle else start
    while start < end:
        if needle:
            # Each hit is reused until the scan has passed it, so that no byte is searched twice.
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
    """Return the offset of the next Unicode escape; one byte is found ten times as fast as two."""
    return _find(block, b"\\u", _find(block, b"\\", start, end), end)


def _has_short_escapes(text: str) -> bool:
    return any(letter in '"\\/' or letter < " " for letter in text)
