"""Graph writes: store a batch in one idempotent transaction.

Unique keys decide what is new: names, fingerprints and ends of relations. A concurrent or repeated
batch therefore finds the existing rows and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from onceward.errors import EntityMissing, StoreBusy
from onceward.memory.graph.graph_transaction import GraphTransaction
from onceward.memory.graph.write_validation import ValidatedBatch, ValidatedObservation
from onceward.memory.models import (
    ChangeAction,
    EntityId,
    EntityResult,
    Link,
    ObservationResult,
    RelationResult,
    WriteResult,
    WriteStatus,
)
from onceward.system.crash_points import crash_point

#: Attempts while concurrent deletions remove the entities of a batch, before StoreBusy.
_ATTEMPTS_MAX: Final = 5


class _EntityRef(NamedTuple):
    """An existing entity."""

    id: EntityId
    entity_type: str


@dataclass(slots=True)
class _BatchEntities:
    """The existing entities of a batch, and the statuses of the requested ones."""

    nodes: dict[str, _EntityRef] = field(default_factory=dict)
    statuses: dict[str, WriteStatus] = field(default_factory=dict)

    def missing(self, names: Iterable[str]) -> list[str]:
        """Return the names of entities that do not exist."""
        return list(dict.fromkeys(name for name in names if name not in self.nodes))


def write_batch(
    tx: GraphTransaction, clean: ValidatedBatch, *, is_best_effort: bool = False
) -> WriteResult:
    """Store a validated batch; raise EntityMissing if it refers to a missing entity."""
    found = _write_entities(tx, clean)
    crash_point("memory.write.after_entities")
    if missing := found.missing(clean.observed):
        raise EntityMissing(missing, field="observations")
    refused = {
        link: RelationResult(
            link=link, status=WriteStatus.REFUSED, reason=EntityMissing(missing).message
        )
        for link in clean.links
        if (missing := [end for end in _ends([link]) if end not in found.nodes])
    }
    if refused and not is_best_effort:
        raise EntityMissing(found.missing(_ends(refused)), field="relations")
    observations, added = _write_observations(tx, clean.facts, found)
    crash_point("memory.write.after_observations")
    links = [link for link in clean.links if link not in refused]
    relations = {**_write_relations(tx, links, found), **refused}
    tx.index(_documents(clean, found, added))
    crash_point("memory.write.before_commit")
    entities = (
        EntityResult(
            name=each.name,
            entity_type=found.nodes[each.name].entity_type,
            status=found.statuses[each.name],
        )
        for each in clean.entities
    )
    return WriteResult(
        entities=tuple(entities),
        observations=tuple(observations),
        relations=tuple(relations[link] for link in clean.links),
    )


def _write_entities(tx: GraphTransaction, clean: ValidatedBatch) -> _BatchEntities:
    """Create or restore the requested entities, and lock every existing one."""
    rows = [{"name": each.name, "type": each.entity_type} for each in clean.entities]
    asked = [each.name for each in clean.entities]
    names = list(dict.fromkeys([*asked, *clean.observed, *_ends(clean.links)]))
    found = _BatchEntities()
    for _ in range(_ATTEMPTS_MAX):
        for _, name in tx.add("memory_entity_add", rows):
            found.statuses[name] = WriteStatus.CREATED
        revived = tx.rows("memory_entity_revive", rows)
        for _, name in revived:
            found.statuses.setdefault(name, WriteStatus.RESTORED)
        tx.record_changes(ChangeAction.RESTORED, ({"entity_id": each} for each, _ in revived))
        # The rows are locked: a later deletion waits, an earlier one is visible here.
        found.nodes = {
            name: _EntityRef(id=EntityId(number), entity_type=kind)
            for number, name, kind in tx.query("memory_entity_find", names=names)
        }
        if not found.missing(asked):
            for name in asked:
                found.statuses.setdefault(name, WriteStatus.KNOWN)
            return found
    message = "other writers keep deleting the entities of this call; nothing was written"
    raise StoreBusy(message, fix="try again")


#: The ids of a new observation and of its entity, and the observation.
_Added = tuple[int, int, ValidatedObservation]


def _write_observations(
    tx: GraphTransaction, facts: Sequence[ValidatedObservation], found: _BatchEntities
) -> tuple[list[ObservationResult], list[_Added]]:
    """Add missing observations; return all results, and the new ones in order of their ids."""
    by_identity = {(found.nodes[each.entity_name].id, each.fingerprint): each for each in facts}
    rows = [_row(entity_id, fact) for (entity_id, _), fact in by_identity.items()]
    created = tx.add("memory_observation_add", rows)
    revived = tx.rows("memory_observation_revive", rows)
    tx.record_changes(
        ChangeAction.RESTORED,
        ({"entity_id": owner, "observation_id": number} for number, owner, _ in revived),
    )
    statuses = {tuple(identity): WriteStatus.CREATED for _, *identity in created}
    statuses |= {tuple(identity): WriteStatus.RESTORED for _, *identity in revived}
    results = [
        ObservationResult(
            entity_name=fact.entity_name,
            content=fact.content,
            status=statuses.get(identity, WriteStatus.KNOWN),
        )
        for identity, fact in by_identity.items()
    ]
    added = [(number, owner, by_identity[owner, key]) for number, owner, key in created + revived]
    return results, sorted(added, key=lambda each: each[0])


def _write_relations(
    tx: GraphTransaction, links: Sequence[Link], found: _BatchEntities
) -> dict[Link, RelationResult]:
    """Add missing relations between existing entities."""
    ends = {
        (found.nodes[link.from_name].id, found.nodes[link.to_name].id, link.relation_type): link
        for link in links
    }
    rows = [{"from_id": start, "to_id": end, "type": kind} for start, end, kind in ends]
    results = {link: RelationResult(link=link, status=WriteStatus.KNOWN) for link in links}
    created = tx.add("memory_relation_add", rows)
    revived = tx.rows("memory_relation_revive", rows)
    tx.record_changes(
        ChangeAction.RESTORED,
        ({"entity_id": start, "relation_id": number} for number, start, *_ in revived),
    )
    for status, made in ((WriteStatus.CREATED, created), (WriteStatus.RESTORED, revived)):
        for _, *identity in made:
            link = ends[tuple(identity)]
            results[link] = RelationResult(link=link, status=status)
    return results


def _documents(
    clean: ValidatedBatch, found: _BatchEntities, added: Iterable[_Added]
) -> Iterator[tuple[int, int | None, str, str, str | None]]:
    """Yield the new entities and observations for the full-text index."""
    for entity in clean.entities:
        if found.statuses[entity.name] is not WriteStatus.KNOWN:
            node = found.nodes[entity.name]
            yield node.id, None, entity.name, node.entity_type, None
    for number, entity_id, fact in added:
        kind = found.nodes[fact.entity_name].entity_type
        yield entity_id, number, fact.entity_name, kind, fact.content


def _row(entity_id: EntityId, fact: ValidatedObservation) -> dict[str, Any]:
    found = fact.envelope
    context = {
        name: getattr(found, name, None) for name in ("kind", "ts", "mode", "repo", "branch")
    }
    row = {"entity_id": entity_id, "fingerprint": fact.fingerprint, "content": fact.content}
    return {**row, **context}


def _ends(links: Iterable[Link]) -> Iterator[str]:
    return (end for link in links for end in (link.from_name, link.to_name))
