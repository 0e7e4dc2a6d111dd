"""HttpSource: an HTTP endpoint that gives pages of entries and the cursor of the next page.

A position says how many entries of a page are done, which one was the last of them, and the cursor
of that page: `3.5f2c…@CURSOR`. Once a page is done and the next one is known it is `0@NEXT`. So a
crash in the middle of a page resumes inside it.
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

#: Pages that one read asks for at the most; empty ones that were passed are remembered.
PAGES_MAX: Final = 100
_FORM: Final = re.compile(r"(0|[1-9][0-9]{0,8})(?:\.([0-9a-f]{16}))?@(.*)", re.DOTALL)


class _PageOffset(NamedTuple):
    """Where in the pages a reader stands."""

    #: The cursor of the page; None is the first page.
    cursor: str | None
    #: Entries of it that are done, and what the last of them was.
    done: int
    last: str | None

    def __str__(self) -> str:
        last = f".{self.last}" if self.last else ""
        return f"{self.done}{last}@{self.cursor or ''}"


class _Page(NamedTuple):
    """What the service answered."""

    entries: list[Any]
    #: The cursor of the next page; None when this is the last.
    following: str | None


class HttpSource:
    """The entries of `GET url?cursor=…`, which answers `{"items": […], "nextCursor": "…"}`.

    A page may change between two reads. New entries at its end are read on. When the entry that was
    done last stands elsewhere in the page, reading goes on behind it; when it is gone, the page is
    read again from its beginning: a repeat can be recognised, a loss cannot. Entries are compared
    by `id_field` if they have it, else by all they hold.
    """

    def __init__(  # noqa: PLR0913 - each names one thing of the service's, and has a default
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
        """Name the endpoint; a token is sent as `Authorization: Bearer`, `params` with each page.

        What passes (no answer, 5xx) is retried by the schedule `retry`, and `Retry-After` is
        honoured; 4xx is never retried here.
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
        #: A position, and a later one with nothing in between.
        self._skipped: tuple[str | None, _PageOffset] | None = None
        #: The last page, while there is something left of it to read.
        self._last_page: tuple[str | None, _Page] | None = None

    def read(self, after: str | None, limit: int) -> Sequence[Item]:
        """Return entries after a position, over as many pages as it takes."""
        place = _parse_position(after)
        if self._skipped is not None and self._skipped[0] == after:
            place = self._skipped[1]
        items: list[Item] = []
        for _ in range(PAGES_MAX):
            entries, following = self._cached_page(place) or self._page(place.cursor)
            first = self._first_new(entries, place)
            for number, entry in enumerate(entries[first:], first + 1):
                if len(items) == limit:
                    self._last_page = (place.cursor, _Page(entries, following))
                    return items
                place = _PageOffset(place.cursor, number, self._fingerprint(entry))
                if number == len(entries) and following is not None:
                    place = _PageOffset(following, 0, None)
                items.append(Item(position=str(place), raw=_raw(entry)))
            if following is None or len(items) == limit:
                return items
            place = _PageOffset(following, 0, None)
            if not items:
                self._skipped = (after, place)
        return items

    def _cached_page(self, place: _PageOffset) -> _Page | None:
        """Return the page of the last read, if reading goes on inside it."""
        kept, self._last_page = self._last_page, None
        if kept is None or kept[0] != place.cursor or not 0 < place.done < len(kept[1].entries):
            return None
        return kept[1] if self._fingerprint(kept[1].entries[place.done - 1]) == place.last else None

    def _page(self, cursor: str | None) -> _Page:
        """Ask for a page."""
        params = {**self._params, **({} if cursor is None else {self._cursor_param: cursor})}
        page = self._pages.get(params)
        entries, following = page.get(self._items_field), page.get(self._next_field)
        if not isinstance(entries, list):
            message = f"{self._pages.place}: {self._items_field!r} is not an array in its answer"
            raise SourceRefused(message, fix="pass items_field= and next_field= as they are there")
        if following is None or following == "" or isinstance(following, (bool, list, dict)):
            return _Page(entries, None)
        return _Page(entries, None if str(following) == cursor else str(following))

    def _first_new(self, entries: list[Any], place: _PageOffset) -> int:
        """Return the index of the first entry that is not done."""
        if place.last is None:
            return min(place.done, len(entries))
        if place.done <= len(entries) and self._fingerprint(entries[place.done - 1]) == place.last:
            return place.done
        marks = [self._fingerprint(entry) for entry in entries]
        return len(marks) - marks[::-1].index(place.last) if place.last in marks else 0

    def _fingerprint(self, entry: Any) -> str:  # noqa: ANN401 - any JSON
        """Return what recognises an entry."""
        if isinstance(entry, dict) and entry.get(self._id_field) is not None:
            entry = {self._id_field: entry[self._id_field]}
        text = json.dumps(entry, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _raw(entry: Any) -> bytes:  # noqa: ANN401 - any JSON
    """Return the bytes of an entry; half a surrogate pair stays the escape that it was."""
    try:
        return json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(entry, separators=(",", ":")).encode()


def _parse_position(position: str | None) -> _PageOffset:
    if position is None:
        return _PageOffset(None, 0, None)
    found = _FORM.fullmatch(position)
    if found is None or (found[2] and found[1] == "0"):
        message = f"{position[:60]!r} is not a position of an HTTP source: done.entry@cursor"
        raise InvalidCursor(message, fix="seek the cursor to 0@CURSOR, or to the start")
    return _PageOffset(found[3] or None, int(found[1]), found[2])
