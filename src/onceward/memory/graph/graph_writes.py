"""Graph writes: store a batch in one idempotent transaction.

Unique keys decide what is new: names, fingerprints and ends of relations. A concurrent or repeated
batch therefore finds the existing rows and changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

from onceward.errors import EntityMissing, StoreBusy
from onceward.memory.graph.tokenizer import document
from onceward.memory.graph.write_validation import ValidatedBatch, ValidatedObservation
from onceward.memory.models import (
    ChangeAction,
    EntityId,
    EntityResult,
    Link,
    ObservationResult,
    RelationResult,
    WriteOrigin,
    WriteResult,
    WriteStatus,
)
from onceward.stores import Store, Transaction
from onceward.system.crash_points import crash_point

#: Attempts while concurrent deletions remove the entities of a batch, before StoreBusy.
_ATTEMPTS_MAX: Final = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class _EntityRef:
    """An existing entity."""

    id: EntityId
    entity_type: str


@dataclass(slots=True)
class _BatchEntities:
    """The existing entities of a batch, and the statuses of the requested ones."""

    nodes: dict[str, _EntityRef] = field(default_factory=dict)
    statuses: dict[str, WriteStatus] = field(default_factory=dict)


def write(
    store: Store, clean: ValidatedBatch, origin: WriteOrigin, *, is_best_effort: bool = False
) -> WriteResult:
    """Store a validated batch; raise EntityMissing if it refers to a missing entity."""

    def operation(tx: Transaction) -> WriteResult:
        with savepoint_if_nested(store, tx):
            return BatchWriter(store, tx, origin).run(clean, is_best_effort=is_best_effort)

    written = store.write(operation)
    crash_point("memory.write.after_commit")
    return written


@contextmanager
def savepoint_if_nested(store: Store, tx: Transaction) -> Iterator[None]:
    """Use a savepoint inside the caller's transaction, so that a failure leaves no partial write.

    A transaction started here is rolled back anyway.
    """
    with tx.nested() if store.current() is not None else nullcontext():
        yield


class BatchWriter:
    """Writes one batch in one transaction."""

    def __init__(self, store: Store, tx: Transaction, origin: WriteOrigin) -> None:
        """Write in this transaction, with this origin."""
        self._engine = store.engine
        self._tx = tx
        self._origin = {"source": origin.source, "run": origin.run}

    def run(self, clean: ValidatedBatch, *, is_best_effort: bool) -> WriteResult:
        """Store a validated batch."""
        found = self._entities(clean)
        crash_point("memory.write.after_entities")
        _check_present(clean.observed, found.nodes)
        links, refused = _linkable(clean.links, found.nodes)
        if refused and not is_best_effort:
            raise EntityMissing(_missing(refused, found.nodes), field="relations")
        facts, added = self._observations(clean.facts, found.nodes)
        crash_point("memory.write.after_observations")
        relations = {**self._relations(links, found.nodes), **refused}
        self._index(clean, found, added)
        crash_point("memory.write.before_commit")
        return WriteResult(
            entities=tuple(
                EntityResult(
                    name=entity.name,
                    entity_type=found.nodes[entity.name].entity_type,
                    status=found.statuses[entity.name],
                )
                for entity in clean.entities
            ),
            observations=tuple(facts),
            relations=tuple(relations[link] for link in clean.links),
        )

    # --- entities -------------------------------------------------------------------------------

    def _entities(self, clean: ValidatedBatch) -> _BatchEntities:
        """Create or restore the requested entities, and lock every existing one."""
        rows = [{"name": each.name, "type": each.entity_type} for each in clean.entities]
        asked = {each.name for each in clean.entities}
        names = list(
            dict.fromkeys(
                [
                    *(each.name for each in clean.entities),
                    *clean.observed,
                    *(end for link in clean.links for end in (link.from_name, link.to_name)),
                ]
            )
        )
        found = _BatchEntities()
        for _ in range(_ATTEMPTS_MAX):
            self._create_or_revive(rows, found)
            # The rows are locked: a later deletion waits, an earlier one is visible here.
            found.nodes = {
                name: _EntityRef(id=EntityId(number), entity_type=kind)
                for number, name, kind in self._query("memory_entity_find", names=names)
            }
            if asked <= found.nodes.keys():
                for name in asked:
                    found.statuses.setdefault(name, WriteStatus.KNOWN)
                return found
        message = "other writers keep deleting the entities of this call; nothing was written"
        raise StoreBusy(message, fix="try again")

    def _create_or_revive(
        self, rows: Sequence[Mapping[str, object]], found: _BatchEntities
    ) -> None:
        if not rows:
            return
        for _, name in self._query("memory_entity_add", rows=rows, **self._origin):
            found.statuses[name] = WriteStatus.CREATED
        revived = self._query("memory_entity_revive", rows=rows)
        for _, name in revived:
            found.statuses.setdefault(name, WriteStatus.RESTORED)
        self._record_restored("entity_id", [{"entity_id": number} for number, _ in revived])

    # --- observations ---------------------------------------------------------------------------

    def _observations(
        self, facts: Sequence[ValidatedObservation], nodes: Mapping[str, _EntityRef]
    ) -> tuple[list[ObservationResult], list[tuple[int, int, ValidatedObservation]]]:
        """Add missing observations; return all results, and the ids of the new ones."""
        by_identity = {(nodes[fact.entity_name].id, fact.fingerprint): fact for fact in facts}
        rows = [_row(entity_id, fact) for (entity_id, _), fact in by_identity.items()]
        statuses: dict[tuple[int, str], WriteStatus] = {}
        added: list[tuple[int, int, ValidatedObservation]] = []
        for status, found in (
            (WriteStatus.CREATED, self._rows("memory_observation_add", rows, **self._origin)),
            (WriteStatus.RESTORED, self._rows("memory_observation_revive", rows)),
        ):
            for number, entity_id, fingerprint in found:
                statuses[entity_id, fingerprint] = status
                added.append((number, entity_id, by_identity[entity_id, fingerprint]))
            if status is WriteStatus.RESTORED:
                restored = [{"entity_id": each[1], "observation_id": each[0]} for each in found]
                self._record_restored("observation_id", restored)
        results = [
            ObservationResult(
                entity_name=fact.entity_name,
                content=fact.content,
                status=statuses.get(
                    (nodes[fact.entity_name].id, fact.fingerprint), WriteStatus.KNOWN
                ),
            )
            for fact in facts
        ]
        return results, sorted(added, key=lambda each: each[0])

    # --- relations ------------------------------------------------------------------------------

    def _relations(
        self, links: Sequence[Link], nodes: Mapping[str, _EntityRef]
    ) -> dict[Link, RelationResult]:
        ends = {
            (nodes[link.from_name].id, nodes[link.to_name].id, link.relation_type): link
            for link in links
        }
        rows = [{"from_id": start, "to_id": end, "type": kind} for start, end, kind in ends]
        results = {link: RelationResult(link=link, status=WriteStatus.KNOWN) for link in links}
        for _, *identity in self._rows("memory_relation_add", rows, **self._origin):
            link = ends[tuple(identity)]
            results[link] = RelationResult(link=link, status=WriteStatus.CREATED)
        revived = self._rows("memory_relation_revive", rows)
        for _, *identity in revived:
            link = ends[tuple(identity)]
            results[link] = RelationResult(link=link, status=WriteStatus.RESTORED)
        self._record_restored(
            "relation_id", [{"entity_id": each[1], "relation_id": each[0]} for each in revived]
        )
        return results

    # --- shared helpers -------------------------------------------------------------------------

    def _index(
        self,
        clean: ValidatedBatch,
        found: _BatchEntities,
        added: Iterable[tuple[int, int, ValidatedObservation]],
    ) -> None:
        """Add new entities and observations to the full-text index."""
        rows: list[dict[str, object]] = []
        for entity in clean.entities:
            if found.statuses[entity.name] is not WriteStatus.KNOWN:
                node = found.nodes[entity.name]
                words = document(self._engine, entity.name, node.entity_type, None)
                rows.append({"entity_id": node.id, "observation_id": None, "words": words})
        for number, entity_id, fact in added:
            kind = found.nodes[fact.entity_name].entity_type
            words = document(self._engine, fact.entity_name, kind, fact.content)
            rows.append({"entity_id": entity_id, "observation_id": number, "words": words})
        self._rows("memory_doc_add", rows)

    def _record_restored(self, what: str, restored: Sequence[Mapping[str, object]]) -> None:
        """Add restored items to the history."""
        blank = {"entity_id": None, "observation_id": None, "relation_id": None}
        rows = [{**blank, **each} for each in restored]
        assert all(row[what] is not None for row in rows), rows
        self._rows("memory_change_add", rows, action=str(ChangeAction.RESTORED), **self._origin)

    def _rows(
        self, name: str, rows: Sequence[Mapping[str, object]], **params: object
    ) -> list[tuple[Any, ...]]:
        return self._query(name, rows=rows, **params) if rows else []

    def _query(self, name: str, /, **params: object) -> list[tuple[Any, ...]]:
        return query(self._tx, name, **params)


def query(tx: Transaction, name: str, /, **params: object) -> list[tuple[Any, ...]]:
    """Run a named query of the memory; lists are passed as JSON."""
    return tx.query(name, **bind_params(params))


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


def _row(entity_id: EntityId, fact: ValidatedObservation) -> dict[str, object]:
    found = fact.envelope
    return {
        "entity_id": entity_id,
        "fingerprint": fact.fingerprint,
        "content": fact.content,
        "kind": found.kind if found else None,
        "ts": found.ts if found else None,
        "mode": found.mode if found else None,
        "repo": found.repo if found else None,
        "branch": found.branch if found else None,
    }


def _check_present(names: Iterable[str], nodes: Mapping[str, _EntityRef]) -> None:
    missing = dict.fromkeys(name for name in names if name not in nodes)
    if missing:
        raise EntityMissing(list(missing), field="observations")


def _linkable(
    links: Iterable[Link], nodes: Mapping[str, _EntityRef]
) -> tuple[list[Link], dict[Link, RelationResult]]:
    """Split relations into those whose entities exist, and rejected ones."""
    possible: list[Link] = []
    refused: dict[Link, RelationResult] = {}
    for link in links:
        missing = [end for end in (link.from_name, link.to_name) if end not in nodes]
        if missing:
            reason = EntityMissing(missing).message
            refused[link] = RelationResult(link=link, status=WriteStatus.REFUSED, reason=reason)
        else:
            possible.append(link)
    return possible, refused


def _missing(refused: Iterable[Link], nodes: Mapping[str, _EntityRef]) -> list[str]:
    ends = (end for link in refused for end in (link.from_name, link.to_name))
    return list(dict.fromkeys(end for end in ends if end not in nodes))
