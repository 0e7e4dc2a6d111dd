"""Workers over HTTP: list workers with their leases, and a timeline of the leases they held."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Response

from onceward.console.context import ConsoleContext
from onceward.console.responses import answers, json_answer
from onceward.console.worker_timeline import Workers, workers_and_lanes

MINUTES: Final = 10.0
MINUTES_MAX: Final = 24 * 60.0

Minutes = Annotated[
    float,
    Query(
        gt=0, le=MINUTES_MAX, allow_inf_nan=False, description="How many minutes back the lanes go."
    ),
]


def workers_router(context: ConsoleContext) -> APIRouter:
    """Return the routes of workers."""
    router = APIRouter()

    @router.get("/api/console/workers", responses=answers(Workers))
    def list_workers(minutes: Minutes = MINUTES) -> Response:
        """List the workers with their leases, and one lane of leases for each.

        Workers that hold or recently held a lease are listed, registered or not.
        """
        return json_answer(workers_and_lanes(context.ow(), minutes))

    return router
