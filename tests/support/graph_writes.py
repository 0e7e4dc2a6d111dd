"""Graph writes: short calls to write to a graph and to compare its contents."""

from onceward.memory.graph import Graph
from onceward.memory.models import (
    Link,
    NewEntity,
    NewObservations,
    Subgraph,
    WriteBatch,
    WriteStatus,
)


def entity(name: str, *observations: str, kind: str = "thing") -> NewEntity:
    return NewEntity(name=name, entity_type=kind, observations=observations)


def link(start: str, kind: str, end: str) -> Link:
    return Link(from_name=start, to_name=end, relation_type=kind)


def create(graph: Graph, *entities: NewEntity) -> list[WriteStatus]:
    return [each.status for each in graph.write(WriteBatch(entities=entities)).entities]


def observe(graph: Graph, name: str, *contents: str) -> list[WriteStatus]:
    batch = WriteBatch(observations=(NewObservations(entity_name=name, contents=contents),))
    return [each.status for each in graph.write(batch).observations]


def relate(graph: Graph, *links: Link) -> list[WriteStatus]:
    return [each.status for each in graph.write(WriteBatch(relations=links)).relations]


def shown(found: Subgraph) -> dict[str, list[str]]:
    return {each.name: [o.content for o in each.observations] for each in found.entities}


def edges(found: Subgraph) -> list[tuple[str, str, str]]:
    return [(r.from_name, r.relation_type, r.to_name) for r in found.relations]
