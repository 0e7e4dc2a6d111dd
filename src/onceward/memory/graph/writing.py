"""Writing: a batch into the graph, in one transaction that may be repeated any number of times.

Only unique rows decide what is new: names, fingerprints, ends of relations. So whoever comes second
finds what the first one wrote, and a repeated batch changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

from onceward.crash import crash_point
from onceward.errors import EntityMissing, StoreBusy
from onceward.memory.graph.checking import Clean, Fact
from onceward.memory.graph.words import document
from onceward.memory.models import (
    Action,
    EntityFate,
    EntityId,
    Fate,
    Link,
    ObservationFate,
    Origin,
    RelationFate,
    Written,
)
from onceward.stores import Store, Transaction

#: How often somebody may delete what we are about to add to, before we say that it is busy.
_ROUNDS_MAX: Final = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class _Node:
    """An entity that is there."""

    id: EntityId
    entity_type: str


@dataclass(slots=True)
class _Found:
    """The living entities of a batch, and what became of those it asked for."""

    nodes: dict[str, _Node] = field(default_factory=dict)
    fates: dict[str, Fate] = field(default_factory=dict)


def write(store: Store, clean: Clean, origin: Origin, *, is_best_effort: bool = False) -> Written:
    """Carry a checked batch out; EntityMissing if it is about an entity that is not there."""

    def operation(tx: Transaction) -> Written:
        with whole(store, tx):
            return Writing(store, tx, origin).run(clean, is_best_effort=is_best_effort)

    written = store.write(operation)
    crash_point("memory.write.after_commit")
    return written


@contextmanager
def whole(store: Store, tx: Transaction) -> Iterator[None]:
    """Leave nothing behind when this fails, though the caller may catch that and go on.

    That is for a transaction of the caller's; one of our own is rolled back anyway.
    """
    with tx.nested() if store.current() is not None else nullcontext():
        yield


class Writing:
    """One batch inside one transaction."""

    def __init__(self, store: Store, tx: Transaction, origin: Origin) -> None:
        """Write in this transaction, as this origin."""
        self._engine = store.engine
        self._tx = tx
        self._origin = {"source": origin.source, "run": origin.run}

    def run(self, clean: Clean, *, is_best_effort: bool) -> Written:
        """Carry a checked batch out."""
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
        return Written(
            entities=tuple(
                EntityFate(
                    name=entity.name,
                    entity_type=found.nodes[entity.name].entity_type,
                    fate=found.fates[entity.name],
                )
                for entity in clean.entities
            ),
            observations=tuple(facts),
            relations=tuple(relations[link] for link in clean.links),
        )

    # --- entities -------------------------------------------------------------------------------

    def _entities(self, clean: Clean) -> _Found:
        """Add what is new, revive what was deleted, and hold everything that is there."""
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
        found = _Found()
        for _ in range(_ROUNDS_MAX):
            self._make(rows, found)
            # Whoever deletes one of them now, waits for us; whoever did before, is seen here.
            found.nodes = {
                name: _Node(id=EntityId(number), entity_type=kind)
                for number, name, kind in self._query("memory_entity_find", names=names)
            }
            if asked <= found.nodes.keys():
                for name in asked:
                    found.fates.setdefault(name, Fate.KNOWN)
                return found
        message = "others delete what this call creates, again and again"
        raise StoreBusy(message, fix="try again")

    def _make(self, rows: Sequence[Mapping[str, object]], found: _Found) -> None:
        if not rows:
            return
        for _, name in self._query("memory_entity_add", rows=rows, **self._origin):
            found.fates[name] = Fate.CREATED
        revived = self._query("memory_entity_revive", rows=rows)
        for _, name in revived:
            found.fates.setdefault(name, Fate.RESTORED)
        self._note("entity_id", [{"entity_id": number} for number, _ in revived])

    # --- observations ---------------------------------------------------------------------------

    def _observations(
        self, facts: Sequence[Fact], nodes: Mapping[str, _Node]
    ) -> tuple[list[ObservationFate], list[tuple[int, int, Fact]]]:
        """Add what is new; returns what became of each, and id, entity and text of what came."""
        by_identity = {(nodes[fact.entity_name].id, fact.fingerprint): fact for fact in facts}
        rows = [_row(entity_id, fact) for (entity_id, _), fact in by_identity.items()]
        fates: dict[tuple[int, str], Fate] = {}
        added: list[tuple[int, int, Fact]] = []
        for fate, found in (
            (Fate.CREATED, self._rows("memory_observation_add", rows, **self._origin)),
            (Fate.RESTORED, self._rows("memory_observation_revive", rows)),
        ):
            for number, entity_id, fingerprint in found:
                fates[entity_id, fingerprint] = fate
                added.append((number, entity_id, by_identity[entity_id, fingerprint]))
            if fate is Fate.RESTORED:
                restored = [{"entity_id": each[1], "observation_id": each[0]} for each in found]
                self._note("observation_id", restored)
        told = [
            ObservationFate(
                entity_name=fact.entity_name,
                content=fact.content,
                fate=fates.get((nodes[fact.entity_name].id, fact.fingerprint), Fate.KNOWN),
            )
            for fact in facts
        ]
        return told, sorted(added, key=lambda each: each[0])

    # --- relations ------------------------------------------------------------------------------

    def _relations(
        self, links: Sequence[Link], nodes: Mapping[str, _Node]
    ) -> dict[Link, RelationFate]:
        ends = {
            (nodes[link.from_name].id, nodes[link.to_name].id, link.relation_type): link
            for link in links
        }
        rows = [{"from_id": start, "to_id": end, "type": kind} for start, end, kind in ends]
        told = {link: RelationFate(link=link, fate=Fate.KNOWN) for link in links}
        for _, *identity in self._rows("memory_relation_add", rows, **self._origin):
            link = ends[tuple(identity)]
            told[link] = RelationFate(link=link, fate=Fate.CREATED)
        revived = self._rows("memory_relation_revive", rows)
        for _, *identity in revived:
            link = ends[tuple(identity)]
            told[link] = RelationFate(link=link, fate=Fate.RESTORED)
        self._note(
            "relation_id", [{"entity_id": each[1], "relation_id": each[0]} for each in revived]
        )
        return told

    # --- what they share ------------------------------------------------------------------------

    def _index(self, clean: Clean, found: _Found, added: Iterable[tuple[int, int, Fact]]) -> None:
        """Make what came findable by its words."""
        rows: list[dict[str, object]] = []
        for entity in clean.entities:
            if found.fates[entity.name] is not Fate.KNOWN:
                node = found.nodes[entity.name]
                words = document(self._engine, entity.name, node.entity_type, None)
                rows.append({"entity_id": node.id, "observation_id": None, "words": words})
        for number, entity_id, fact in added:
            kind = found.nodes[fact.entity_name].entity_type
            words = document(self._engine, fact.entity_name, kind, fact.content)
            rows.append({"entity_id": entity_id, "observation_id": number, "words": words})
        self._rows("memory_doc_add", rows)

    def _note(self, what: str, restored: Sequence[Mapping[str, object]]) -> None:
        """Write into the history what is there again."""
        blank = {"entity_id": None, "observation_id": None, "relation_id": None}
        rows = [{**blank, **each} for each in restored]
        assert all(row[what] is not None for row in rows), rows
        self._rows("memory_change_add", rows, action=str(Action.RESTORED), **self._origin)

    def _rows(
        self, name: str, rows: Sequence[Mapping[str, object]], **params: object
    ) -> list[tuple[Any, ...]]:
        return self._query(name, rows=rows, **params) if rows else []

    def _query(self, name: str, /, **params: object) -> list[tuple[Any, ...]]:
        return query(self._tx, name, **params)


def query(tx: Transaction, name: str, /, **params: object) -> list[tuple[Any, ...]]:
    """Run one of the memory's statements; lists are handed over as JSON."""
    return tx.query(name, **bound(params))


def bound(params: Mapping[str, object]) -> dict[str, object]:
    """Return what is bound for these parameters; with a list, how long it is, for who plans."""
    made: dict[str, object] = {}
    for name, value in params.items():
        if isinstance(value, (list, tuple)):
            made[name] = json.dumps(value, ensure_ascii=False)
            made["count"] = len(value)
        else:
            made[name] = value
    return made


def _row(entity_id: EntityId, fact: Fact) -> dict[str, object]:
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


def _check_present(names: Iterable[str], nodes: Mapping[str, _Node]) -> None:
    missing = dict.fromkeys(name for name in names if name not in nodes)
    if missing:
        raise EntityMissing(list(missing), field="observations")


def _linkable(
    links: Iterable[Link], nodes: Mapping[str, _Node]
) -> tuple[list[Link], dict[Link, RelationFate]]:
    """Part the relations whose ends are there from those that must be refused."""
    possible: list[Link] = []
    refused: dict[Link, RelationFate] = {}
    for link in links:
        missing = [end for end in (link.from_name, link.to_name) if end not in nodes]
        if missing:
            reason = EntityMissing(missing).message
            refused[link] = RelationFate(link=link, fate=Fate.REFUSED, reason=reason)
        else:
            possible.append(link)
    return possible, refused


def _missing(refused: Iterable[Link], nodes: Mapping[str, _Node]) -> list[str]:
    ends = (end for link in refused for end in (link.from_name, link.to_name))
    return list(dict.fromkeys(end for end in ends if end not in nodes))
