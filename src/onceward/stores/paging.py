"""Pages: a long list, a part at a time, by the number of the last one seen.

A query for a page looks at so many rows and no more. Its rows begin with a number, whether the row
is wanted, and how many were looked at; the last one looked at comes in any case, so that whoever
found little knows where to go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from onceward.stores.base import Row, Store

T = TypeVar("T")
#: Before this number is everything: the first page.
NEWEST: Final = 2**63 - 1
#: Rows that one page looks at, however few of them are wanted.
SCAN_ROWS_MAX: Final = 5_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Page(Generic[T]):
    """One part of a list."""

    items: tuple[T, ...]
    #: Ask for what is before this; None at the end. There may be more where nothing was found.
    next: int | None


def read_page(  # noqa: PLR0913 - what a page is, all of it named
    store: Store,
    name: str,
    make: Callable[[Row], T],
    *,
    before: int,
    limit: int,
    is_filtered: bool,
    params: dict[str, Any],
) -> Page[T]:
    """Read the page before a number; what is not filtered is looked at only as far as it goes."""
    asked = limit + 1
    scan = max(asked, SCAN_ROWS_MAX) if is_filtered else asked
    rows = store.read(name, **params, before=before, scan=scan, limit=asked)
    wanted = [row for row in rows if row[1]]
    if len(wanted) > limit:
        following = wanted[limit - 1][0]
    else:
        following = rows[-1][0] if rows and rows[0][2] >= scan else None
    return Page(items=tuple(make(row) for row in wanted[:limit]), next=following)
