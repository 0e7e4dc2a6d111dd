"""App: builds the console's web application: first page, health, metrics, Lab, conversations.

Knows nothing of sockets, ports and tokens; the gate in front of it does.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Final

from fastapi import FastAPI, Response

from onceward.console.models import Health
from onceward.dispatch.chats import Chats
from onceward.dispatch.http import bell_of, dispatch_router
from onceward.errors import NotFound
from onceward.failures import GATE_ANSWERS, wire_errors
from onceward.lab.http import lab_router
from onceward.lab.lab import Lab
from onceward.lab.waiting import Bell
from onceward.pages import REVALIDATE
from onceward.version import __version__
from onceward.workers.metrics import CONTENT_TYPE, Metrics

#: Everything under /assets, by name; what is not listed does not exist.
_ASSETS: Final = {"console.css": "text/css", "icon.svg": "image/svg+xml"}
#: How the first page leads to what is served, and how it calls what is not.
_LINKS: Final = {
    "lab": ("The Experiment Lab", '<a href="/lab">Open the Lab</a>'),
    "conversations": ("Conversations", '<a href="/chat">Open the conversations</a>'),
}


def build_app(
    *,
    version: str = __version__,
    metrics: Callable[[], bytes] | None = None,
    lab: Lab | None = None,
    dispatch: Chats | None = None,
    external: bool = False,
) -> FastAPI:
    """Return the console; serve it behind the gate.

    Whoever serves it calls `app.state.stop_waiting()`, from any thread, when the server is about to
    stop: it answers the requests that wait for news.

    Args:
        version: What it says it is.
        metrics: Makes what Prometheus reads.
        lab: The Experiment Lab, if it is to be served too.
        dispatch: The conversations, if they are to be served too.
        external: Whether other machines can ask; then nobody is handed the token.

    """
    app = FastAPI(
        title="Onceward",
        version=version,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/console/openapi.json",
        redirect_slashes=False,  # a redirect would repeat the Host header
    )
    wire_errors(app)
    _add_health(app, version)
    _add_metrics(app, metrics or Metrics(None).page)
    _add_pages(app, version, {"lab": lab is not None, "conversations": dispatch is not None})
    ends = [
        *([] if lab is None else [_add_lab(app, lab, version, external=external)]),
        *([] if dispatch is None else [_add_chats(app, dispatch, version, external=external)]),
    ]

    def stop_waiting() -> None:
        for end in ends:
            end()

    app.state.stop_waiting = stop_waiting
    return app


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


def _add_pages(app: FastAPI, version: str, is_served: Mapping[str, bool]) -> None:
    page = _read("index.html").decode().replace("{{ version }}", html.escape(version))
    for name, (word, link) in _LINKS.items():
        page = page.replace(f"{{{{ {name} }}}}", link if is_served[name] else word)
    assets = {name: _read(name) for name in _ASSETS}

    @app.get("/", include_in_schema=False)
    @app.head("/", include_in_schema=False)
    async def first_page() -> Response:
        return Response(page, media_type="text/html", headers=REVALIDATE)

    @app.get("/assets/{name}", include_in_schema=False)
    @app.head("/assets/{name}", include_in_schema=False)
    async def asset(name: str) -> Response:
        if name not in assets:
            message = "there is no such asset"
            raise NotFound(message, fix=f"use one of: {', '.join(assets)}")
        return Response(assets[name], media_type=_ASSETS[name], headers=REVALIDATE)

    @app.get("/favicon.ico", include_in_schema=False)
    @app.head("/favicon.ico", include_in_schema=False)
    async def favicon() -> Response:
        return await asset("icon.svg")


def _read(name: str) -> bytes:
    return (resources.files(__package__) / "pages" / name).read_bytes()
