"""Frame: what every page of the console must know first, and who did what here."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from fastapi import APIRouter, Request, Response

from onceward.console import audit
from onceward.console.answers import (
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
from onceward.console.house import House
from onceward.gate import token_for

_NEWEST: Final = 2**63 - 1


def frame_router(house: House) -> APIRouter:
    """Return the routes of the frame."""
    router = APIRouter()

    @router.get("/api/console/config", responses=answers())
    async def config(request: Request) -> Response:
        """Tell a page what it must know before its first change."""
        return json_answer(
            {
                "version": house.version,
                "store": {"engine": _engine(house.store_url), "url": house.store_url},
                "token": token_for(request.scope),
                "is_read_only": house.is_read_only,
                "has_lab": house.lab is not None,
                "has_conversations": house.chats is not None,
                "can_count": bool(house.apps),
                "actor": house.actor,
                "as_of": moment(),
            }
        )

    @router.get("/api/console/audit", responses=answers())
    def actions(limit: Limit = PAGE_ITEMS, after: After = None) -> Response:
        """List what was done through the console, by whom, newest first."""
        most, before = clamped(limit), number_after(after, _NEWEST)
        entries = audit.page(house.ow().store, before=before, limit=most)
        following = str(entries[-1].id) if len(entries) == most else None
        return page_answer((asdict(each) for each in entries), following)

    return router


def _engine(url: str) -> str:
    return url.partition(":")[0]
