"""Entity pages: read-only views for the console: lists, one entity, its neighbourhood.

Every answer is bounded, and its cost does not depend on what is not shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from onceward.errors import EntityMissing
from onceward.errors.arguments import reject_field
from onceward.memory.fact_text import fact_text
from onceward.memory.graph import Graph
from onceward.memory.graph.graph_reads import GraphReader, entity_of
from onceward.memory.graph.soft_delete import CHANGE_MAX, entity_deleted_error
from onceward.memory.models import AffectedCounts, Entity, EntityChange, Link, Observation, Relation

#: Limit for counting the observations of one entity.
COUNT_MAX: Final = 1_000
#: How much of an observation is read for a headline, and for its own page.
HEADLINE_CHARACTERS: Final = 4_000
CONTENT_CHARACTERS_MAX: Final = 16_000
OBSERVATIONS_MAX: Final = 200
RELATIONS_MAX: Final = 200
CHANGES_MAX: Final = 100
#: Limit for the outgoing, and for the incoming relations of an entity that is not the centre.
RELATIONS_PER_NODE_MAX: Final = 20
NODES_MAX: Final = 500
EDGES_MAX: Final = 1_000
_SEE: Final = "see `onceward memory search`"


@dataclass(frozen=True, kw_only=True, slots=True)
class EntitySummary:
    """An entity in a list."""

    id: int
    name: str
    entity_type: str
    created_at: str
    #: None if there are more than COUNT_MAX.
    observations_count: int | None
    #: Its newest observation, in words.
    headline: str


@dataclass(frozen=True, kw_only=True, slots=True)
class EntityDetails:
    """One entity with its newest observations, relations and history; also a deleted one."""

    #: Its observations are newest first.
    entity: Entity
    relations: tuple[Relation, ...]
    history: tuple[EntityChange, ...]
    is_deleted: bool
    #: Whether something was left out.
    is_cut: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """An entity in a neighbourhood."""

    name: str
    entity_type: str
    #: Distance from the centre, in relations.
    hops: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbourhood:
    """The entities around an entity, and the relations between them."""

    nodes: tuple[Node, ...]
    edges: tuple[Link, ...]
    is_cut: bool


class EntityPageReader:
    """Reads the views of a graph."""

    def __init__(self, graph: Graph) -> None:
        """Read from this graph."""
        self._graph, self._store = graph, graph.store
        self._query = GraphReader(graph.store).query

    def newest(self, before: int, limit: int) -> tuple[list[EntitySummary], int | None]:
        """Return the newest entities with an id below `before`, and where the next page begins."""
        with self._store.snapshot():
            rows = self._query("memory_entity_latest", before=before, limit=limit + 1)
            following = rows[limit - 1][0] if len(rows) > limit else None
            return self._cards(rows[:limit]), following

    def find(
        self, query: str, limit: int, cursor: str | None
    ) -> tuple[list[EntitySummary], str | None]:
        """Return the entities that match a query, best first, and the next cursor."""
        with self._store.snapshot():
            rows, following = self._graph.find(query, limit=limit, cursor=cursor)
            return self._cards(rows), following

    def details(self, name: str) -> EntityDetails:
        """Return one entity, also a deleted one; raise EntityMissing if it never existed."""
        with self._store.snapshot():
            *row, deleted_by = self._row(name)
            id_, found = row[:2]
            observations = self._query(
                "memory_observation_newest",
                id=id_,
                limit=OBSERVATIONS_MAX + 1,
                shown=CONTENT_CHARACTERS_MAX,
            )
            around = self._around([id_], RELATIONS_MAX)
            return EntityDetails(
                entity=entity_of(
                    tuple(row), (Observation(*e) for e in observations[:OBSERVATIONS_MAX])
                ),
                relations=tuple(Relation(*each[:7]) for each in around[:RELATIONS_MAX]),
                history=self._graph.history(found, limit=CHANGES_MAX),
                is_deleted=deleted_by is not None,
                is_cut=len(observations) > OBSERVATIONS_MAX or len(around) > RELATIONS_MAX,
            )

    def observation(self, name: str, number: int) -> Observation | None:
        """Return one observation of an entity, also a deleted one."""
        if not 0 < number <= CHANGE_MAX:
            return None
        place = {"id": number, "entity": self._row(name)[0], "shown": CONTENT_CHARACTERS_MAX}
        rows = self._query("memory_observation_show", **place)
        return Observation(*rows[0]) if rows else None

    def neighbourhood(self, name: str, *, hops: int, nodes_max: int) -> Neighbourhood:
        """Return an entity and the entities within that many relations, nearest first."""
        with self._store.snapshot():
            middle, found, kind, *_, deleted_by = self._row(name)
            if deleted_by is not None:
                raise EntityMissing([name], field="name", fix="it was deleted: restore it first")
            nodes = {middle: Node(name=found, entity_type=kind, hops=0)}
            edges: dict[int, tuple[int, int, Link]] = {}
            here, is_cut = [middle], False
            # One more round than hops: the relations between the farthest entities.
            for hop in range(1, hops + 2):
                new: list[int] = []
                each = nodes_max if hop == 1 else RELATIONS_PER_NODE_MAX
                rows = self._around(here, each) if here else []
                is_cut = is_cut or (hop <= hops and _is_cut(rows, here, each))
                for row in rows:
                    edges[row[0]] = (row[7], row[9], _link(row))
                    for id_, end, type_ in ((row[7], row[1], row[8]), (row[9], row[2], row[10])):
                        if id_ in nodes or hop > hops:
                            continue
                        if len(nodes) == nodes_max:
                            is_cut = True
                            continue
                        nodes[id_] = Node(name=end, entity_type=type_, hops=hop)
                        new.append(id_)
                here = new
        between = [link for start, end, link in edges.values() if {start, end} <= nodes.keys()]
        return Neighbourhood(
            nodes=tuple(nodes.values()),
            edges=tuple(between[:EDGES_MAX]),
            is_cut=is_cut or len(between) > EDGES_MAX,
        )

    def restorable_counts(
        self, *, name: str | None = None, change: int | None = None
    ) -> AffectedCounts:
        """Return how many items a restoration would bring back."""
        with self._store.snapshot():
            if name is not None:
                entity_id, *_, change = self._row(name)
            elif change is not None:
                entity_id = self._deletion(change)
            counts = {"id": entity_id, "change": change}
            found = self._query("memory_restore_counts", **counts)[0] if change else (0, 0, 0)
        entities, observations, relations = found
        return AffectedCounts(entities=entities, observations=observations, relations=relations)

    def left(self, name: str) -> list[int]:
        """Return the deletions of an existing entity whose parts are still deleted."""
        return self._graph.deletions_left(self._row(name)[1])

    def _deletion(self, change: int) -> int:
        """Return the entity of a deletion; raise as the restoration would."""
        found = self._query("memory_change_find", change=change) if 0 < change <= CHANGE_MAX else []
        if not found or found[0][0] != "deleted":
            fix = "take the number of a deletion from the entity's history"
            reject_field("change", f"{change} is not a deletion; nothing was restored", fix)
        _, entity_id, observation_id, relation_id, owner, deleted_by = found[0]
        is_part = observation_id is not None or relation_id is not None
        if deleted_by is not None and (is_part or deleted_by != change):
            raise entity_deleted_error(owner, deleted_by)
        return int(entity_id)

    def _row(self, name: str) -> tuple[Any, ...]:
        for each in self._graph.candidate_names(name):
            rows = self._query("memory_entity_show", name=each)
            if rows:
                return rows[0]
        raise EntityMissing([name], field="name", fix=_SEE)

    def _cards(self, rows: Sequence[tuple[Any, ...]]) -> list[EntitySummary]:
        ids = [row[0] for row in rows]
        limits = {"most": COUNT_MAX + 1, "shown": HEADLINE_CHARACTERS}
        found = self._query("memory_entity_cards", ids=ids, **limits) if ids else []
        newest = {id_: (count, content) for id_, count, content in found}
        return [_card(row, *newest[row[0]]) for row in rows]

    def _around(self, ids: Sequence[int], each: int) -> list[tuple[Any, ...]]:
        """Return relations of these entities, without duplicates, newest first."""
        rows = self._query("memory_relation_around", ids=list(ids), each=each + 1)
        return list({row[0]: row for row in rows}.values())


def _is_cut(rows: Sequence[tuple[Any, ...]], ids: Sequence[int], each: int) -> bool:
    """Return whether an entity has more than `each` outgoing or incoming relations."""
    starts, ends = Counter(row[7] for row in rows), Counter(row[9] for row in rows)
    return any(max(starts[id_], ends[id_]) > each for id_ in ids)


def _link(row: Sequence[Any]) -> Link:
    return Link(from_name=row[1], to_name=row[2], relation_type=row[3])


def _card(row: Sequence[Any], count: int, content: str | None) -> EntitySummary:
    id_, name, kind, _, _, created_at = row
    return EntitySummary(
        id=id_,
        name=name,
        entity_type=kind,
        created_at=created_at,
        observations_count=count if count <= COUNT_MAX else None,
        headline=fact_text(content) if content else "",
    )
