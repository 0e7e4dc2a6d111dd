"""Agents: write an agent, and speak with one; handlers, results and the protocol between."""

from onceward.agents.chat import Chat, ChatAgent
from onceward.agents.chat_messages import ChatMessage
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
    "Chat",
    "ChatAgent",
    "ChatMessage",
    "Command",
    "Result",
    "approved",
    "changes_requested",
    "completed",
    "no_changes_needed",
    "spec_updated",
]
