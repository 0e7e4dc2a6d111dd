"""Counts: the numbers beside the names of pages, as they were a moment ago."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Response
from pydantic import BaseModel

from onceward.console.answers import answers, json_answer
from onceward.console.tallies import Tallies


class CountsAnswer(BaseModel, frozen=True):
    """How many of everything there are; null before they were counted for the first time."""

    dead: int | None
    running: int | None
    ambiguous: int | None
    alerts: int | None
    parked: int | None
    conversations_dead: int | None
    as_of: str | None


def counts_router(tallies: Tallies) -> APIRouter:
    """Return the route of the counts."""
    router = APIRouter()

    @router.get("/api/console/counts", response_model=CountsAnswer, responses=answers())
    async def counts() -> Response:
        """Tell how many of everything there are; nothing is counted for it."""
        found = asdict(tallies.counts())
        return json_answer(found if found["as_of"] else dict.fromkeys(found))

    return router
