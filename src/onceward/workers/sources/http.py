"""HTTP source: reads messages from an HTTP endpoint that returns pages with next-page cursors.

A position has the number of processed entries of a page, the fingerprint of the last of them, and
the cursor of the page: `3.5f2c…@CURSOR`. After the last entry of a page it is `0@NEXT`, if there is
a next page. So processing resumes in the middle of a page after a crash.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from onceward.errors import InvalidCursor, SourceRefused
from onceward.retries import CLIENT, Schedule
from onceward.system import Clock, Randomness
from onceward.workers.source_protocol import Item
from onceward.workers.sources.http_pages import TIMEOUT_SECONDS, PageClient

#: One read requests at most this many pages; empty pages are not requested again.
PAGES_MAX: Final = 100
_POSITION: Final = re.compile(r"(0|[1-9][0-9]{0,8})(?:\.([0-9a-f]{16}))?@(.*)", re.DOTALL)


class _PageOffset(NamedTuple):
    """The position of a reader in the pages."""

    #: The cursor of the page; None is the first page.
    cursor: str | None
    #: Number of processed entries of the page, and the fingerprint of the last of them.
    done: int
    last: str | None

    def __str__(self) -> str:
        last = f".{self.last}" if self.last else ""
        return f"{self.done}{last}@{self.cursor or ''}"


class _Page(NamedTuple):
    """One page of the service."""

    entries: list[Any]
    #: The cursor of the next page; None when this is the last.
    next_cursor: str | None


class HttpSource:
    """The entries of `GET url?cursor=…`, which returns `{"items": […], "nextCursor": "…"}`.

    A page may change between two reads. New entries at its end are read. If the last processed
    entry has moved within the page, reading resumes after it. If it is gone, the page is read again
    from its beginning: a repeat can be detected, a loss cannot. Entries are compared by `id_field`
    if they have it, else by their entire content.
    """

    def __init__(  # noqa: PLR0913 - one argument per property of the service, with defaults
        self,
        url: str,
        *,
        token: str | None = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        cursor_param: str = "cursor",
        items_field: str = "items",
        next_field: str = "nextCursor",
        id_field: str = "id",
        timeout_seconds: float = TIMEOUT_SECONDS,
        retry: Schedule = CLIENT,
        clock: Clock | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        """Set the endpoint. A token is sent as `Authorization: Bearer`, `params` with each request.

        Transient errors (no response, 5xx, 408, 425, 429) are retried by the schedule `retry`, and
        `Retry-After` is honoured. Other 4xx responses are not retried here.
        """
        bearer = {"Authorization": f"Bearer {token}"} if token else {}
        self._pages = PageClient(
            url,
            headers={**bearer, **(headers or {})},
            timeout_seconds=timeout_seconds,
            schedule=retry,
            clock=clock,
            randomness=randomness,
        )
        self._params = dict(params or {})
        self._cursor_param = cursor_param
        self._items_field = items_field
        self._next_field = next_field
        self._id_field = id_field
        #: A position, and a later one with only empty pages in between.
        self._skipped: tuple[str | None, _PageOffset] | None = None
        #: The last page, while it has unread entries.
        self._last_page: tuple[str | None, _Page] | None = None

    def read(self, after: str | None, limit: int) -> Sequence[Item]:
        """Return entries after a position, from as many pages as needed."""
        offset = _parse_position(after)
        if self._skipped is not None and self._skipped[0] == after:
            offset = self._skipped[1]
        items: list[Item] = []
        for _ in range(PAGES_MAX):
            entries, next_cursor = self._cached_page(offset) or self._page(offset.cursor)
            first = self._first_new_index(entries, offset)
            for number, entry in enumerate(entries[first:], first + 1):
                if len(items) == limit:
                    self._last_page = (offset.cursor, _Page(entries, next_cursor))
                    return items
                offset = _PageOffset(offset.cursor, number, self._fingerprint(entry))
                if number == len(entries) and next_cursor is not None:
                    offset = _PageOffset(next_cursor, 0, None)
                items.append(Item(position=str(offset), raw=_raw(entry)))
            if next_cursor is None or len(items) == limit:
                return items
            offset = _PageOffset(next_cursor, 0, None)
            if not items:
                self._skipped = (after, offset)
        return items

    def _cached_page(self, offset: _PageOffset) -> _Page | None:
        """Return the page of the last read, if this position is inside it."""
        cached, self._last_page = self._last_page, None
        if cached is None or cached[0] != offset.cursor:
            return None
        page = cached[1]
        if not 0 < offset.done < len(page.entries):
            return None
        return page if self._fingerprint(page.entries[offset.done - 1]) == offset.last else None

    def _page(self, cursor: str | None) -> _Page:
        """Request a page."""
        params = {**self._params, **({} if cursor is None else {self._cursor_param: cursor})}
        page = self._pages.get(params)
        entries, next_cursor = page.get(self._items_field), page.get(self._next_field)
        if not isinstance(entries, list):
            message = (
                f"{self._pages.address}: {self._items_field!r:.60} of the response is not an "
                "array; the cursor was not moved"
            )
            fix = "pass the names of its fields in the JSON object: items_field= and next_field="
            raise SourceRefused(message, fix=fix)
        if next_cursor is None or next_cursor == "" or isinstance(next_cursor, (bool, list, dict)):
            return _Page(entries, None)
        return _Page(entries, None if str(next_cursor) == cursor else str(next_cursor))

    def _first_new_index(self, entries: list[Any], offset: _PageOffset) -> int:
        """Return the index of the first entry that is not processed yet."""
        done, last = offset.done, offset.last
        if last is None:
            return min(done, len(entries))
        if done <= len(entries) and self._fingerprint(entries[done - 1]) == last:
            return done
        fingerprints = [self._fingerprint(entry) for entry in entries]
        return len(entries) - fingerprints[::-1].index(last) if last in fingerprints else 0

    def _fingerprint(self, entry: Any) -> str:  # noqa: ANN401 - any JSON
        """Return a digest that identifies an entry."""
        if isinstance(entry, dict) and entry.get(self._id_field) is not None:
            entry = {self._id_field: entry[self._id_field]}
        text = json.dumps(entry, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _raw(entry: Any) -> bytes:  # noqa: ANN401 - any JSON
    """Return the bytes of an entry; unpaired surrogates stay escaped."""
    try:
        return json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(entry, separators=(",", ":")).encode()


def _parse_position(position: str | None) -> _PageOffset:
    if position is None:
        return _PageOffset(None, 0, None)
    found = _POSITION.fullmatch(position)
    if found is None or (found[2] and found[1] == "0"):
        message = (
            f"{position[:60]!r} is not a position of an HTTP source, so nothing was read; it must "
            "be COUNT@TOKEN: COUNT entries processed of the page that TOKEN of the service names"
        )
        fix = "seek to 0@TOKEN, to process that page from its first entry, or to the start"
        raise InvalidCursor(message, fix=fix)
    return _PageOffset(found[3] or None, int(found[1]), found[2])
