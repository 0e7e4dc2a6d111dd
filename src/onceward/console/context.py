"""Context: the stores, workspaces and settings of one console, passed to all its routes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from onceward.client import Onceward
from onceward.console.workspaces import Workspaces
from onceward.cursors.models import CountBetween
from onceward.dispatch.conversations import Chats
from onceward.lab.lab import Lab
from onceward.workers import App
from onceward.workers.alert_models import AlertRule
from onceward.workers.source_protocol import Countable, Source


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsoleContext:
    """The stores, workspaces and settings of one console."""

    #: Returns the open store; raises StoreUnavailable while it cannot be reached.
    ow: Callable[[], Onceward]
    #: The store's URL, without secrets.
    store_url: str
    version: str
    #: The actor recorded in histories and in the audit log.
    actor: str
    lab: Lab | None = None
    chats: Chats | None = None
    #: The user's apps; their sources count the messages that a seek repeats.
    apps: tuple[App, ...] = ()
    #: The alert rules of this server.
    rules: tuple[AlertRule, ...] = ()
    workspaces: Workspaces = field(default_factory=Workspaces)
    #: Whether changes are rejected.
    is_read_only: bool = False

    def source_of(self, cursor: str) -> Source | None:
        """Return the source of a cursor, if one of the apps declares it."""
        found = (app.source_of(cursor) for app in self.apps)
        return next((each for each in found if each is not None), None)

    def count_of(self, cursor: str) -> CountBetween | None:
        """Return the counting function of a cursor's source, if it has one."""
        source: object = self.source_of(cursor)
        return source.count if isinstance(source, Countable) else None
