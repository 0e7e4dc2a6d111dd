"""Byte ranges: evaluate range and conditional requests for a file.

Owns the parsing of Range, If-Range, If-None-Match and If-Modified-Since, and the validators of a
file. Knows no framework and opens no file; every header is parsed in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import formatdate, parsedate_to_datetime
from typing import Final

from onceward.system.safe_paths import RootedStat

_SPEC: Final = re.compile(r"([0-9]*)-([0-9]*)")
_DATE_CHARACTERS_MAX: Final = 64
_SECOND_NS: Final = 1_000_000_000
#: The last second that a date in a header can name.
_SECONDS_MAX: Final = int(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp())


@dataclass(frozen=True, slots=True)
class FullContent:
    """Send the complete file: 200."""


@dataclass(frozen=True, slots=True)
class PartialContent:
    """Send these bytes: 206."""

    #: Offset of the first byte.
    start: int
    #: Offset of the last byte, which is sent too.
    end: int

    @property
    def length(self) -> int:
        """Return how many bytes that is."""
        return self.end - self.start + 1

    def content_range(self, size: int) -> str:
        """Return the Content-Range header for a file of `size` bytes."""
        return f"bytes {self.start}-{self.end}/{size}"


@dataclass(frozen=True, slots=True)
class NotModified:
    """Send only the validators: 304."""


@dataclass(frozen=True, slots=True)
class Unsatisfiable:
    """The range begins after the end: 416, with `Content-Range: bytes */<size>`."""

    def content_range(self, size: int) -> str:
        """Return the Content-Range header for a file of `size` bytes."""
        return f"bytes */{size}"


RangeResponse = FullContent | PartialContent | NotModified | Unsatisfiable


def etag(stat: RootedStat) -> str:
    """Return a strong entity tag, derived from the file's identity, size and mtime."""
    return f'"{stat.device:x}-{stat.inode:x}-{stat.size:x}-{stat.mtime_ns:x}"'


def last_modified(stat: RootedStat) -> str:
    """Return the Last-Modified header of a file."""
    return formatdate(_seconds(stat), usegmt=True)


def validators(stat: RootedStat) -> dict[str, str]:
    """Return the headers of every response about this file, including 304 and 416."""
    return {
        "accept-ranges": "bytes",
        "etag": etag(stat),
        "last-modified": last_modified(stat),
    }


def select_response(headers: Mapping[str, str], stat: RootedStat) -> RangeResponse:
    """Return what to send for a request with these headers, looked up by lower-case name.

    For a HEAD, leave `range` out: it is defined for GET only.
    """
    if _is_known(headers, stat):
        return NotModified()
    range_header = headers.get("range")
    if range_header is None or not _is_same(headers.get("if-range"), stat):
        return FullContent()
    return _select(range_header, stat.size)


def _is_known(headers: Mapping[str, str], stat: RootedStat) -> bool:
    """Return whether the client's copy is current; If-None-Match takes precedence."""
    tags = headers.get("if-none-match")
    if tags is not None:
        if tags.strip() == "*":
            return True
        own = etag(stat)
        # Splitting inside another server's tag is safe: no part can equal a complete tag of this
        # server.
        return any(each.strip().removeprefix("W/") == own for each in tags.split(","))
    since = _moment(headers.get("if-modified-since", ""))
    return since is not None and _seconds(stat) <= since


def _is_same(if_range: str | None, stat: RootedStat) -> bool:
    """Return whether If-Range matches our version; a weak tag never does."""
    return if_range is None or if_range.strip() in (etag(stat), last_modified(stat))


def _select(range_header: str, size: int) -> RangeResponse:
    """Return the first requested range; a malformed one or another unit is ignored."""
    unit, _, specs = range_header.partition("=")
    found = _SPEC.fullmatch(specs.split(",", 1)[0].strip())
    if unit.strip().lower() != "bytes" or found is None:
        return FullContent()
    # Compared as text: converting long digit strings takes more than linear time.
    first, last = (digits and (digits.lstrip("0") or "0") for digits in found.groups())
    if not first:
        return _suffix(last, size)
    if last and (len(first), first) > (len(last), last):
        return FullContent()
    start = _number(first, at_most=size)
    if start >= size:
        return Unsatisfiable()
    return PartialContent(start, _number(last, at_most=size - 1) if last else size - 1)


def _suffix(last: str, size: int) -> RangeResponse:
    if not last:
        return FullContent()
    count = _number(last, at_most=size)
    if last == "0":
        return Unsatisfiable()
    # The last bytes of an empty file are the empty file, which no Content-Range can express.
    return PartialContent(size - count, size - 1) if size else FullContent()


def _number(digits: str, *, at_most: int) -> int:
    return at_most if len(digits) > len(str(at_most)) else min(int(digits), at_most)


def _moment(date: str) -> int | None:
    if not date or len(date) > _DATE_CHARACTERS_MAX:
        return None
    try:
        moment = parsedate_to_datetime(date)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _seconds(stat: RootedStat) -> int:
    return min(max(stat.mtime_ns // _SECOND_NS, 0), _SECONDS_MAX)
