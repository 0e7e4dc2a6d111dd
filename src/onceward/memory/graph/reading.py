"""Reading: entities with their observations and relations, by name, by page or by beginning.

Every read is answered by an index and bounded by a limit; what did not fit is said.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from onceward.errors import EntityMissing, InvalidArgument, InvalidCursor
from onceward.memory.graph.writing import bound
from onceward.memory.models import (
    ENTITIES_MAX,
    OBSERVATIONS_MAX,
    RELATIONS_MAX,
    Action,
    Change,
    Counts,
    Entity,
    Observation,
    Relation,
    Subgraph,
)
from onceward.stores import Store

#: Behind every name that begins with a prefix.
LAST: str = "\U0010ffff"


class Reader:
    """What can be asked of a graph without a question of words."""

    def __init__(self, store: Store) -> None:
        """Read from this store."""
        self._store = store

    def open(self, names: Sequence[str]) -> Subgraph:
        """Return the entities of these names, and every relation that touches them."""
        if len(names) > ENTITIES_MAX:
            message = f"names: {len(names)} names, more than {ENTITIES_MAX}"
            raise InvalidArgument(message, fix="ask in several calls", field="names")
        return self.subgraph(self.whole(names))

    def whole(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return rows of the entities of these names."""
        wanted = list(dict.fromkeys(names))
        return self._query("memory_entity_open", names=wanted) if wanted else []

    def page(self, limit: int | None, cursor: str | None) -> Subgraph:
        """Return the next entities in the order in which they came, with what begins at them.

        So that over all pages each relation is there once.
        """
        wanted = check_limit(limit, ENTITIES_MAX)
        after = 0
        if cursor is not None:
            if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
                message = "cursor: is not one that a page of the graph gave"
                raise InvalidCursor(message, fix="begin without a cursor", field="cursor")
            after = int(cursor)
        rows = self._query("memory_entity_page", after=after, limit=wanted + 1)
        last = str(rows[wanted - 1][0]) if len(rows) > wanted else None
        return self.subgraph(rows[:wanted], relations="memory_relation_from", next_cursor=last)

    def named(self, prefix: str, limit: int) -> tuple[Entity, ...]:
        """Return the entities whose names begin so, the newest first."""
        high = prefix + LAST
        rows = self._query("memory_entity_newest", low=prefix, high=high, limit=limit)
        return self.entities(rows)[0]

    def rows(self, ids: Sequence[int]) -> list[tuple[Any, ...]]:
        """Return rows of these entities, in this order."""
        rows = {row[0]: row for row in self._query("memory_entity_get", ids=list(ids))}
        return [rows[number] for number in ids if number in rows]

    def range(self, low: str, high: str, after: str, limit: int) -> list[tuple[Any, ...]]:
        """Return rows of entities by name."""
        return self._query("memory_entity_range", low=low, high=high, after=after, limit=limit)

    def subgraph(
        self,
        rows: Sequence[tuple[Any, ...]],
        *,
        relations: str = "memory_relation_of",
        next_cursor: str | None = None,
    ) -> Subgraph:
        """Give entities their observations and relations."""
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
        """Give entities their observations; the newest, if there are too many, which it says."""
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

        One that was merged into the entity of the first name is passed over.
        """
        first, *others = names
        known = [(row[0], name) for name in others for row in self._id(name)]
        if not known:
            return first
        merged = [each for row in self._id(first) for each in self._merged(row[0])]
        return next((name for number, name in reversed(known) if number not in merged), first)

    def history(self, name: str, limit: int) -> tuple[Change, ...]:
        """Return what happened to an entity, the newest first, also when it is deleted.

        With what happened to other spellings of it before they were merged into it.
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
            Change(
                id=number,
                at=at,
                action=Action(action),
                what=what,
                text=text,
                source=source,
                run=run,
            )
            for number, at, action, what, text, source, run in rows
        )

    def counts(self) -> Counts:
        """Count everything; reads all of it."""
        [(entities, observations, relations, deleted)] = self._query("memory_counts")
        return Counts(
            entities=entities, observations=observations, relations=relations, deleted=deleted
        )

    def problems(self) -> list[str]:
        """Return what must never be, and is; reads everything."""
        counts = self._query("memory_problems")
        if self._store.engine == "sqlite":
            counts += self._query("memory_words_problems")
        return [f"{count} {what}" for what, count in counts if count]

    def _id(self, name: str) -> list[tuple[Any, ...]]:
        return self._query("memory_entity_id", name=name)

    def _merged(self, number: int) -> list[int]:
        """Return the entities that were merged into one, and still are."""
        return [each for (each,) in self._query("memory_merge_sources", id=number)]

    def _query(self, name: str, /, **params: object) -> list[tuple[Any, ...]]:
        return self._store.read(name, **bound(params))


def check_limit(limit: int | None, most: int, default: int | None = None) -> int:
    """Return how many are wanted, at most what an answer holds."""
    if limit is None:
        return default or most
    if type(limit) is not int or limit < 1:
        message = "limit: must be a whole number, 1 or more"
        raise InvalidArgument(message, fix="leave it out, or send a number", field="limit")
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
    """Return an observation as it is kept."""
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
    """Return a relation as it is kept."""
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
