"""Graph: entities, observations and relations in a store, written twice and there once."""

from onceward.memory.graph.graph import Graph

__all__ = ["Graph"]
