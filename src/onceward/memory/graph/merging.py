"""Merging: one index of words instead of many layers, so that a search reads each word once.

SQLite adds a layer with every so many writes, and merges them as it goes, never to the end.
PostgreSQL keeps a single index.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from onceward.errors import StorageError, StoreError
from onceward.stores import Row, Store, Transaction

#: Pages that one commit merges; others write in between.
_PAGES: Final = 2_000

#: The index is rebuilt when more documents are gone than there are, and at least so many.
GONE_MIN: Final = 5_000
#: What a rebuild consists of, in this order and in one transaction.
_REBUILD: Final = (
    "memory_words_keep",
    "memory_words_empty",
    "memory_words_fill",
    "memory_words_kept_drop",
    "memory_words_recount",
)


def rebuild_if_stale(query: Callable[[str], list[Row]]) -> None:
    """Drop the words of deleted documents once they outnumber the others (SQLite only).

    Runs the named queries in the transaction that deleted them.
    """
    ((live, gone),) = query("memory_words_gone")
    if gone >= GONE_MIN and gone > live:
        for name in _REBUILD:
            query(name)


def merge_words(store: Store) -> None:
    """Merge what there is; what cannot be merged now is left as it is: it is right either way."""
    if store.engine != "sqlite":
        return
    with suppress(StoreError, StorageError):
        pages = -_PAGES
        while store.write(lambda tx, pages=pages: _merged(tx, pages)):  # type: ignore[misc]
            pages = _PAGES


def _merged(tx: Transaction, pages: int) -> bool:
    """Merge a part; say whether there was anything to do."""
    ((before,),) = tx.query("memory_words_changes")
    tx.query("memory_words_merge", pages=pages)
    ((after,),) = tx.query("memory_words_changes")
    return bool(after - before > 1)
