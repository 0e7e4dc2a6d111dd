"""Graph reads: entities with observations and relations, from rows, by name or page by page.

Every read uses an index and a limit; a truncated answer is marked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from onceward.errors import InvalidCursor
from onceward.errors.arguments import reject_field
from onceward.memory.graph.graph_transaction import bind_params
from onceward.memory.models import (
    ENTITIES_MAX,
    OBSERVATIONS_MAX,
    RELATIONS_MAX,
    Entity,
    Observation,
    Relation,
    Subgraph,
)
from onceward.stores import Row, Store

#: Appended to a prefix: sorts after every name with that prefix.
NAME_UPPER_BOUND: str = "\U0010ffff"
CURSOR_FIX: Final = "pass `nextCursor` of the previous page, or no cursor to start at the beginning"


class GraphReader:
    """Reads entities by name, id or page."""

    def __init__(self, store: Store) -> None:
        """Read from this store."""
        self._store = store

    def query(self, name: str, /, **params: object) -> list[Row]:
        """Run a named query; lists are passed as JSON."""
        return self._store.read(name, **bind_params(params))

    def rows_by_name(self, names: Sequence[str]) -> list[Row]:
        """Return rows of the entities with these names."""
        wanted = list(dict.fromkeys(names))
        return self.query("memory_entity_open", names=wanted) if wanted else []

    def rows(self, ids: Sequence[int]) -> list[Row]:
        """Return rows of these entities, in this order."""
        rows = {row[0]: row for row in self.query("memory_entity_get", ids=list(ids))}
        return [rows[number] for number in ids if number in rows]

    def page(self, limit: int | None, cursor: str | None) -> Subgraph:
        """Return the next entities in order of creation, with their outgoing relations.

        So each relation is returned once over all pages.
        """
        wanted = check_limit(limit, ENTITIES_MAX)
        after = 0
        if cursor is not None:
            if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
                message = f"cursor: {cursor!r:.60} is not a position in the list of entities"
                raise InvalidCursor(message, fix=CURSOR_FIX, field="cursor")
            after = int(cursor)
        rows = self.query("memory_entity_page", after=after, limit=wanted + 1)
        last = str(rows[wanted - 1][0]) if len(rows) > wanted else None
        return self.subgraph(rows[:wanted], relations="memory_relation_from", next_cursor=last)

    def subgraph(
        self,
        rows: Sequence[Row],
        *,
        relations: str = "memory_relation_of",
        next_cursor: str | None = None,
    ) -> Subgraph:
        """Return the entities of these rows with observations and relations."""
        entities, is_cut = self.entities(rows)
        ids = [row[0] for row in rows]
        edges = self.query(relations, ids=ids, limit=RELATIONS_MAX + 1) if ids else []
        is_cut = is_cut or len(edges) > RELATIONS_MAX
        del edges[RELATIONS_MAX:]
        return Subgraph(
            entities=entities,
            relations=tuple(Relation(*edge) for edge in reversed(edges)),
            next_cursor=next_cursor,
            is_cut=is_cut,
        )

    def entities(self, rows: Sequence[Row]) -> tuple[tuple[Entity, ...], bool]:
        """Return the entities of these rows, and whether older observations were left out."""
        limit = OBSERVATIONS_MAX + 1
        ids = [row[0] for row in rows]
        found = self.query("memory_observation_of", ids=ids, limit=limit) if ids else []
        is_cut = len(found) > OBSERVATIONS_MAX
        del found[OBSERVATIONS_MAX:]
        by_entity: dict[int, list[Observation]] = defaultdict(list)
        for owner, *rest in reversed(found):
            by_entity[owner].append(Observation(*rest))
        return tuple(entity_of(row, by_entity[row[0]]) for row in rows), is_cut

    def stored_name(self, names: Sequence[str]) -> str:
        """Return the last of these names that an entity has or had; the first if none.

        A name that was merged into the entity of the first name is skipped.
        """
        first, *others = names
        known = [(row[0], name) for name in others for row in self.id_of(name)]
        if not known:
            return first
        merged = [each for row in self.id_of(first) for each in self.merged_into(row[0])]
        return next((name for number, name in reversed(known) if number not in merged), first)

    def id_of(self, name: str) -> list[Row]:
        """Return the id of an entity, also of a deleted one, in one row; none if unknown."""
        return self.query("memory_entity_id", name=name)

    def merged_into(self, number: int) -> list[int]:
        """Return the entities that are merged into this one."""
        return [each for (each,) in self.query("memory_merge_sources", id=number)]


def check_limit(limit: int | None, most: int, default: int | None = None) -> int:
    """Return the limit, at most `most`; raise InvalidArgument if it is invalid."""
    if limit is None:
        return default or most
    if type(limit) is not int or limit < 1:
        problem = f"must be an integer, 1 or more, not {limit!r:.60}"
        reject_field("limit", problem, "leave it out, or send one such as 20")
    return min(limit, most)


def entity_of(row: Row, observations: Iterable[Observation]) -> Entity:
    """Return an entity from its row."""
    number, name, kind, source, run, created_at = row
    return Entity(number, name, kind, source, run, created_at, tuple(observations))
