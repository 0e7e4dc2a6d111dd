"""Paging: read long lists page by page with keyset pagination.

A page query scans a limited number of rows. Each row it returns begins with its number, whether it
matches, and how many rows were scanned. The last scanned row is always returned, so that a page
with few matches has a continuation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from onceward.stores.base import Row, Store

T = TypeVar("T")
#: Start of the first page: every number is below it.
NEWEST: Final = 2**63 - 1
#: Rows that one page scans, however few of them match.
SCAN_ROWS_MAX: Final = 5_000


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryPage(Generic[T]):
    """One page of a list."""

    items: tuple[T, ...]
    #: Pass as `before` to get the next page; None at the end. A page may be empty before the end.
    next: int | None


def read_page(  # noqa: PLR0913 - all of them named
    store: Store,
    name: str,
    make: Callable[[Row], T],
    *,
    before: int,
    limit: int,
    is_filtered: bool,
    params: dict[str, Any],
) -> QueryPage[T]:
    """Read the page before a number; a list without a filter scans only one page of rows."""
    asked = limit + 1
    scan = max(asked, SCAN_ROWS_MAX) if is_filtered else asked
    rows = store.read(name, **params, before=before, scan=scan, limit=asked)
    wanted = [row for row in rows if row[1]]
    if len(wanted) > limit:
        following = wanted[limit - 1][0]
    else:
        following = rows[-1][0] if rows and rows[0][2] >= scan else None
    return QueryPage(items=tuple(make(row) for row in wanted[:limit]), next=following)
