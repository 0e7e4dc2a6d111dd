"""Recorded: one record as one write, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onceward.memory.arguments import Named
from onceward.memory.graph import Graph
from onceward.memory.models import (
    Batch,
    EntityFate,
    Fate,
    Link,
    NewEntity,
    NewObservations,
    Origin,
    RelationFate,
)
from onceward.memory.vocabulary import relation_problem, type_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """What became of a record: what is new, and what was known already."""

    name: str
    #: The type it has; an entity that was there keeps its own.
    entity_type: str
    entity: Fate
    observation: Fate
    #: Those that could not be made are refused, with the reason; the rest stays.
    relations: tuple[RelationFate, ...] = ()
    #: Other entities that had to be created, such as the tools of a run.
    related: tuple[EntityFate, ...] = ()


def record(
    graph: Graph,
    entity: NewEntity,
    origin: Origin,
    *,
    links: Sequence[Link] = (),
    named: Sequence[Named] = (),
) -> Recorded:
    """Write an entity with one observation, what it is related to by name, and its relations.

    A relation outside the vocabulary is refused here, whatever the graph takes: a record is always
    in the words of the policy.
    """
    asked = [*links, *(link(entity.name, relation, other.name) for relation, other in named)]
    refused = [refusal for each in dict.fromkeys(asked) if (refusal := _refusal(each))]
    impossible = {each.link for each in refused}
    possible = tuple(each for each in asked if each not in impossible)
    # What nothing leads to is not created either.
    ends = {each.to_name for each in possible}
    others = (other for _, other in named if other.name in ends)
    batch = Batch(entities=(entity, *others), relations=possible, is_best_effort=True)
    written = graph.write(batch, origin)
    own, *rest = written.entities
    return Recorded(
        name=own.name,
        entity_type=own.entity_type,
        entity=own.fate,
        observation=written.observations[0].fate,
        relations=(*written.relations, *refused),
        related=tuple(each for each in rest if each.fate is not Fate.KNOWN),
    )


def observe(graph: Graph, name: str, content: str, origin: Origin) -> Recorded:
    """Write one observation of an entity; raise EntityMissing if it is not there."""
    observed = NewObservations(entity_name=name, contents=(content,))
    written = graph.write(Batch(observations=(observed,)), origin)
    [fact] = written.observations
    return Recorded(
        name=fact.entity_name,
        entity_type=type_of(name) or "",
        entity=Fate.KNOWN,
        observation=fact.fate,
    )


def link(from_name: str, relation_type: str, to_name: str) -> Link:
    """Return a relation."""
    return Link(from_name=from_name, to_name=to_name, relation_type=relation_type)


def _refusal(asked: Link) -> RelationFate | None:
    problem = relation_problem(asked.from_name, asked.relation_type, asked.to_name)
    if problem is None:
        return None
    _, message, fix = problem
    return RelationFate(link=asked, fate=Fate.REFUSED, reason=f"{message}; {fix}")
