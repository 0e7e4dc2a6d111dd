"""Offline: what a record will be called, found out without the store.

Checks arguments and derives names as a graph does; finds everything that is asked for, and writes
nothing. What became of a record is not known before it is replayed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onceward.memory.client import Memory
from onceward.memory.graph import Graph
from onceward.memory.models import (
    Batch,
    Entity,
    EntityFate,
    EntityId,
    Fate,
    ObservationFate,
    Origin,
    RelationFate,
    Subgraph,
    Written,
)
from onceward.memory.recording import Recorder
from onceward.memory.replaying import Where
from onceward.memory.shapes import Shape, plain
from onceward.memory.vocabulary import type_of

_NOBODY = Origin()


def foretold(memory: Memory, method: str, facts: Mapping[str, Any], where: Where) -> Shape:
    """Check a record of one of the memory's methods, and return the answer while it waits."""
    _, mode, repo, branch = where
    recorder = Recorder(
        OfflineGraph(memory.graph), origin=memory.origin, mode=mode, repo=repo, branch=branch
    )
    shape: Shape = plain(getattr(recorder, method.removeprefix("record_"))(**facts))
    if method == "record_fix" and type_of(facts["issue"]) not in ("Error", "Warning"):
        # It is named after its issue. Whether the message is one of an error, only the store knows.
        return {**shape, "isNameProvisional": True}
    return shape


class OfflineGraph(Graph):
    """A graph that is not asked: it has whatever a record is about."""

    def __init__(self, graph: Graph) -> None:
        """Check as this graph does."""
        super().__init__(
            graph.store, redactor=graph.redactor, validation=graph.validation, root=graph.root
        )

    def open(self, names: Sequence[str]) -> Subgraph:
        """Return an entity of each name, without facts."""
        return Subgraph(entities=tuple(map(_entity, map(self._stored, names))), relations=())

    def write(self, batch: Batch, origin: Origin = _NOBODY) -> Written:
        """Check a write; everything in it is said to wait."""
        self._clean(origin)
        clean = self._gate.batch(batch)
        return Written(
            entities=tuple(
                EntityFate(name=each.name, entity_type=each.entity_type, fate=Fate.BUFFERED)
                for each in clean.entities
            ),
            observations=tuple(
                ObservationFate(
                    entity_name=each.entity_name, content=each.content, fate=Fate.BUFFERED
                )
                for each in clean.facts
            ),
            relations=tuple(RelationFate(link=each, fate=Fate.BUFFERED) for each in clean.links),
        )

    def _stored(self, name: str) -> str:
        return self.meant(name)[0]


def _entity(name: str) -> Entity:
    return Entity(
        id=EntityId(0),
        name=name,
        entity_type=type_of(name) or "",
        observations=(),
        source="",
        run=None,
        created_at="",
    )
