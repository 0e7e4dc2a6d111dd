"""Graph: the public interface to the knowledge graph of a store.

Independent of the client API, MCP and retries.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from onceward.errors import EntityMissing, InvalidArgument
from onceward.keys.names import canonical_name
from onceward.memory.graph import graph_writes, name_merge, soft_delete
from onceward.memory.graph.graph_reads import GraphReader
from onceward.memory.graph.graph_search import GraphSearcher
from onceward.memory.graph.index_merge import merge_words
from onceward.memory.graph.write_validation import Validator
from onceward.memory.models import (
    ENTITIES_MAX,
    AffectedCounts,
    ChangeId,
    Entity,
    EntityChange,
    GraphCounts,
    Removal,
    Subgraph,
    Validation,
    WriteBatch,
    WriteOrigin,
    WriteResult,
)
from onceward.stores import Store
from onceward.system.redaction import Redactor

_NO_ORIGIN = WriteOrigin()
_MERGE_ORIGIN = WriteOrigin(source=name_merge.SOURCE)


class Graph:
    """Entities, observations and relations of one store; every write is idempotent."""

    def __init__(
        self,
        store: Store,
        *,
        redactor: Redactor | None = None,
        validation: Validation = Validation.POLICY,
        root: str = "",
    ) -> None:
        """Use this store; `validation` selects which writes are checked against the policy.

        The default redactor knows the secrets in this process's environment. Names of files below
        `root`, a repository's directory, are stored relative to it.
        """
        self.store = store
        self.redactor = redactor or Redactor.from_environment(os.environ)
        # Names are redacted before they are made relative, so the root must be redacted too.
        self.validation, self.root = Validation(validation), self.redactor.text(root)
        self._validator = Validator(self.redactor, validation=self.validation, root=self.root)
        self._reader = GraphReader(store)
        self._searcher = GraphSearcher(store, self._reader, self._spell)

    @property
    def is_strict(self) -> bool:
        """Return whether everything outside the policy is rejected."""
        return self.validation is Validation.STRICT

    def write(self, batch: WriteBatch, origin: WriteOrigin = _NO_ORIGIN) -> WriteResult:
        """Store what is missing, in one transaction; idempotent."""
        clean = self._validator.batch(batch)
        try:
            return graph_writes.write(
                self.store, clean, self._clean(origin), is_best_effort=batch.is_best_effort
            )
        except EntityMissing as exc:
            old = self._old_spelling(batch, exc.names)
            if old is None:
                raise
            place = str(exc.context.get("field", ""))
            fix = (
                f"it is stored as {old[:200]!r}, which is not the canonical name: run "
                "`onceward memory merge --yes`, then call again"
            )
            raise EntityMissing(exc.names, field=place, fix=fix) from exc

    def merge_words(self) -> None:
        """Optimise the full-text index after many additions, without blocking other writers."""
        merge_words(self.store)

    def remove(self, removal: Removal, origin: WriteOrigin = _NO_ORIGIN) -> AffectedCounts:
        """Soft-delete items in one transaction; items that do not exist are ignored."""
        return soft_delete.remove(self.store, self._validator.removal(removal), self._clean(origin))

    def restore(
        self,
        *,
        name: str | None = None,
        change: ChangeId | None = None,
        origin: WriteOrigin = _NO_ORIGIN,
    ) -> AffectedCounts:
        """Undo a change, or the last deletion of an entity."""
        clean = None if name is None else self.stored_name(name)
        return soft_delete.restore(self.store, self._clean(origin), name=clean, change=change)

    def open(self, names: Sequence[str]) -> Subgraph:
        """Return the entities with these names, in order of creation."""
        if len(names) > ENTITIES_MAX:
            message = f"names: has {len(names)} names, more than {ENTITIES_MAX}"
            fix = f"send at most {ENTITIES_MAX} names in one call, and the rest in others"
            raise InvalidArgument(message, fix=fix, field="names")
        wanted = [
            each
            for at, name in enumerate(names)
            for each in self._validator.names(name, f"names[{at}]")
        ]
        with self.store.snapshot():
            return self._reader.open(wanted)

    def read(self, *, limit: int | None = None, cursor: str | None = None) -> Subgraph:
        """Return all entities and relations, in order of creation, page by page."""
        with self.store.snapshot():
            return self._reader.page(limit, cursor)

    def search(
        self, query: str, *, limit: int | None = None, cursor: str | None = None
    ) -> Subgraph:
        """Return the entities that match a query, best first.

        Words, prefix*, "phrases", `type:Error`, `key:err#…`, `key:err#*`.
        """
        with self.store.snapshot():
            return self._searcher.search(self._search_text(query), limit, cursor)

    def find(
        self, query: str, *, limit: int | None = None, cursor: str | None = None
    ) -> tuple[list[tuple[Any, ...]], str | None]:
        """Return rows of the entities that match a query, and the next cursor."""
        return self._searcher.find(self._search_text(query), limit, cursor)

    def candidate_names(self, name: str) -> list[str]:
        """Return the names that a caller may mean: the canonical one, and the given one."""
        return self._validator.names(name, "name")

    def stored_name(self, name: str) -> str:
        """Return the stored name of an entity: the given one if it is or was stored.

        Otherwise, and after a merge, the canonical one.
        """
        return self._reader.stored(self.candidate_names(name))

    def find_by_prefix(self, prefix: str, *, limit: int = 100) -> tuple[Entity, ...]:
        """Return the entities whose names begin with a prefix, newest first."""
        with self.store.snapshot():
            return self._reader.find_by_prefix(self._search_text(prefix), limit)

    def history(self, name: str, *, limit: int = 100) -> tuple[EntityChange, ...]:
        """Return the changes of an entity, newest first; also of a deleted one."""
        with self.store.snapshot():
            return self._reader.history(self.stored_name(name), limit)

    # --- names -----------------------------------------------------------------------------------

    def name_variants(self) -> tuple[name_merge.NameVariants, ...]:
        """Return the stored names that are not canonical, grouped by canonical name."""
        return name_merge.find_variants(self.store, self._spell)

    def merge_names(self, origin: WriteOrigin = _MERGE_ORIGIN) -> name_merge.MergeResult:
        """Merge all variants of each name into the canonical one; idempotent."""
        return name_merge.merge(self.store, self._spell, self._clean(origin))

    def undo_merge(
        self, number: int, origin: WriteOrigin = _MERGE_ORIGIN
    ) -> name_merge.MergeResult:
        """Undo one merge completely; idempotent."""
        return name_merge.undo(self.store, number, self._clean(origin))

    def merges(self, limit: int = name_merge.LISTED_MAX) -> tuple[name_merge.MergeRecord, ...]:
        """Return the latest merges that can be undone, newest first."""
        return name_merge.merges(self.store, limit)

    def _spell(self, name: str) -> str:
        return canonical_name(name, self.root)

    # --- checks ----------------------------------------------------------------------------------

    def counts(self) -> GraphCounts:
        """Count the items of the graph; a full scan."""
        return self._reader.counts()

    def problems(self) -> list[str]:
        """Return violated invariants; a full scan."""
        return self._reader.problems()

    def _search_text(self, text: str) -> str:
        """Return a query as redacted text that both engines accept."""
        plain = text.replace("\0", " ").encode(errors="replace").decode()
        return self.redactor.text(plain)

    def _clean(self, origin: WriteOrigin) -> WriteOrigin:
        return self._validator.origin(origin)

    def _old_spelling(self, batch: WriteBatch, missing: Sequence[str]) -> str | None:
        """Return a given name that is stored although its canonical name is missing."""
        ends = (end for link in batch.relations for end in (link.from_name, link.to_name))
        names = [*(each.entity_name for each in batch.observations), *ends]
        found = self._reader.rows_by_name([e for e in names if e != self._spell(e) in missing])
        return found[0][1] if found else None
