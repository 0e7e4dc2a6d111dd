"""Batched records: several records as one atomic write."""

from __future__ import annotations

from onceward.memory.graph import Graph
from onceward.memory.models import (
    EntityResult,
    ObservationResult,
    RelationResult,
    WriteBatch,
    WriteOrigin,
    WriteResult,
    WriteStatus,
)

_NO_ORIGIN = WriteOrigin()


class BatchingGraph(Graph):
    """A graph that reads the store but collects writes into one batch.

    Results are known only after the batch is written; until then every item counts as created.
    """

    def __init__(self, graph: Graph) -> None:
        """Read from this graph, and use its redactor."""
        super().__init__(
            graph.store, redactor=graph.redactor, validation=graph.validation, root=graph.root
        )
        self._batches: list[WriteBatch] = []

    def write(self, batch: WriteBatch, origin: WriteOrigin = _NO_ORIGIN) -> WriteResult:  # noqa: ARG002 - one for all
        """Add a write to the batch."""
        self._batches.append(batch)
        facts = [(each.name, content) for each in batch.entities for content in each.observations]
        facts += [(o.entity_name, content) for o in batch.observations for content in o.contents]
        return WriteResult(
            entities=tuple(
                EntityResult(
                    name=each.name, entity_type=each.entity_type, status=WriteStatus.CREATED
                )
                for each in batch.entities
            ),
            observations=tuple(
                ObservationResult(entity_name=name, content=content, status=WriteStatus.CREATED)
                for name, content in facts
            ),
            relations=tuple(
                RelationResult(link=link, status=WriteStatus.CREATED) for link in batch.relations
            ),
        )

    @property
    def batch(self) -> WriteBatch:
        """Return all writes as one best-effort batch."""
        return WriteBatch(
            entities=tuple(each for batch in self._batches for each in batch.entities),
            observations=tuple(each for batch in self._batches for each in batch.observations),
            relations=tuple(each for batch in self._batches for each in batch.relations),
            is_best_effort=True,
        )
