"""Counts over HTTP: return the counts that the console's navigation shows beside each page."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Response

from onceward.console.counts import CountSampler
from onceward.console.responses import answers, extended, json_answer


@dataclass(frozen=True, kw_only=True, slots=True)
class CountsResponse:
    """The counts of a store, see `AreaCounts`; null before the first count."""

    dead: int | None = None
    running: int | None = None
    ambiguous: int | None = None
    alerts: int | None = None
    parked: int | None = None
    conversations_dead: int | None = None
    as_of: str | None = None


def counts_router(counts_sampler: CountSampler) -> APIRouter:
    """Return the route of the counts."""
    router = APIRouter()

    @router.get("/api/console/counts", responses=answers(CountsResponse))
    async def counts() -> Response:
        """Return the last counts; nothing is counted by the request."""
        found = counts_sampler.counts()
        return json_answer(extended(CountsResponse, found) if found.as_of else CountsResponse())

    return router
