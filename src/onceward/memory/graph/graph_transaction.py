"""Graph transaction: what every change of the graph shares, in one transaction of the store.

Queries, the history, and the full-text index. SQLite's index needs care: FTS5 adds segments with
writes and merges them only partly, and keeps the words of deleted documents. PostgreSQL keeps a
single index.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Final, TypeVar

from onceward.errors import StorageError, StoreError
from onceward.memory.graph.tokenizer import document
from onceward.memory.models import ChangeAction, WriteOrigin
from onceward.stores import Row, Store, Transaction

T = TypeVar("T")
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


class GraphTransaction:
    """One change of the graph, with its origin."""

    def __init__(self, store: Store, tx: Transaction, origin: WriteOrigin) -> None:
        """Write in this transaction."""
        self.store, self._tx = store, tx
        self._origin = {"source": origin.source, "run": origin.run}

    def with_origin(self, origin: WriteOrigin) -> GraphTransaction:
        """Return the same transaction for writes with another origin."""
        return GraphTransaction(self.store, self._tx, origin)

    def query(self, name: str, /, **params: object) -> list[Row]:
        """Run a named query; lists are passed as JSON."""
        return self._tx.query(name, **bind_params(params))

    def rows(self, name: str, rows: Sequence[Mapping[str, object]], **params: object) -> list[Row]:
        """Run a named query for these rows, unless there are none."""
        return self.query(name, rows=rows, **params) if rows else []

    def add(self, name: str, rows: Sequence[Mapping[str, object]]) -> list[Row]:
        """Run a named query that adds rows with the origin of this change."""
        return self.rows(name, rows, **self._origin)

    def record_changes(
        self, action: ChangeAction, subjects: Iterable[Mapping[str, object]]
    ) -> list[Row]:
        """Add deleted or restored items to the history; return the rows added."""
        blank = {"entity_id": None, "observation_id": None, "relation_id": None}
        rows = [{**blank, **each} for each in subjects]
        return self.rows("memory_change_add", rows, action=str(action), **self._origin)

    def index(self, items: Iterable[tuple[int, int | None, str, str, str | None]]) -> None:
        """Make items findable: entity id, observation id, name, type, and content if any."""
        engine = self.store.engine
        rows = [
            {"entity_id": id_, "observation_id": fact, "words": document(engine, name, kind, text)}
            for id_, fact, name, kind, text in items
        ]
        self.rows("memory_doc_add", rows)

    def rebuild_index_if_stale(self) -> None:
        """Drop the words of deleted documents once they outnumber the others (SQLite only)."""
        if self.store.engine != "sqlite":
            return
        ((live, gone),) = self.query("memory_words_gone")
        if gone >= DELETED_MIN and gone > live:
            for name in _REBUILD:
                self.query(name)


def change_graph(store: Store, origin: WriteOrigin, change: Callable[[GraphTransaction], T]) -> T:
    """Run a change in a transaction, with its retries.

    Inside the caller's transaction it has a savepoint, so that a failure leaves no partial write. A
    transaction started here is rolled back anyway.
    """

    def operation(tx: Transaction) -> T:
        with tx.nested() if store.current() is not None else nullcontext():
            return change(GraphTransaction(store, tx, origin))

    return store.write(operation)


def bind_params(params: Mapping[str, object]) -> dict[str, object]:
    """Return bind values; lists become JSON, with their length for the query planner."""
    made: dict[str, object] = {}
    for name, value in params.items():
        if isinstance(value, (list, tuple)):
            made[name] = json.dumps(value, ensure_ascii=False)
            made["count"] = len(value)
        else:
            made[name] = value
    return made


def merge_words(store: Store) -> None:
    """Merge all segments of SQLite's index, so that a search reads each word once.

    On an error the index stays unmerged but correct.
    """
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
