"""Provenance: the source, run and time of each fact about an entity.

Follows relations back to the runs it is known from: Fix to Error, to the Command that emitted it,
to the Run that executed it. Read-only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from onceward.errors import EntityMissing
from onceward.memory.entity_names import type_of
from onceward.memory.fact_text import BudgetedText, quoted
from onceward.memory.graph import Graph
from onceward.memory.models import Entity, Observation, Relation

#: Limits for facts and relations, newest first, and for the entities of a chain.
FACTS_MAX: Final = 50
RELATIONS_MAX: Final = 100
CHAIN_ENTITIES_MAX: Final = 50
#: How much of one fact is returned.
CONTENT_CHARACTERS_MAX: Final = 500

#: Relation types that lead closer to a run when followed forwards, or backwards.
_ONWARD: Final = ("RESOLVES", "MITIGATES")
_BACKWARD: Final = frozenset(
    {
        *("EXECUTES", "EMITS", "CAUSED_BY", "DERIVED_FROM", "REFERENCES", "ABOUT"),
        *("PERFORMED_BY", "USES", "TOUCHES"),
    }
)
_STEPS_MAX: Final = 6
_MISSING_FIX: Final = (
    "find its name with a search; if it was deleted, see its history, and restore it"
)
_LONG: Final = 110
_SHORT: Final = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class FactProvenance:
    """An observation and its origin."""

    content: str
    #: The type of its envelope; None for plain text.
    kind: str | None
    #: When it was observed, if known, and when it was stored.
    observed_at: str | None
    stored_at: str
    source: str
    run: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RelationProvenance:
    """A relation and its origin."""

    from_name: str
    relation_type: str
    to_name: str
    stored_at: str
    source: str
    run: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class EntityProvenance:
    """The origin of an entity, its facts and its relations."""

    name: str
    node_id: int
    entity_type: str
    stored_at: str
    source: str
    run: str | None
    #: Newest first.
    facts: tuple[FactProvenance, ...]
    relations: tuple[RelationProvenance, ...]
    #: The relations that connect it to runs, nearest first.
    chain: tuple[RelationProvenance, ...]
    #: The runs that the chain reaches.
    runs: tuple[str, ...]
    #: Whether something was left out.
    is_cut: bool
    #: A summary for a model, at most 200 tokens.
    text: str


def explain(graph: Graph, name: str) -> EntityProvenance:
    """Return the provenance of an entity; raise EntityMissing if it does not exist."""
    found = graph.open([name])
    if not found.entities:
        raise EntityMissing([name], field="name", fix=_MISSING_FIX)
    [entity] = found.entities
    relations = _newest(found.relations)
    chain, is_chain_cut = _chain(graph, entity.name, relations)
    runs = [end for step in chain for end in (step.from_name, step.to_name)]
    return EntityProvenance(
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
        text=_summary(entity, chain),
    )


def _chain(graph: Graph, name: str, relations: Sequence[Relation]) -> tuple[list[Relation], bool]:
    """Return the relations that lead from an entity to runs, and whether the chain was cut."""
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
    """Return the end of a relation that is closer to a run; None if it does not lead there."""
    if relation.relation_type in _ONWARD and relation.from_name in here:
        return relation.to_name
    if relation.relation_type in _BACKWARD and relation.to_name in here:
        return relation.from_name
    return None


def _summary(entity: Entity, chain: Sequence[Relation]) -> str:
    output = BudgetedText()
    about = _by(entity.created_at, entity.source, entity.run)
    kind = quoted(entity.entity_type, _SHORT)
    output.add(
        *(f"{kind} {quoted(entity.name, size)}: stored {about}." for size in (_LONG, _SHORT))
    )
    if entity.observations:
        newest = entity.observations[-1]
        about = _by(newest.created_at, newest.source, newest.run)
        output.add(f"{len(entity.observations)} facts, the newest stored {about}.")
    for each in chain:
        ends = quoted(each.from_name, _SHORT), quoted(each.to_name, _SHORT)
        output.add(f"{ends[0]} {each.relation_type} {ends[1]}.")
    if not chain:
        output.add("No recorded run produced it.")
    return output.text


def _by(stored_at: str, source: str, run: str | None) -> str:
    day = stored_at.partition("T")[0]
    origin = f"{day} by {quoted(source, _SHORT) if source else 'an unnamed source'}"
    return f"{origin} in {quoted(run, _SHORT)}" if run else origin


def _newest(relations: Iterable[Relation]) -> list[Relation]:
    return sorted(relations, key=lambda each: each.id, reverse=True)


def _fact(observation: Observation) -> FactProvenance:
    content = observation.content
    if len(content) > CONTENT_CHARACTERS_MAX:
        content = content[: CONTENT_CHARACTERS_MAX - 1] + "…"
    return FactProvenance(
        content=content,
        kind=observation.kind,
        observed_at=observation.ts,
        stored_at=observation.created_at,
        source=observation.source,
        run=observation.run,
    )


def _relation(relation: Relation) -> RelationProvenance:
    return RelationProvenance(
        from_name=relation.from_name,
        relation_type=relation.relation_type,
        to_name=relation.to_name,
        stored_at=relation.created_at,
        source=relation.source,
        run=relation.run,
    )
