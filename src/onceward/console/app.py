"""App: builds the console's web application: pages, health, metrics, the API, Lab, conversations.

Knows nothing of sockets, ports and tokens; the gate in front of it does.
"""

from __future__ import annotations

import html
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib import resources
from typing import Final

from fastapi import APIRouter, FastAPI, Response
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
from onceward.console.models import Health
from onceward.console.outcomes_http import outcomes_router
from onceward.console.overview_http import overview_router
from onceward.console.pulse import Pulse
from onceward.console.read_only import ReadOnly
from onceward.console.runs_http import runs_router
from onceward.console.shell import asset_of, built_pages, lost_page, plain_router, shell_router
from onceward.console.tallies import Tallies
from onceward.console.vitals import Vitals
from onceward.console.workers_http import workers_router
from onceward.dispatch.chats import Chats
from onceward.dispatch.http import bell_of, dispatch_router
from onceward.failures import GATE_ANSWERS, wire_errors
from onceward.lab.http import lab_router
from onceward.lab.lab import Lab
from onceward.lab.waiting import Bell
from onceward.seams import SystemClock
from onceward.version import __version__
from onceward.workers.metrics import CONTENT_TYPE, Metrics

#: Assets of the plain page, which the console has too.
_FIXED: Final = ("console.css", "icon.svg")
#: How the first page leads to what is served, and how it calls what is not.
_LINKS: Final = {
    "lab": ("The Experiment Lab", '<a href="/lab">Open the Lab</a>'),
    "conversations": ("Conversations", '<a href="/chat">Open the conversations</a>'),
}
#: What the plain page says where the console should be.
_UNBUILT: Final = """<section class="notice" role="status">
        <h2>The console is not here</h2>
        <p>Its pages are built with the package, and this one was installed without them. In a
          checkout, <code>make web</code> builds them; then start the server again. Everything
          else works: the Lab, the conversations, the API and the command line.</p>
      </section>"""


def build_app(  # noqa: PLR0913 - all by name
    *,
    version: str = __version__,
    metrics: Callable[[], bytes] | None = None,
    lab: Lab | None = None,
    dispatch: Chats | None = None,
    external: bool = False,
    house: House | None = None,
) -> FastAPI:
    """Return the application; serve it behind the gate.

    Whoever serves it calls `app.state.stop_waiting()`, from any thread, when the server is about to
    stop: it answers the requests that wait for news.

    Args:
        version: What it says it is.
        metrics: Makes what Prometheus reads.
        lab: The Experiment Lab, if it is to be served too.
        dispatch: The conversations, if they are to be served too.
        external: Whether other machines can ask; then nobody is handed the token.
        house: What the console looks at, if it is to be served; else there is one plain page.

    """
    app = FastAPI(
        lifespan=_living,
        title="Onceward",
        version=version,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/console/openapi.json",
        redirect_slashes=False,  # a redirect would repeat the Host header
    )
    app.state.rounds = ()
    wire_errors(app)
    _add_health(app, version)
    _add_metrics(app, metrics or Metrics(None).page)
    _add_pages(
        app,
        version,
        {"lab": lab is not None, "conversations": dispatch is not None},
        is_console=house is not None,
    )
    ends = [
        *([] if house is None else [_add_console(app, house)]),
        *([] if lab is None else [_add_lab(app, lab, version, external=external)]),
        *([] if dispatch is None else [_add_chats(app, dispatch, version, external=external)]),
    ]

    def stop_waiting() -> None:
        for end in ends:
            end()

    app.state.stop_waiting = stop_waiting
    return app


@asynccontextmanager
async def _living(app: FastAPI) -> AsyncIterator[None]:
    """Let what counts in the background run as long as the server does."""
    for each in app.state.rounds:
        each.start()
    try:
        yield
    finally:
        for each in app.state.rounds:
            each.stop()


def _add_lab(app: FastAPI, lab: Lab, version: str, *, external: bool) -> Callable[[], None]:
    """Add the Lab; return what ends the waiting for its feedback."""
    bell = Bell(lab.paths.feedback)
    app.state.bell = bell
    app.include_router(lab_router(lab, version=version, external=external, bell=bell))

    def stop_waiting() -> None:
        bell.close()
        lab.stop()

    return stop_waiting


def _add_chats(app: FastAPI, chats: Chats, version: str, *, external: bool) -> Callable[[], None]:
    """Add the conversations; return what ends the waiting for news of them."""
    bell = bell_of(chats)
    app.state.chat_bell = bell
    app.include_router(dispatch_router(chats, version=version, external=external, bell=bell))

    def stop_waiting() -> None:
        bell.close()
        chats.stop()

    return stop_waiting


def _add_health(app: FastAPI, version: str) -> None:
    @app.get("/healthz", responses=GATE_ANSWERS, summary="Tell that the server answers")
    @app.head("/healthz", include_in_schema=False)
    async def health() -> Health:
        return Health(version=version)


def _add_metrics(app: FastAPI, page: Callable[[], bytes]) -> None:
    headers = {"content-type": CONTENT_TYPE, "cache-control": "no-store"}

    @app.get("/metrics", include_in_schema=False)
    @app.head("/metrics", include_in_schema=False)
    def metrics() -> Response:  # In a thread: the store may let it wait.
        return Response(page(), headers=headers)


def _add_pages(
    app: FastAPI, version: str, is_served: Mapping[str, bool], *, is_console: bool
) -> None:
    fixed = {name: asset_of(name) for name in _FIXED}
    files = built_pages() if is_console else None
    if files is not None:
        app.include_router(shell_router(files, fixed))
        app.state.lost = lost_page(files)
        return
    page = _read("index.html").decode().replace("{{ version }}", html.escape(version))
    for name, (word, link) in _LINKS.items():
        page = page.replace(f"{{{{ {name} }}}}", link if is_served[name] else word)
    page = page.replace("{{ notice }}", _UNBUILT if is_console else "")
    app.include_router(plain_router(page, fixed))


def _read(name: str) -> bytes:
    return (resources.files(__package__) / "pages" / name).read_bytes()


def _add_console(app: FastAPI, house: House) -> Callable[[], None]:
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
