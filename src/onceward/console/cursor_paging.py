"""Cursor paging: list cursors page by page, by name or by waiting time.

A page reads a bounded number of cursors, however few of them match. Its end is encoded as `n` and a
name, or as `w`, a time and a name.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Final, Literal

from onceward.cursors import CursorState
from onceward.cursors.models import NAME_CHARACTERS_MAX, OWN_PREFIX, check_text, state_of
from onceward.errors import InvalidCursor
from onceward.stores import Row, Store
from onceward.workers.views import StateName

Sort = Literal["name", "lag"]
STATES: Final[tuple[StateName, ...]] = ("held", "free", "expired", "paused")
#: How many cursors one page reads, however few of them match.
SCAN_ROWS_MAX: Final = 20_000
#: Columns of a row for the cursor's state; after them: since when messages wait, whether the cursor
#: matches, and how many cursors were read.
_STATE_COLUMNS: Final = 15
_STATE_WORD: Final = re.compile(r"(?:^|\s)state:(\S+)")
_MOMENT: Final = re.compile(r"w:(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?):(.*)", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class CursorFilter:
    """Which cursors a page lists."""

    #: A part of the name, or a pattern such as `lead_*`.
    name: str = ""
    #: None for any state; an unknown state matches nothing.
    state: str | None = None

    @property
    def is_filtered(self) -> bool:
        """Return whether the filter can exclude cursors."""
        return bool(self.name or self.state)

    @property
    def pattern(self) -> str | None:
        """Return the name as an SQL LIKE pattern."""
        if not self.name:
            return None
        escaped = re.sub(r"([\\%_])", r"\\\1", self.name)
        if "*" in escaped or "?" in escaped:
            return escaped.replace("*", "%").replace("?", "_")
        return f"%{escaped}%"


@dataclass(frozen=True, kw_only=True, slots=True)
class _PagePosition:
    """The position after which a page begins."""

    #: The section of the list: cursors with waiting messages, all cursors, or the rest.
    is_waiting: bool
    #: Since when messages of the previous page's last cursor wait.
    since: float = -math.inf
    name: str = ""

    @property
    def text(self) -> str:
        return f"w:{self.since!r}:{self.name}" if self.is_waiting else f"n:{self.name}"


def filter_of(q: str | None, state: str | None) -> CursorFilter:
    """Parse a search text; `state:paused` in it equals the `state` filter."""
    text = check_text("q", q or "", characters_max=NAME_CHARACTERS_MAX, may_be_empty=True)
    named = _STATE_WORD.search(text)
    if named is not None:
        text = _STATE_WORD.sub(" ", text)
        state = state or named[1]
    return CursorFilter(name=text.strip().strip('"'), state=state or None)


def read_page(
    store: Store, cursor_filter: CursorFilter, *, sort: Sort, after: str | None, limit: int
) -> tuple[list[CursorState], str | None]:
    """Return the cursors of one page, and the position of the next page."""
    place = _place_of(after, sort)
    found: list[CursorState] = []
    if place.is_waiting:
        found, following = _read(store, cursor_filter, place, sort, limit)
        if following is not None or len(found) == limit:
            return found, (following or _PagePosition(is_waiting=False)).text
        place = _PagePosition(is_waiting=False)
    rest, following = _read(store, cursor_filter, place, sort, limit - len(found))
    return [*found, *rest], following.text if following else None


def _read(
    store: Store, cursor_filter: CursorFilter, place: _PagePosition, sort: Sort, limit: int
) -> tuple[list[CursorState], _PagePosition | None]:
    asked, is_rest = limit + 1, sort == "lag"
    may_pass_over = cursor_filter.is_filtered or (is_rest and not place.is_waiting)
    scan = max(asked, SCAN_ROWS_MAX) if may_pass_over else asked
    params = {
        "after": place.name,
        "pattern": cursor_filter.pattern,
        "state": cursor_filter.state,
        "is_own": cursor_filter.name.startswith(OWN_PREFIX),
        "scan": scan,
        "limit": asked,
    }
    if place.is_waiting:
        rows = store.read("cursor_waiting", **params, since=place.since)
    else:
        rows = store.read("cursor_page", **params, is_rest=is_rest)
    fitting = [row for row in rows if row[-2]]
    following = None
    if len(fitting) > limit:
        following = _is_after(place, fitting[limit - 1])
    elif rows and rows[0][-1] >= scan:
        following = _is_after(place, rows[-1])
    return [state_of(row[:_STATE_COLUMNS]) for row in fitting[:limit]], following


def _is_after(place: _PagePosition, row: Row) -> _PagePosition:
    if place.is_waiting:
        return replace(place, since=row[_STATE_COLUMNS], name=row[0])
    return replace(place, name=row[0])


def _place_of(after: str | None, sort: Sort) -> _PagePosition:
    if not after:
        return _PagePosition(is_waiting=sort == "lag")
    moment = _MOMENT.fullmatch(after) if sort == "lag" else None
    if moment is not None:
        return _PagePosition(is_waiting=True, since=float(moment[1]), name=_escaped_name(moment[2]))
    if after.startswith("n:"):
        return _PagePosition(is_waiting=False, name=_escaped_name(after[2:]))
    message = f"after: {after[:40]!r} is not a position in this list"
    fix = "pass `next` of the previous page, or no `after`"
    raise InvalidCursor(message, fix=fix, field="after")


def _escaped_name(name: str) -> str:
    return check_text("after", name, characters_max=NAME_CHARACTERS_MAX, may_be_empty=True)
