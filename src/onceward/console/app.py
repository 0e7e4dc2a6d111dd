"""App: build the web application of a server: pages, health, metrics, API, Lab, conversations.

Sockets, ports and tokens are handled outside, by the server and its request guard.
"""

from __future__ import annotations

import html
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Final

from fastapi import FastAPI, Response

from onceward.console.manual import manual_router
from onceward.console.models import Health
from onceward.console.single_page_app import (
    DOCUMENT,
    not_found_page,
    plain_router,
    shell_router,
)
from onceward.http.built_pages import built_assets, built_document
from onceward.http.errors import GUARD_RESPONSES, install_error_handlers
from onceward.version import __version__
from onceward.workers.metrics import CONTENT_TYPE, MetricsPage

if TYPE_CHECKING:
    from onceward.console.context import ConsoleContext
    from onceward.dispatch.conversations import Chats
    from onceward.lab.lab import Lab

#: Links of the plain page.
_LAB_LINK: Final = (
    '<li><a href="/lab">The Experiment Lab</a>: rate and compare what agents made</li>'
)
_CHAT_LINK: Final = '<li><a href="/chat">Conversations</a>: chat with agents</li>'
#: Notice on the plain page while the console's pages are not built.
_UNBUILT: Final = """<p class="notice problem" role="status">
        <span><strong>The console is not here.</strong> Its pages are built with the package,
          and this one was installed without them. <code>pip install .</code> in a checkout brings
          them; where the code is used in place, <code>make web</code> is enough. Then start the
          server again. The API and the command line work without the pages.</span>
      </p>"""


def build_app(
    *,
    version: str = __version__,
    metrics: Callable[[], bytes] | None = None,
    lab: Lab | None = None,
    dispatch: Chats | None = None,
    context: ConsoleContext | None = None,
) -> FastAPI:
    """Return the application; serve it behind the request guard.

    The server calls `app.state.stop_waiting()`, from any thread, when the server is about to stop,
    to answer all waiting long-poll requests.

    Args:
        version: Version shown to clients.
        metrics: Returns the metrics page for Prometheus.
        lab: The Experiment Lab to serve, if any.
        dispatch: The conversations to serve, if any.
        context: The console's stores and settings; without them one plain page is served.

    """
    app = FastAPI(
        lifespan=_lifespan,
        title="Onceward",
        version=version,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/console/openapi.json",
        redirect_slashes=False,  # a redirect would repeat the Host header
    )
    app.state.background_loops = ()
    install_error_handlers(app)
    _add_health(app, version)
    _add_metrics(app, metrics or MetricsPage(None).page)
    links = [_LAB_LINK] * (lab is not None) + [_CHAT_LINK] * (dispatch is not None)
    app.include_router(manual_router(_read("manual.html").decode()))
    _add_pages(app, version, links, is_console=context is not None)
    ends = [
        *([] if context is None else [_add_console(app, context)]),
        *([] if lab is None else [_add_lab(app, lab, version)]),
        *([] if dispatch is None else [_add_conversations(app, dispatch, version)]),
    ]
    app.state.stop_waiting = partial(_call_all, *ends)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Run the background loops as long as the server runs."""
    for each in app.state.background_loops:
        each.start()
    try:
        yield
    finally:
        for each in app.state.background_loops:
            each.stop()


def _add_lab(app: FastAPI, lab: Lab, version: str) -> Callable[[], None]:
    """Add the Lab's routes; return a function that ends its long polls."""
    from onceward.lab.feedback_long_poll import FeedbackNotifier  # noqa: PLC0415 - the same
    from onceward.lab.http import lab_router  # noqa: PLC0415 - only who serves it loads it

    notifier = app.state.notifier = FeedbackNotifier(lab.paths.feedback)
    app.include_router(lab_router(lab, version=version, notifier=notifier))
    return partial(_call_all, notifier.close, lab.stop)


def _add_conversations(app: FastAPI, chats: Chats, version: str) -> Callable[[], None]:
    """Add the conversations' routes; return a function that ends their long polls."""
    from onceward.dispatch.http import dispatch_router, notifier_of  # noqa: PLC0415 - the same

    notifier = app.state.chat_notifier = notifier_of(chats)
    app.include_router(dispatch_router(chats, version=version, notifier=notifier))
    return partial(_call_all, notifier.close, chats.stop)


def _call_all(*ends: Callable[[], object]) -> None:
    for end in ends:
        end()


def _add_health(app: FastAPI, version: str) -> None:
    @app.get("/healthz", responses=GUARD_RESPONSES, summary="Check that the server responds")
    @app.head("/healthz", include_in_schema=False)
    async def health() -> Health:
        return Health(version=version)


def _add_metrics(app: FastAPI, page: Callable[[], bytes]) -> None:
    headers = {"content-type": CONTENT_TYPE, "cache-control": "no-store"}

    @app.get("/metrics", include_in_schema=False)
    @app.head("/metrics", include_in_schema=False)
    def metrics() -> Response:  # Not `async`: it may wait for the store.
        return Response(page(), headers=headers)


def _add_pages(app: FastAPI, version: str, links: Sequence[str], *, is_console: bool) -> None:
    assets = built_assets()
    document = built_document(DOCUMENT) if is_console else None
    if document is not None:
        app.include_router(shell_router(document, assets))
        app.state.not_found_page = not_found_page(document)
        return
    page = _read("index.html").decode().replace("{{ version }}", html.escape(version))
    page = page.replace("{{ served }}", "\n        ".join(links))
    page = page.replace("{{ notice }}", _UNBUILT if is_console else "")
    app.include_router(plain_router(page, assets))


def _read(name: str) -> bytes:
    return (resources.files(__package__) / "pages" / name).read_bytes()


def _add_console(app: FastAPI, context: ConsoleContext) -> Callable[[], None]:
    from onceward.console.routes import add_console  # noqa: PLC0415 - the same

    return add_console(app, context)
