"""Graph: the public interface to the knowledge graph of a store.

Independent of the client API, MCP and retries.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from onceward.errors import EntityMissing
from onceward.errors.arguments import reject_field
from onceward.keys.names import canonical_name
from onceward.memory.entity_names import type_of
from onceward.memory.graph import name_merge
from onceward.memory.graph.graph_reads import NAME_UPPER_BOUND, GraphReader, check_limit
from onceward.memory.graph.graph_search import GraphSearcher
from onceward.memory.graph.graph_transaction import GraphTransaction, change_graph, merge_words
from onceward.memory.graph.graph_writes import write_batch
from onceward.memory.graph.soft_delete import check_restore, remove_batch, restore_change
from onceward.memory.graph.write_validation import Validator
from onceward.memory.models import (
    ENTITIES_MAX,
    AffectedCounts,
    ChangeAction,
    ChangeId,
    Entity,
    EntityChange,
    EntityId,
    EntityResult,
    GraphCounts,
    ObservationResult,
    RelationResult,
    Removal,
    Subgraph,
    Validation,
    WriteBatch,
    WriteOrigin,
    WriteResult,
    WriteStatus,
)
from onceward.stores import Row, Store
from onceward.system.crash_points import crash_point
from onceward.system.redaction import Redactor

#: How many deletions are listed whose parts are still missing from an entity.
PARTIAL_RESTORES_MAX: Final = 5
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

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings that decide how writes are named and validated."""
        return {"root": self.root, "validation": str(self.validation)}

    def write(self, batch: WriteBatch, origin: WriteOrigin = _NO_ORIGIN) -> WriteResult:
        """Store what is missing, in one transaction; idempotent."""
        clean = self._validator.batch(batch)
        is_best_effort = batch.is_best_effort
        try:
            written = change_graph(
                self.store,
                self._validator.origin(origin),
                lambda tx: write_batch(tx, clean, is_best_effort=is_best_effort),
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
        crash_point("memory.write.after_commit")
        return written

    def merge_words(self) -> None:
        """Optimise the full-text index after many additions, without blocking other writers."""
        merge_words(self.store)

    def remove(self, removal: Removal, origin: WriteOrigin = _NO_ORIGIN) -> AffectedCounts:
        """Soft-delete items in one transaction; items that do not exist are ignored."""
        clean = self._validator.removal(removal)

        def remove(tx: GraphTransaction) -> AffectedCounts:
            removed = remove_batch(tx, clean)
            tx.rebuild_index_if_stale()
            return removed

        removed = change_graph(self.store, self._validator.origin(origin), remove)
        crash_point("memory.remove.after_commit")
        return removed

    def restore(
        self,
        *,
        name: str | None = None,
        change: ChangeId | None = None,
        origin: WriteOrigin = _NO_ORIGIN,
    ) -> AffectedCounts:
        """Undo a change, or the last deletion of an entity."""
        check_restore(name, change)
        clean = None if name is None else self.stored_name(name)
        restored = change_graph(
            self.store,
            self._validator.origin(origin),
            lambda tx: restore_change(tx, clean, change),
        )
        crash_point("memory.restore.after_commit")
        return restored

    def open(self, names: Sequence[str]) -> Subgraph:
        """Return the entities with these names, in order of creation."""
        if len(names) > ENTITIES_MAX:
            fix = f"send at most {ENTITIES_MAX} names in one call, and the rest in others"
            reject_field("names", f"has {len(names)} names, more than {ENTITIES_MAX}", fix)
        wanted = [
            each
            for at, name in enumerate(names)
            for each in self._validator.names(name, f"names[{at}]")
        ]
        with self.store.snapshot():
            return self._reader.subgraph(self._reader.rows_by_name(wanted))

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
    ) -> tuple[list[Row], str | None]:
        """Return rows of the entities that match a query, and the next cursor."""
        return self._searcher.find(self._search_text(query), limit, cursor)

    def candidate_names(self, name: str) -> list[str]:
        """Return the names that a caller may mean: the canonical one, and the given one."""
        return self._validator.names(name, "name")

    def stored_form(self, name: str) -> str:
        """Return a name as a write stores it: canonical and redacted."""
        return self._validator.name(name, "name")

    def deletions_left(self, name: str) -> list[int]:
        """Return the latest deletions whose parts are missing from this stored entity."""
        found = {"name": name, "limit": PARTIAL_RESTORES_MAX}
        return [number for (number,) in self._reader.query("memory_change_left", **found)]

    def stored_name(self, name: str) -> str:
        """Return the stored name of an entity: the given one if it is or was stored.

        Otherwise, and after a merge, the canonical one.
        """
        return self._reader.stored_name(self.candidate_names(name))

    def find_by_prefix(self, prefix: str, *, limit: int = 100) -> tuple[Entity, ...]:
        """Return the entities whose names begin with a prefix, newest first."""
        with self.store.snapshot():
            low = self._search_text(prefix)
            found = {"low": low, "high": low + NAME_UPPER_BOUND, "limit": limit}
            return self._reader.entities(self._reader.query("memory_entity_newest", **found))[0]

    def history(self, name: str, *, limit: int = 100) -> tuple[EntityChange, ...]:
        """Return the changes of an entity, newest first; also of a deleted one.

        Includes the changes of variants before they were merged into it.
        """
        with self.store.snapshot():
            stored = self.stored_name(name)
            found = self._reader.id_of(stored)
            if not found:
                raise EntityMissing([stored], field="name", fix="see `onceward memory search`")
            wanted = check_limit(limit, ENTITIES_MAX)
            merged = self._reader.merged_into(found[0][0])
            rows = [
                row
                for number in (found[0][0], *merged)
                for row in self._reader.query("memory_history", id=number, limit=wanted)
            ]
        if merged:
            rows = sorted(rows, key=lambda row: str(row[1]), reverse=True)[:wanted]
        return tuple(EntityChange(id_, at, ChangeAction(a), *rest) for id_, at, a, *rest in rows)

    # --- names -----------------------------------------------------------------------------------

    def name_variants(self) -> tuple[name_merge.NameVariants, ...]:
        """Return the stored names that are not canonical, grouped by canonical name."""
        return name_merge.find_variants(self.store, self._spell)

    def merge_names(self, origin: WriteOrigin = _MERGE_ORIGIN) -> name_merge.MergeResult:
        """Merge all variants of each name into the canonical one; idempotent."""
        return name_merge.merge(self.store, self._spell, self._validator.origin(origin))

    def undo_merge(
        self, number: int, origin: WriteOrigin = _MERGE_ORIGIN
    ) -> name_merge.MergeResult:
        """Undo one merge completely; idempotent."""
        return name_merge.undo(self.store, number, self._validator.origin(origin))

    def merges(self, limit: int = name_merge.LISTED_MAX) -> tuple[name_merge.MergeRecord, ...]:
        """Return the latest merges that can be undone, newest first."""
        return name_merge.merges(self.store, limit)

    def _spell(self, name: str) -> str:
        return canonical_name(name, self.root)

    # --- checks ----------------------------------------------------------------------------------

    def counts(self) -> GraphCounts:
        """Count the items of the graph; a full scan."""
        return GraphCounts(*self._reader.query("memory_counts")[0])

    def problems(self) -> list[str]:
        """Return violated invariants; a full scan."""
        counts = self._reader.query("memory_problems")
        if self.store.engine == "sqlite":
            counts += self._reader.query("memory_words_problems")
        return [f"{count} {what}" for what, count in counts if count]

    def _search_text(self, text: str) -> str:
        """Return a query as redacted text that both engines accept."""
        plain = text.replace("\0", " ").encode(errors="replace").decode()
        return self.redactor.text(plain)

    def _old_spelling(self, batch: WriteBatch, missing: Sequence[str]) -> str | None:
        """Return a given name that is stored although its canonical name is missing."""
        ends = (end for link in batch.relations for end in (link.from_name, link.to_name))
        names = [*(each.entity_name for each in batch.observations), *ends]
        found = self._reader.rows_by_name([e for e in names if e != self._spell(e) in missing])
        return found[0][1] if found else None


class UnwrittenGraph(Graph):
    """A graph whose writes are collected; the effect of a write is known only after that batch."""

    def __init__(self, graph: Graph, status: WriteStatus, *, is_offline: bool = False) -> None:
        """Validate like this graph, and return this status for every item.

        Offline it never reads the store: every entity exists.
        """
        super().__init__(
            graph.store, redactor=graph.redactor, validation=graph.validation, root=graph.root
        )
        self._status, self._is_offline = status, is_offline
        self._batches: list[WriteBatch] = []

    def open(self, names: Sequence[str]) -> Subgraph:
        """Return the entities with these names; offline one for each, without observations."""
        if not self._is_offline:
            return super().open(names)
        stored = map(self.stored_form, names)
        entities = (Entity(EntityId(0), each, type_of(each) or "", "", None, "") for each in stored)
        return Subgraph(entities=tuple(entities), relations=())

    def write(self, batch: WriteBatch, origin: WriteOrigin = _NO_ORIGIN) -> WriteResult:
        """Validate a write, and add it to the batch."""
        self._validator.origin(origin)
        clean, status = self._validator.batch(batch), self._status
        self._batches.append(batch)
        return WriteResult(
            entities=tuple(
                EntityResult(name=each.name, entity_type=each.entity_type, status=status)
                for each in clean.entities
            ),
            observations=tuple(
                ObservationResult(entity_name=each.entity_name, content=each.content, status=status)
                for each in clean.facts
            ),
            relations=tuple(RelationResult(link=each, status=status) for each in clean.links),
        )

    @property
    def batch(self) -> WriteBatch:
        """Return all writes as one best-effort batch."""
        return WriteBatch(
            entities=tuple(each for batch in self._batches for each in batch.entities),
            observations=tuple(each for batch in self._batches for each in batch.observations),
            relations=tuple(each for batch in self._batches for each in batch.relations),
            is_best_effort=True,
        )
