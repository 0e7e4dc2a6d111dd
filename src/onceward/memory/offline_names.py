"""Offline names: validate a record and derive its name without the store.

Treats every referenced entity as existing, and writes nothing. The result of a record is known only
after its replay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onceward.memory.buffer_replay import RecordContext
from onceward.memory.client import Memory
from onceward.memory.entity_types import type_of
from onceward.memory.graph import Graph
from onceward.memory.models import (
    Entity,
    EntityId,
    EntityResult,
    ObservationResult,
    RelationResult,
    Subgraph,
    WriteBatch,
    WriteOrigin,
    WriteResult,
    WriteStatus,
)
from onceward.memory.recorder import Recorder
from onceward.memory.serialization import JsonObject, to_json

_NO_ORIGIN = WriteOrigin()


def validate_offline(
    memory: Memory, method: str, facts: Mapping[str, Any], where: RecordContext
) -> JsonObject:
    """Validate a record, and return the answer for a buffered one."""
    _, mode, repo, branch = where
    recorder = Recorder(
        OfflineGraph(memory.graph), origin=memory.origin, mode=mode, repo=repo, branch=branch
    )
    shape: JsonObject = to_json(getattr(recorder, method.removeprefix("record_"))(**facts))
    if method == "record_fix" and type_of(facts["issue"]) not in ("Error", "Warning"):
        # A fix is named after its issue; only the store knows whether the issue is an error.
        return {**shape, "isNameProvisional": True}
    return shape


class OfflineGraph(Graph):
    """A graph that never reads the store: every entity exists."""

    def __init__(self, graph: Graph) -> None:
        """Validate like this graph."""
        super().__init__(
            graph.store, redactor=graph.redactor, validation=graph.validation, root=graph.root
        )

    def open(self, names: Sequence[str]) -> Subgraph:
        """Return an entity for each name, without observations."""
        return Subgraph(entities=tuple(map(_entity, map(self._stored, names))), relations=())

    def write(self, batch: WriteBatch, origin: WriteOrigin = _NO_ORIGIN) -> WriteResult:
        """Validate a write, and return every item as buffered."""
        self._clean(origin)
        clean = self._validator.batch(batch)
        return WriteResult(
            entities=tuple(
                EntityResult(
                    name=each.name, entity_type=each.entity_type, status=WriteStatus.BUFFERED
                )
                for each in clean.entities
            ),
            observations=tuple(
                ObservationResult(
                    entity_name=each.entity_name, content=each.content, status=WriteStatus.BUFFERED
                )
                for each in clean.facts
            ),
            relations=tuple(
                RelationResult(link=each, status=WriteStatus.BUFFERED) for each in clean.links
            ),
        )

    def _stored(self, name: str) -> str:
        return self.candidate_names(name)[0]


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
