"""Agents: write an agent or wrap a program as one; handlers, results and the message protocol."""

from onceward.agents.chat import Chat, ChatAgent
from onceward.agents.chat_messages import ChatMessage
from onceward.agents.handler_results import (
    HandlerResult,
    approved,
    changes_requested,
    completed,
    no_changes_needed,
    spec_updated,
)
from onceward.agents.kit import Agent, Command

__all__ = [
    "Agent",
    "Chat",
    "ChatAgent",
    "ChatMessage",
    "Command",
    "HandlerResult",
    "approved",
    "changes_requested",
    "completed",
    "no_changes_needed",
    "spec_updated",
]
