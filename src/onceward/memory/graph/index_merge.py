"""Index merge: optimise the SQLite full-text index, so that a search reads each word once.

SQLite's FTS5 adds index segments with writes, and merges them only partly. PostgreSQL keeps a
single index.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from onceward.errors import StorageError, StoreError
from onceward.stores import Row, Store, Transaction

#: Pages merged per commit, so that other writers can write in between.
_PAGES: Final = 2_000

#: The index is rebuilt if deleted documents outnumber the others, and are at least this many.
DELETED_MIN: Final = 5_000
#: The queries of a rebuild, run in this order in one transaction.
_REBUILD: Final = (
    "memory_words_keep",
    "memory_words_empty",
    "memory_words_fill",
    "memory_words_kept_drop",
    "memory_words_recount",
)


def rebuild_if_stale(query: Callable[[str], list[Row]]) -> None:
    """Drop the words of deleted documents once they outnumber the others (SQLite only).

    Runs in the transaction of the deletion.
    """
    ((live, gone),) = query("memory_words_gone")
    if gone >= DELETED_MIN and gone > live:
        for name in _REBUILD:
            query(name)


def merge_words(store: Store) -> None:
    """Merge all index segments; on an error the index stays unmerged but correct."""
    if store.engine != "sqlite":
        return
    with suppress(StoreError, StorageError):
        pages = -_PAGES
        while store.write(lambda tx, pages=pages: _merged(tx, pages)):  # type: ignore[misc]
            pages = _PAGES


def _merged(tx: Transaction, pages: int) -> bool:
    """Merge some pages; return whether anything was merged."""
    ((before,),) = tx.query("memory_words_changes")
    tx.query("memory_words_merge", pages=pages)
    ((after,),) = tx.query("memory_words_changes")
    return bool(after - before > 1)
