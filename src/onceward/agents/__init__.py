"""AGENTS: write an agent, and speak with one; handlers, results and the protocol between."""

from onceward.agents.kit import Agent, Command
from onceward.agents.results import (
    Result,
    approved,
    changes_requested,
    completed,
    no_changes_needed,
    spec_updated,
)

__all__ = [
    "Agent",
    "Command",
    "Result",
    "approved",
    "changes_requested",
    "completed",
    "no_changes_needed",
    "spec_updated",
]
