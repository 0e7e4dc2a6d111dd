"""Graph: entities, observations and relations in a store, with idempotent writes."""

from onceward.memory.graph.graph import Graph

__all__ = ["Graph"]
