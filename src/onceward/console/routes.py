"""Routes: add the console's API to an application, with its background loops."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from onceward.console.actions import ActionExecutor
from onceward.console.alerts_http import alerts_router
from onceward.console.change_detectors import detectors_of
from onceward.console.change_feed import ChangeFeed
from onceward.console.context import ConsoleContext
from onceward.console.conversations_http import conversations_router
from onceward.console.counts import CountSampler
from onceward.console.counts_http import counts_router
from onceward.console.cursors_http import cursors_router
from onceward.console.dead_http import dead_router
from onceward.console.events_http import events_router
from onceward.console.health_history import HealthHistory
from onceward.console.keys_http import keys_router
from onceward.console.memory_http import memory_router
from onceward.console.outcomes_http import outcomes_router
from onceward.console.overview_http import overview_router
from onceward.console.read_only import ReadOnly
from onceward.console.runs_http import runs_router
from onceward.console.session_http import frame_router
from onceward.console.workers_http import workers_router
from onceward.system import SystemClock


def add_console(app: FastAPI, context: ConsoleContext) -> Callable[[], None]:
    """Add the console's API; return a function that ends its event streams."""
    actions = ActionExecutor(context)
    counts_sampler, health = CountSampler(context.ow), HealthHistory(context.ow)
    # Event numbers that no earlier server used, so that a page with an older one is reset.
    feed = ChangeFeed(detectors_of(context), first=int(SystemClock().now().timestamp() * 1_000))
    app.state.feed = feed
    for router in (
        frame_router(context),
        events_router(feed),
        overview_router(context, counts_sampler, health),
        counts_router(counts_sampler),
        cursors_router(context, actions),
        workers_router(context),
        outcomes_router(context, actions),
        keys_router(),
        dead_router(context, actions),
        alerts_router(context),
        runs_router(context),
        memory_router(context, actions),
        conversations_router(context, actions),
    ):
        app.include_router(_with_heads(router))
    if context.is_read_only:
        app.add_middleware(ReadOnly)
    app.state.background_loops = (counts_sampler, health)
    return feed.close


def _with_heads(router: APIRouter) -> APIRouter:
    """Let every GET route also answer HEAD."""
    for route in list(router.routes):
        if isinstance(route, APIRoute) and route.methods == {"GET"}:
            router.add_api_route(
                route.path, route.endpoint, methods=["HEAD"], include_in_schema=False
            )
    return router
