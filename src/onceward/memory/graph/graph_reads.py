"""Graph reads: entities with observations and relations, by name, page or prefix.

Every read uses an index and a limit; a truncated answer is marked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from onceward.errors import EntityMissing, InvalidArgument, InvalidCursor
from onceward.memory.graph.graph_writes import bind_params
from onceward.memory.models import (
    ENTITIES_MAX,
    OBSERVATIONS_MAX,
    RELATIONS_MAX,
    ChangeAction,
    Entity,
    EntityChange,
    GraphCounts,
    Observation,
    Relation,
    Subgraph,
)
from onceward.stores import Store

#: Appended to a prefix: sorts after every name with that prefix.
NAME_UPPER_BOUND: str = "\U0010ffff"
CURSOR_FIX: Final = "pass `nextCursor` of the previous page, or no cursor to start at the beginning"


class GraphReader:
    """Reads entities by name, id, page or prefix."""

    def __init__(self, store: Store) -> None:
        """Read from this store."""
        self._store = store

    def open(self, names: Sequence[str]) -> Subgraph:
        """Return the entities with these names, and every relation of them."""
        return self.subgraph(self.rows_by_name(names))

    def rows_by_name(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return rows of the entities with these names."""
        wanted = list(dict.fromkeys(names))
        return self._query("memory_entity_open", names=wanted) if wanted else []

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
        rows = self._query("memory_entity_page", after=after, limit=wanted + 1)
        last = str(rows[wanted - 1][0]) if len(rows) > wanted else None
        return self.subgraph(rows[:wanted], relations="memory_relation_from", next_cursor=last)

    def find_by_prefix(self, prefix: str, limit: int) -> tuple[Entity, ...]:
        """Return the entities whose names begin with a prefix, newest first."""
        high = prefix + NAME_UPPER_BOUND
        rows = self._query("memory_entity_newest", low=prefix, high=high, limit=limit)
        return self.entities(rows)[0]

    def rows(self, ids: Sequence[int]) -> list[tuple[Any, ...]]:
        """Return rows of these entities, in this order."""
        rows = {row[0]: row for row in self._query("memory_entity_get", ids=list(ids))}
        return [rows[number] for number in ids if number in rows]

    def range(self, low: str, high: str, after: str, limit: int) -> list[tuple[Any, ...]]:
        """Return rows of entities in a range of names."""
        return self._query("memory_entity_range", low=low, high=high, after=after, limit=limit)

    def subgraph(
        self,
        rows: Sequence[tuple[Any, ...]],
        *,
        relations: str = "memory_relation_of",
        next_cursor: str | None = None,
    ) -> Subgraph:
        """Return the entities of these rows with observations and relations."""
        entities, is_cut = self.entities(rows)
        ids = [row[0] for row in rows]
        edges = self._query(relations, ids=ids, limit=RELATIONS_MAX + 1) if ids else []
        is_cut = is_cut or len(edges) > RELATIONS_MAX
        del edges[RELATIONS_MAX:]
        return Subgraph(
            entities=entities,
            relations=tuple(relation_of(edge) for edge in reversed(edges)),
            next_cursor=next_cursor,
            is_cut=is_cut,
        )

    def entities(self, rows: Sequence[tuple[Any, ...]]) -> tuple[tuple[Entity, ...], bool]:
        """Return the entities of these rows, and whether older observations were left out."""
        limit = OBSERVATIONS_MAX + 1
        ids = [row[0] for row in rows]
        found = self._query("memory_observation_of", ids=ids, limit=limit) if ids else []
        is_cut = len(found) > OBSERVATIONS_MAX
        del found[OBSERVATIONS_MAX:]
        by_entity: dict[int, list[Observation]] = defaultdict(list)
        for owner, *rest in reversed(found):
            by_entity[owner].append(observation_of(rest))
        return tuple(_entity(row, by_entity[row[0]]) for row in rows), is_cut

    def stored(self, names: Sequence[str]) -> str:
        """Return the last of these names that an entity has or had; the first if none.

        A name that was merged into the entity of the first name is skipped.
        """
        first, *others = names
        known = [(row[0], name) for name in others for row in self._id(name)]
        if not known:
            return first
        merged = [each for row in self._id(first) for each in self._merged(row[0])]
        return next((name for number, name in reversed(known) if number not in merged), first)

    def history(self, name: str, limit: int) -> tuple[EntityChange, ...]:
        """Return the changes of an entity, newest first; also of a deleted one.

        Includes the changes of variants before they were merged into it.
        """
        found = self._id(name)
        if not found:
            raise EntityMissing([name], field="name", fix="see `onceward memory search`")
        wanted = check_limit(limit, ENTITIES_MAX)
        merged = self._merged(found[0][0])
        rows = [
            row
            for number in (found[0][0], *merged)
            for row in self._query("memory_history", id=number, limit=wanted)
        ]
        if merged:
            rows = sorted(rows, key=lambda row: str(row[1]), reverse=True)[:wanted]
        return tuple(
            EntityChange(
                id=number,
                at=at,
                action=ChangeAction(action),
                what=what,
                text=text,
                source=source,
                run=run,
            )
            for number, at, action, what, text, source, run in rows
        )

    def counts(self) -> GraphCounts:
        """Count the items of the graph; a full scan."""
        [(entities, observations, relations, deleted)] = self._query("memory_counts")
        return GraphCounts(
            entities=entities, observations=observations, relations=relations, deleted=deleted
        )

    def problems(self) -> list[str]:
        """Return violated invariants; a full scan."""
        counts = self._query("memory_problems")
        if self._store.engine == "sqlite":
            counts += self._query("memory_words_problems")
        return [f"{count} {what}" for what, count in counts if count]

    def _id(self, name: str) -> list[tuple[Any, ...]]:
        return self._query("memory_entity_id", name=name)

    def _merged(self, number: int) -> list[int]:
        """Return the entities that are merged into this one."""
        return [each for (each,) in self._query("memory_merge_sources", id=number)]

    def _query(self, name: str, /, **params: object) -> list[tuple[Any, ...]]:
        return self._store.read(name, **bind_params(params))


def check_limit(limit: int | None, most: int, default: int | None = None) -> int:
    """Return the limit, at most `most`; raise InvalidArgument if it is invalid."""
    if limit is None:
        return default or most
    if type(limit) is not int or limit < 1:
        message = f"limit: must be an integer, 1 or more, not {limit!r:.60}"
        raise InvalidArgument(message, fix="leave it out, or send one such as 20", field="limit")
    return min(limit, most)


def _entity(row: tuple[Any, ...], observations: Sequence[Observation]) -> Entity:
    number, name, kind, source, run, created_at = row
    return Entity(
        id=number,
        name=name,
        entity_type=kind,
        observations=tuple(observations),
        source=source,
        run=run,
        created_at=created_at,
    )


def observation_of(row: Sequence[Any]) -> Observation:
    """Return an observation from its row."""
    number, content, fingerprint, kind, ts, source, run, created_at = row
    return Observation(
        id=number,
        content=content,
        fingerprint=fingerprint,
        kind=kind,
        ts=ts,
        source=source,
        run=run,
        created_at=created_at,
    )


def relation_of(row: tuple[Any, ...]) -> Relation:
    """Return a relation from its row."""
    number, start, end, kind, source, run, created_at = row
    return Relation(
        id=number,
        from_name=start,
        to_name=end,
        relation_type=kind,
        source=source,
        run=run,
        created_at=created_at,
    )
