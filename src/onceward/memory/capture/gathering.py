"""Gathering: several records as one write, so that a crash keeps all of them or none."""

from __future__ import annotations

from onceward.memory.graph import Graph
from onceward.memory.models import (
    Batch,
    EntityFate,
    Fate,
    ObservationFate,
    Origin,
    RelationFate,
    Written,
)

_NOBODY = Origin()


class Gathering(Graph):
    """A graph to read from, which keeps what is written to it until somebody asks for it.

    What became of a write is not known before; until then everything is said to be created.
    """

    def __init__(self, graph: Graph) -> None:
        """Read from this graph, and take its secrets out."""
        super().__init__(
            graph.store, redactor=graph.redactor, validation=graph.validation, root=graph.root
        )
        self._batches: list[Batch] = []

    def write(self, batch: Batch, origin: Origin = _NOBODY) -> Written:  # noqa: ARG002 - one for all
        """Keep a write for later."""
        self._batches.append(batch)
        facts = [(each.name, content) for each in batch.entities for content in each.observations]
        facts += [(o.entity_name, content) for o in batch.observations for content in o.contents]
        return Written(
            entities=tuple(
                EntityFate(name=each.name, entity_type=each.entity_type, fate=Fate.CREATED)
                for each in batch.entities
            ),
            observations=tuple(
                ObservationFate(entity_name=name, content=content, fate=Fate.CREATED)
                for name, content in facts
            ),
            relations=tuple(RelationFate(link=link, fate=Fate.CREATED) for link in batch.relations),
        )

    @property
    def batch(self) -> Batch:
        """Return everything so far as one write; relations that cannot be made are reported."""
        return Batch(
            entities=tuple(each for batch in self._batches for each in batch.entities),
            observations=tuple(each for batch in self._batches for each in batch.observations),
            relations=tuple(each for batch in self._batches for each in batch.relations),
            is_best_effort=True,
        )
