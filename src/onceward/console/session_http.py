"""Session over HTTP: return the console's settings and permissions, and list the audit log."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from fastapi import APIRouter, Request, Response

from onceward.console import audit
from onceward.console.context import ConsoleContext
from onceward.console.responses import (
    PAGE_ITEMS,
    After,
    Limit,
    answers,
    clamped,
    json_answer,
    moment,
    number_after,
    page_answer,
)
from onceward.http.guard import page_token_for

_NEWEST: Final = 2**63 - 1


def frame_router(context: ConsoleContext) -> APIRouter:
    """Return the routes that every page of the console uses."""
    router = APIRouter()

    @router.get("/api/console/config", responses=answers())
    async def config(request: Request) -> Response:
        """Return the server's version, store, actor and permissions."""
        return json_answer(
            {
                "version": context.version,
                "store": {"engine": _engine(context.store_url), "url": context.store_url},
                "token": page_token_for(request.scope),
                "is_read_only": context.is_read_only,
                "has_lab": context.lab is not None,
                "has_conversations": context.chats is not None,
                "can_count": bool(context.apps),
                "actor": context.actor,
                "as_of": moment(),
            }
        )

    @router.get("/api/console/audit", responses=answers())
    def actions(limit: Limit = PAGE_ITEMS, after: After = None) -> Response:
        """List the console's actions with their actors, newest first."""
        most, before = clamped(limit), number_after(after, _NEWEST)
        entries = audit.page(context.ow().store, before=before, limit=most)
        following = str(entries[-1].id) if len(entries) == most else None
        return page_answer((asdict(each) for each in entries), following)

    return router


def _engine(url: str) -> str:
    return url.partition(":")[0]
