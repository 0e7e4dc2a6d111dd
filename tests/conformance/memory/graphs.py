"""Graphs: short ways to write to one, and what it shows."""

from onceward.memory.graph import Graph
from onceward.memory.models import Batch, Fate, Link, NewEntity, NewObservations, Subgraph


def entity(name: str, *observations: str, kind: str = "thing") -> NewEntity:
    return NewEntity(name=name, entity_type=kind, observations=observations)


def link(start: str, kind: str, end: str) -> Link:
    return Link(from_name=start, to_name=end, relation_type=kind)


def create(graph: Graph, *entities: NewEntity) -> list[Fate]:
    return [each.fate for each in graph.write(Batch(entities=entities)).entities]


def observe(graph: Graph, name: str, *contents: str) -> list[Fate]:
    batch = Batch(observations=(NewObservations(entity_name=name, contents=contents),))
    return [each.fate for each in graph.write(batch).observations]


def relate(graph: Graph, *links: Link) -> list[Fate]:
    return [each.fate for each in graph.write(Batch(relations=links)).relations]


def shown(found: Subgraph) -> dict[str, list[str]]:
    return {each.name: [o.content for o in each.observations] for each in found.entities}


def edges(found: Subgraph) -> list[tuple[str, str, str]]:
    return [(r.from_name, r.relation_type, r.to_name) for r in found.relations]
