"""Record write: store one record as one batch, and return its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onceward.memory.entity_types import relation_problem, type_of
from onceward.memory.graph import Graph
from onceward.memory.models import (
    EntityResult,
    Link,
    NewEntity,
    NewObservations,
    RelationResult,
    WriteBatch,
    WriteOrigin,
    WriteStatus,
)
from onceward.memory.record_arguments import RelatedEntity


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """The effect of a record on its entity, observation and relations."""

    name: str
    #: The stored type; an existing entity keeps its own.
    entity_type: str
    entity: WriteStatus
    observation: WriteStatus
    #: Rejected relations have a reason; the others are stored.
    relations: tuple[RelationResult, ...] = ()
    #: Other entities that were created, such as the tools of a run.
    related: tuple[EntityResult, ...] = ()


def record(
    graph: Graph,
    entity: NewEntity,
    origin: WriteOrigin,
    *,
    links: Sequence[Link] = (),
    named: Sequence[RelatedEntity] = (),
) -> Recorded:
    """Write an entity with one observation, its related entities and its relations.

    Relations outside the vocabulary are rejected whatever the graph's validation mode is.
    """
    asked = [*links, *(link(entity.name, relation, other.name) for relation, other in named)]
    refused = [refusal for each in dict.fromkeys(asked) if (refusal := _rejected_relation(each))]
    impossible = {each.link for each in refused}
    possible = tuple(each for each in asked if each not in impossible)
    # Entities without a valid relation are not created.
    ends = {each.to_name for each in possible}
    others = (other for _, other in named if other.name in ends)
    batch = WriteBatch(entities=(entity, *others), relations=possible, is_best_effort=True)
    written = graph.write(batch, origin)
    own, *rest = written.entities
    return Recorded(
        name=own.name,
        entity_type=own.entity_type,
        entity=own.status,
        observation=written.observations[0].status,
        relations=(*written.relations, *refused),
        related=tuple(each for each in rest if each.status is not WriteStatus.KNOWN),
    )


def observe(graph: Graph, name: str, content: str, origin: WriteOrigin) -> Recorded:
    """Add one observation to an entity; raise EntityMissing if the entity does not exist."""
    observed = NewObservations(entity_name=name, contents=(content,))
    written = graph.write(WriteBatch(observations=(observed,)), origin)
    [fact] = written.observations
    return Recorded(
        name=fact.entity_name,
        entity_type=type_of(name) or "",
        entity=WriteStatus.KNOWN,
        observation=fact.status,
    )


def link(from_name: str, relation_type: str, to_name: str) -> Link:
    """Return a relation."""
    return Link(from_name=from_name, to_name=to_name, relation_type=relation_type)


def _rejected_relation(asked: Link) -> RelationResult | None:
    problem = relation_problem(asked.from_name, asked.relation_type, asked.to_name)
    if problem is None:
        return None
    _, message, fix = problem
    return RelationResult(link=asked, status=WriteStatus.REFUSED, reason=f"{message}; {fix}")
