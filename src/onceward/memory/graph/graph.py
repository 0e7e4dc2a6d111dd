"""Graph: the one door to the knowledge graph of a store. Knows no tools, no protocol, no policy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from onceward.errors import EntityMissing
from onceward.keys.names import canonical_name
from onceward.memory.graph import name_merge, removing, writing
from onceward.memory.graph.checking import Gate
from onceward.memory.graph.merging import merge_words
from onceward.memory.graph.reading import Reader
from onceward.memory.graph.searching import Searcher
from onceward.memory.models import (
    Batch,
    Change,
    ChangeId,
    Counts,
    Entity,
    Origin,
    Removal,
    Removed,
    Subgraph,
    Validation,
    Written,
)
from onceward.secrets import Redactor
from onceward.stores import Store

_NOBODY = Origin()
_MERGE = Origin(source=name_merge.SOURCE)


class Graph:
    """Entities, observations and relations of one store; every write may be repeated."""

    def __init__(
        self,
        store: Store,
        *,
        redactor: Redactor | None = None,
        validation: Validation = Validation.POLICY,
        root: str = "",
    ) -> None:
        """Use this store; `validation` says which writes are checked against the policy.

        Without a redactor it knows the secrets of this process's environment. Paths in the names of
        files below `root`, the directory of a repository, are stored relative to it.
        """
        self.store = store
        self.redactor = redactor or Redactor.from_environment(os.environ)
        # Names are relative to it once they are redacted, so it must be, too.
        self.validation, self.root = Validation(validation), self.redactor.text(root)
        self._gate = Gate(self.redactor, validation=self.validation, root=self.root)
        self._reader = Reader(store)
        self._searcher = Searcher(store, self._reader, self._spell)

    @property
    def is_strict(self) -> bool:
        """Say whether anything outside the policy is refused."""
        return self.validation is Validation.STRICT

    def write(self, batch: Batch, origin: Origin = _NOBODY) -> Written:
        """Add what is new, in one transaction; harmless to repeat."""
        clean = self._gate.batch(batch)
        try:
            return writing.write(
                self.store, clean, self._clean(origin), is_best_effort=batch.is_best_effort
            )
        except EntityMissing as exc:
            old = self._old_spelling(batch, exc.names)
            if old is None:
                raise
            place = str(exc.context.get("field", ""))
            fix = f"{old[:200]!r} has an old spelling: run `onceward memory merge --apply` first"
            raise EntityMissing(exc.names, field=place, fix=fix) from exc

    def merge_words(self) -> None:
        """Make searches as quick as they were before much was added; others go on writing."""
        merge_words(self.store)

    def remove(self, removal: Removal, origin: Origin = _NOBODY) -> Removed:
        """Delete softly, in one transaction; what is not there is no error."""
        return removing.remove(self.store, self._gate.removal(removal), self._clean(origin))

    def restore(
        self, *, name: str | None = None, change: ChangeId | None = None, origin: Origin = _NOBODY
    ) -> Removed:
        """Bring back what a change deleted, or an entity as it was when it was deleted last."""
        clean = None if name is None else self.stored_name(name)
        return removing.restore(self.store, self._clean(origin), name=clean, change=change)

    def open(self, names: Sequence[str]) -> Subgraph:
        """Return the entities of these names, in the order in which they came."""
        wanted = [
            each for at, name in enumerate(names) for each in self._gate.names(name, f"names[{at}]")
        ]
        with self.store.snapshot():
            return self._reader.open(wanted)

    def read(self, *, limit: int | None = None, cursor: str | None = None) -> Subgraph:
        """Return everything, in the order in which it came, a page at a time."""
        with self.store.snapshot():
            return self._reader.page(limit, cursor)

    def search(
        self, query: str, *, limit: int | None = None, cursor: str | None = None
    ) -> Subgraph:
        """Return what answers a query, the best first.

        Words, begin*, "phrases", `type:Error`, `key:err#…`, `key:err#*`.
        """
        with self.store.snapshot():
            return self._searcher.search(self._asked(query), limit, cursor)

    def find(
        self, query: str, *, limit: int | None = None, cursor: str | None = None
    ) -> tuple[list[tuple[Any, ...]], str | None]:
        """Return bare rows of what answers a query, as a search does, and where to go on."""
        return self._searcher.find(self._asked(query), limit, cursor)

    def meant(self, name: str) -> list[str]:
        """Return the names that a caller may mean: as it would be stored, and as it was given."""
        return self._gate.names(name, "name")

    def stored_name(self, name: str) -> str:
        """Return the name of the entity that is meant: as given if it is or was stored so.

        Else, and after a merge, the canonical one.
        """
        return self._reader.stored(self.meant(name))

    def named(self, prefix: str, *, limit: int = 100) -> tuple[Entity, ...]:
        """Return the entities whose names begin so, the newest first."""
        with self.store.snapshot():
            return self._reader.named(self._asked(prefix), limit)

    def history(self, name: str, *, limit: int = 100) -> tuple[Change, ...]:
        """Return what happened to an entity, the newest first, also when it is deleted."""
        with self.store.snapshot():
            return self._reader.history(self.stored_name(name), limit)

    # --- names -----------------------------------------------------------------------------------

    def spellings(self) -> tuple[name_merge.Spellings, ...]:
        """Return the names that are stored in other spellings than the canonical one."""
        return name_merge.find(self.store, self._spell)

    def merge_names(self, origin: Origin = _MERGE) -> name_merge.Merged:
        """Merge all spellings of each name into the canonical one; idempotent."""
        return name_merge.merge(self.store, self._spell, self._clean(origin))

    def undo_merge(self, number: int, origin: Origin = _MERGE) -> name_merge.Merged:
        """Undo one merge as a whole; idempotent."""
        return name_merge.undo(self.store, number, self._clean(origin))

    def merges(self) -> tuple[name_merge.Merge, ...]:
        """Return the last merges that can be undone, the newest first."""
        return name_merge.merges(self.store)

    def _spell(self, name: str) -> str:
        return canonical_name(name, self.root)

    # --- all of it -------------------------------------------------------------------------------

    def counts(self) -> Counts:
        """Count what the graph holds; reads all of it."""
        return self._reader.counts()

    def problems(self) -> list[str]:
        """Return what must never be, and is; reads all of it."""
        return self._reader.problems()

    def _asked(self, text: str) -> str:
        """Return what was asked for as text that both engines can look for."""
        plain = text.replace("\0", " ").encode(errors="replace").decode()
        return self.redactor.text(plain)

    def _clean(self, origin: Origin) -> Origin:
        return self._gate.origin(origin)

    def _old_spelling(self, batch: Batch, missing: Sequence[str]) -> str | None:
        """Return a name that was given and is stored, though the canonical one is missing."""
        ends = (end for link in batch.relations for end in (link.from_name, link.to_name))
        names = [*(each.entity_name for each in batch.observations), *ends]
        found = self._reader.whole([e for e in names if e != self._spell(e) in missing])
        return found[0][1] if found else None
