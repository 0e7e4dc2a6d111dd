"""Memory: a knowledge graph of what agents know; every write is idempotent.

`graph` stores it, `capture` records commands and their errors, `mcp` serves it to models. The
modules next to them are the client API: records, recall, provenance, import and export.
"""

from onceward.memory.client import AsyncMemory, Memory
from onceward.memory.graph import Graph
from onceward.memory.models import (
    AffectedCounts,
    ChangeAction,
    Entity,
    EntityChange,
    EntityResult,
    GraphCounts,
    Link,
    NewEntity,
    NewObservations,
    Observation,
    ObservationResult,
    Relation,
    RelationResult,
    Removal,
    Subgraph,
    Validation,
    WriteBatch,
    WriteOrigin,
    WriteResult,
    WriteStatus,
)

__all__ = [
    "AffectedCounts",
    "AsyncMemory",
    "ChangeAction",
    "Entity",
    "EntityChange",
    "EntityResult",
    "Graph",
    "GraphCounts",
    "Link",
    "Memory",
    "NewEntity",
    "NewObservations",
    "Observation",
    "ObservationResult",
    "Relation",
    "RelationResult",
    "Removal",
    "Subgraph",
    "Validation",
    "WriteBatch",
    "WriteOrigin",
    "WriteResult",
    "WriteStatus",
]
