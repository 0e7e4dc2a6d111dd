"""Counts: the numbers beside the names of pages, as they were a moment ago."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Response
from pydantic import BaseModel

from onceward.console.counts import CountSampler
from onceward.console.responses import answers, json_answer


class CountsAnswer(BaseModel, frozen=True):
    """How many of everything there are; null before they were counted for the first time."""

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

    @router.get("/api/console/counts", response_model=CountsAnswer, responses=answers())
    async def counts() -> Response:
        """Tell how many of everything there are; nothing is counted for it."""
        found = asdict(counts_sampler.counts())
        return json_answer(found if found["as_of"] else dict.fromkeys(found))

    return router
