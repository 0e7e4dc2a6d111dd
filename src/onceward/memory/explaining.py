"""Explaining: where each fact about an entity came from: who wrote it, in which run, and when.

Follows the entity back to the runs it is known from: Fix to Error, to the Command that emitted it,
to the Run that executed it. Changes nothing and judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from onceward.errors import EntityMissing
from onceward.memory.graph import Graph
from onceward.memory.models import Entity, Observation, Relation
from onceward.memory.telling import Told, quoted
from onceward.memory.vocabulary import type_of

#: How many facts and relations are explained, the newest first, and how many entities of a chain.
FACTS_MAX: Final = 50
RELATIONS_MAX: Final = 100
CHAIN_ENTITIES_MAX: Final = 50
#: How much of one fact is shown.
CONTENT_CHARACTERS_MAX: Final = 500

#: Relations that lead closer to a run, by the end from which they do.
_ONWARD: Final = ("RESOLVES", "MITIGATES")
_BACKWARD: Final = frozenset(
    {
        *("EXECUTES", "EMITS", "CAUSED_BY", "DERIVED_FROM", "REFERENCES", "ABOUT"),
        *("PERFORMED_BY", "USES", "TOUCHES"),
    }
)
_STEPS_MAX: Final = 6
_LONG: Final = 110
_SHORT: Final = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainedFact:
    """An observation, and where it came from."""

    content: str
    #: The type of its envelope; None for plain text.
    kind: str | None
    #: When it was seen, if it says so, and when it was stored.
    observed_at: str | None
    stored_at: str
    source: str
    run: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainedRelation:
    """A relation, and where it came from."""

    from_name: str
    relation_type: str
    to_name: str
    stored_at: str
    source: str
    run: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """Where an entity and everything said about it came from."""

    name: str
    node_id: int
    entity_type: str
    stored_at: str
    source: str
    run: str | None
    #: The newest first.
    facts: tuple[ExplainedFact, ...]
    relations: tuple[ExplainedRelation, ...]
    #: How it hangs together with runs: each relation on the way there, the nearest first.
    chain: tuple[ExplainedRelation, ...]
    #: The runs at the end of it.
    runs: tuple[str, ...]
    #: Whether there is more than is told here.
    is_cut: bool
    #: The same for a model, in at most 200 tokens.
    text: str


def explain(graph: Graph, name: str) -> Explanation:
    """Return where an entity came from; raise EntityMissing if it is not there."""
    found = graph.open([name])
    if not found.entities:
        raise EntityMissing([name], field="name", fix="see `search_nodes`, or `history` if deleted")
    [entity] = found.entities
    relations = _newest(found.relations)
    chain, is_chain_cut = _chain(graph, entity.name, relations)
    runs = [end for step in chain for end in (step.from_name, step.to_name)]
    return Explanation(
        name=entity.name,
        node_id=entity.id,
        entity_type=entity.entity_type,
        stored_at=entity.created_at,
        source=entity.source,
        run=entity.run,
        facts=tuple(map(_fact, entity.observations[: -FACTS_MAX - 1 : -1])),
        relations=tuple(map(_relation, relations[:RELATIONS_MAX])),
        chain=tuple(map(_relation, chain)),
        runs=tuple(dict.fromkeys(end for end in runs if type_of(end) == "Run")),
        is_cut=found.is_cut
        or is_chain_cut
        or len(entity.observations) > FACTS_MAX
        or len(relations) > RELATIONS_MAX,
        text=_tell(entity, chain),
    )


def _chain(graph: Graph, name: str, relations: Sequence[Relation]) -> tuple[list[Relation], bool]:
    """Return the relations that lead from an entity to runs, step by step, each once."""
    chain: dict[int, Relation] = {}
    reached = {name}
    here = {name}
    for _ in range(_STEPS_MAX):
        steps = [(each, end) for each in relations if (end := _next(each, here)) is not None]
        room = CHAIN_ENTITIES_MAX - len(reached)
        new = list(dict.fromkeys(end for _, end in steps if end not in reached))
        kept = {*reached, *new[:room]}
        chain |= {each.id: each for each, end in steps if end in kept}
        if len(new) > room:
            return list(chain.values()), True
        if not new:
            break
        reached, here = kept, set(new)
        relations = _newest(graph.open(new).relations)
    return list(chain.values()), False


def _next(relation: Relation, here: Iterable[str]) -> str | None:
    """Return the other end of a relation that leads from here closer to a run."""
    if relation.relation_type in _ONWARD and relation.from_name in here:
        return relation.to_name
    if relation.relation_type in _BACKWARD and relation.to_name in here:
        return relation.from_name
    return None


def _tell(entity: Entity, chain: Sequence[Relation]) -> str:
    told = Told()
    about = _by(entity.created_at, entity.source, entity.run)
    kind = quoted(entity.entity_type, _SHORT)
    told.add(*(f"{kind} {quoted(entity.name, size)}: stored {about}." for size in (_LONG, _SHORT)))
    if entity.observations:
        newest = entity.observations[-1]
        about = _by(newest.created_at, newest.source, newest.run)
        told.add(f"{len(entity.observations)} facts, the newest stored {about}.")
    for each in chain:
        ends = quoted(each.from_name, _SHORT), quoted(each.to_name, _SHORT)
        told.add(f"{ends[0]} {each.relation_type} {ends[1]}.")
    if not chain:
        told.add("No recorded run leads to it.")
    return told.text


def _by(stored_at: str, source: str, run: str | None) -> str:
    day = stored_at.partition("T")[0]
    said = f"{day} by {quoted(source, _SHORT) if source else 'an unnamed source'}"
    return f"{said} in {quoted(run, _SHORT)}" if run else said


def _newest(relations: Iterable[Relation]) -> list[Relation]:
    return sorted(relations, key=lambda each: each.id, reverse=True)


def _fact(observation: Observation) -> ExplainedFact:
    content = observation.content
    if len(content) > CONTENT_CHARACTERS_MAX:
        content = content[: CONTENT_CHARACTERS_MAX - 1] + "…"
    return ExplainedFact(
        content=content,
        kind=observation.kind,
        observed_at=observation.ts,
        stored_at=observation.created_at,
        source=observation.source,
        run=observation.run,
    )


def _relation(relation: Relation) -> ExplainedRelation:
    return ExplainedRelation(
        from_name=relation.from_name,
        relation_type=relation.relation_type,
        to_name=relation.to_name,
        stored_at=relation.created_at,
        source=relation.source,
        run=relation.run,
    )
