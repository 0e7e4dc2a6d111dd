"""Overview over HTTP: return everything that the console's first screen shows."""

from __future__ import annotations

from fastapi import APIRouter, Response

from onceward.console import overview
from onceward.console.context import ConsoleContext
from onceward.console.counts import CountSampler
from onceward.console.health_history import HealthHistory
from onceward.console.responses import answers, json_answer, moment


def overview_router(
    context: ConsoleContext, counts_sampler: CountSampler, health: HealthHistory
) -> APIRouter:
    """Return the route of the overview."""
    router = APIRouter()

    @router.get("/api/console/overview", responses=answers(overview.Overview))
    def look() -> Response:
        """Return items that need attention, the last hour's health, and recent activity."""
        counts, history = counts_sampler.counts(), health.history()
        now = history[-1] if history else None
        happened = overview.activity(context)
        wanted = overview.attention(context, counts, now)
        return json_answer(
            overview.Overview(
                attention=wanted,
                tiles=overview.tiles(history, counts),
                activity=happened,
                is_empty=not (happened or wanted or (now and now.cursors)),
                as_of=moment(),
            )
        )

    return router
