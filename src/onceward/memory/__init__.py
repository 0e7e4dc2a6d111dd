"""Memory: what agents know, in a graph that can be written twice and says the same.

`graph` keeps it, `capture` watches commands and learns from them, `mcp` serves it to models. What
stands beside them is what a client calls: records, recall, explanations, files in and out.
"""

from onceward.memory.client import AsyncMemory, Memory
from onceward.memory.graph import Graph
from onceward.memory.models import (
    Action,
    Batch,
    Change,
    Counts,
    Entity,
    EntityFate,
    Fate,
    Link,
    NewEntity,
    NewObservations,
    Observation,
    ObservationFate,
    Origin,
    Relation,
    RelationFate,
    Removal,
    Removed,
    Subgraph,
    Validation,
    Written,
)

__all__ = [
    "Action",
    "AsyncMemory",
    "Batch",
    "Change",
    "Counts",
    "Entity",
    "EntityFate",
    "Fate",
    "Graph",
    "Link",
    "Memory",
    "NewEntity",
    "NewObservations",
    "Observation",
    "ObservationFate",
    "Origin",
    "Relation",
    "RelationFate",
    "Removal",
    "Removed",
    "Subgraph",
    "Validation",
    "Written",
]
