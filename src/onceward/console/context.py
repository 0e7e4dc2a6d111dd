"""Context: the stores, workspaces and settings that one console works with. No route."""

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
    """What one console shows and changes."""

    #: Gives the open store; StoreUnavailable while it cannot be reached.
    ow: Callable[[], Onceward]
    #: Where the store is, without secrets.
    store_url: str
    version: str
    #: The actor that histories and the audit name.
    actor: str
    lab: Lab | None = None
    chats: Chats | None = None
    #: Apps of the user's, whose sources can count what a seek repeats.
    apps: tuple[App, ...] = ()
    #: The rules by which alerts are raised here.
    rules: tuple[AlertRule, ...] = ()
    workspaces: Workspaces = field(default_factory=Workspaces)
    #: Whether changes are rejected.
    is_read_only: bool = False

    def source_of(self, cursor: str) -> Source | None:
        """Return the source of a cursor, if one of the apps declares it."""
        found = (app.source_of(cursor) for app in self.apps)
        return next((each for each in found if each is not None), None)

    def count_of(self, cursor: str) -> CountBetween | None:
        """Return how to count the messages of a cursor, if its source can count."""
        source: object = self.source_of(cursor)
        return source.count if isinstance(source, Countable) else None
