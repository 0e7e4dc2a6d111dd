"""Routes: the console's API, and what counts and looks in the background for it."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from onceward.console.acting import Acting
from onceward.console.alerts_http import alerts_router
from onceward.console.conversations_http import conversations_router
from onceward.console.counts_http import counts_router
from onceward.console.cursors_http import cursors_router
from onceward.console.dead_http import dead_router
from onceward.console.events_http import events_router
from onceward.console.frame_http import frame_router
from onceward.console.house import House
from onceward.console.keys_http import keys_router
from onceward.console.looks import looks_of
from onceward.console.memory_http import memory_router
from onceward.console.outcomes_http import outcomes_router
from onceward.console.overview_http import overview_router
from onceward.console.pulse import Pulse
from onceward.console.read_only import ReadOnly
from onceward.console.runs_http import runs_router
from onceward.console.tallies import Tallies
from onceward.console.vitals import Vitals
from onceward.console.workers_http import workers_router
from onceward.seams import SystemClock


def add_console(app: FastAPI, house: House) -> Callable[[], None]:
    """Add the console's API; return what ends the waiting for its events."""
    acting = Acting(house)
    tallies, vitals = Tallies(house.ow), Vitals(house.ow)
    # Numbers that no earlier server gave out: whoever comes back with one of those is told so.
    pulse = Pulse(looks_of(house), first=int(SystemClock().now().timestamp() * 1_000))
    app.state.pulse = pulse
    for router in (
        frame_router(house),
        events_router(pulse),
        overview_router(house, tallies, vitals),
        counts_router(tallies),
        cursors_router(house, acting),
        workers_router(house),
        outcomes_router(house, acting),
        keys_router(),
        dead_router(house, acting),
        alerts_router(house),
        runs_router(house),
        memory_router(house, acting),
        conversations_router(house, acting),
    ):
        app.include_router(_with_heads(router))
    if house.is_read_only:
        app.add_middleware(ReadOnly)
    app.state.rounds = (tallies, vitals)
    return pulse.close


def _with_heads(router: APIRouter) -> APIRouter:
    """Let every address that can be read answer HEAD, too."""
    for route in list(router.routes):
        if isinstance(route, APIRoute) and route.methods == {"GET"}:
            router.add_api_route(
                route.path, route.endpoint, methods=["HEAD"], include_in_schema=False
            )
    return router
