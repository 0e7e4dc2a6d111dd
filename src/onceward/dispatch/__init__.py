"""Dispatch: chat messages to agents, never lost, never answered twice."""

from onceward.dispatch.arrivals import Arrivals
from onceward.dispatch.channels import Channel
from onceward.dispatch.dispatcher import Dispatcher
from onceward.dispatch.groups import Groups
from onceward.dispatch.models import Group, Message, NewMessage, Received, Reply, TriggerKind
from onceward.dispatch.operators import Operators

__all__ = [
    "Arrivals",
    "Channel",
    "Dispatcher",
    "Group",
    "Groups",
    "Message",
    "NewMessage",
    "Operators",
    "Received",
    "Reply",
    "TriggerKind",
]
