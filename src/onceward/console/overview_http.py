"""Overview over HTTP: one answer for the first screen."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Response

from onceward.console import overview
from onceward.console.answers import answers, json_answer, moment
from onceward.console.house import House
from onceward.console.tallies import Tallies
from onceward.console.vitals import Vitals


def overview_router(house: House, tallies: Tallies, vitals: Vitals) -> APIRouter:
    """Return the route."""
    router = APIRouter()

    @router.get("/api/console/overview", responses=answers())
    def look() -> Response:
        """Tell what needs somebody, how the last hour was, and what happened last."""
        counts, history = tallies.counts(), vitals.history()
        now = history[-1] if history else None
        happened = overview.activity(house)
        wanted = overview.attention(house, counts, now)
        return json_answer(
            {
                "attention": [asdict(each) for each in wanted],
                "tiles": overview.tiles(history, counts),
                "activity": happened,
                "is_empty": not (happened or wanted or (now and now.cursors)),
                "as_of": moment(),
            }
        )

    return router
