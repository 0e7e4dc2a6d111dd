"""Dispatch: chat messages to agents, never lost, never answered twice."""

from onceward.dispatch.channels import Channel
from onceward.dispatch.dispatcher import Dispatcher
from onceward.dispatch.groups import Groups
from onceward.dispatch.inbox import Inbox
from onceward.dispatch.models import Group, GroupMessage, NewMessage, Received, Reply, TriggerKind
from onceward.dispatch.operator_actions import Operators

__all__ = [
    "Channel",
    "Dispatcher",
    "Group",
    "GroupMessage",
    "Groups",
    "Inbox",
    "NewMessage",
    "Operators",
    "Received",
    "Reply",
    "TriggerKind",
]
