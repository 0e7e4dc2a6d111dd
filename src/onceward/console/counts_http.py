"""Counts over HTTP: return the counts that the console's navigation shows beside each page."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Response
from pydantic import BaseModel

from onceward.console.counts import CountSampler
from onceward.console.responses import answers, json_answer


class CountsResponse(BaseModel, frozen=True):
    """The counts of a store; null before the first count."""

    dead: int | None
    running: int | None
    ambiguous: int | None
    alerts: int | None
    parked: int | None
    conversations_dead: int | None
    as_of: str | None


def counts_router(counts_sampler: CountSampler) -> APIRouter:
    """Return the route of the counts."""
    router = APIRouter()

    @router.get("/api/console/counts", response_model=CountsResponse, responses=answers())
    async def counts() -> Response:
        """Return the last counts; nothing is counted by the request."""
        found = asdict(counts_sampler.counts())
        return json_answer(found if found["as_of"] else dict.fromkeys(found))

    return router
