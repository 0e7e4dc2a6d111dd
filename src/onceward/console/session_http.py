"""Session over HTTP: return the console's settings and permissions, and list the audit log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter, Request, Response

from onceward.console import audit
from onceward.console.context import ConsoleContext
from onceward.console.responses import (
    PAGE_ITEMS,
    After,
    Limit,
    Page,
    answers,
    clamped,
    json_answer,
    moment,
    number_after,
    page_answer,
)
from onceward.http.guard import page_token_for

_NEWEST: Final = 2**63 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreName:
    """The store of a server."""

    engine: str
    #: Without secrets.
    url: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsoleConfig:
    """The settings and permissions that every page needs."""

    version: str
    store: StoreName
    #: The page token; null unless the owner asks: then the page asks a person.
    token: str | None
    is_read_only: bool
    has_lab: bool
    has_conversations: bool
    #: Whether a seek can count what it repeats.
    can_count: bool
    actor: str
    as_of: str


def frame_router(context: ConsoleContext) -> APIRouter:
    """Return the routes that every page of the console uses."""
    router = APIRouter()

    @router.get("/api/console/config", responses=answers(ConsoleConfig))
    async def config(request: Request) -> Response:
        """Return the server's version, store, actor and permissions."""
        return json_answer(
            ConsoleConfig(
                version=context.version,
                store=StoreName(engine=_engine(context.store_url), url=context.store_url),
                token=page_token_for(request.scope),
                is_read_only=context.is_read_only,
                has_lab=context.lab is not None,
                has_conversations=context.chats is not None,
                can_count=bool(context.apps),
                actor=context.actor,
                as_of=moment(),
            )
        )

    @router.get("/api/console/audit", responses=answers(Page[audit.AuditEntry]))
    def actions(limit: Limit = PAGE_ITEMS, after: After = None) -> Response:
        """List the console's actions with their actors, newest first."""
        most, before = clamped(limit), number_after(after, _NEWEST)
        entries = audit.page(context.ow().store, before=before, limit=most)
        following = str(entries[-1].id) if len(entries) == most else None
        return page_answer(entries, following)

    return router


def _engine(url: str) -> str:
    return url.partition(":")[0]
