"""House: what one console looks at and acts upon. Knows no route."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from onceward.console.workspaces import Workspaces
from onceward.cursors.models import CountBetween
from onceward.dispatch.chats import Chats
from onceward.handle import Onceward
from onceward.lab.lab import Lab
from onceward.workers import App
from onceward.workers.alert_models import Rule
from onceward.workers.source import Countable, Source


@dataclass(frozen=True, kw_only=True, slots=True)
class House:
    """What one console looks at and acts upon."""

    #: Gives the open store; StoreUnavailable while it cannot be reached.
    ow: Callable[[], Onceward]
    #: Where the store is, without secrets.
    store_url: str
    version: str
    #: Who acts here, as the histories name them.
    actor: str
    lab: Lab | None = None
    chats: Chats | None = None
    #: Apps of the user's, whose sources can count what a seek repeats.
    apps: tuple[App, ...] = ()
    #: The rules by which alerts are raised here.
    rules: tuple[Rule, ...] = ()
    workspaces: Workspaces = field(default_factory=Workspaces)
    #: Whether it only shows.
    is_read_only: bool = False

    def source_of(self, cursor: str) -> Source | None:
        """Return what a cursor reads, if one of the apps knows it."""
        found = (app.source_of(cursor) for app in self.apps)
        return next((each for each in found if each is not None), None)

    def count_of(self, cursor: str) -> CountBetween | None:
        """Return how to count the messages of a cursor, if anybody here can."""
        source: object = self.source_of(cursor)
        return source.count if isinstance(source, Countable) else None
