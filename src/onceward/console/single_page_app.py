"""Single-page app: serve the console's built HTML document at every screen's path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib import resources
from typing import Final

from fastapi import APIRouter, Request, Response

from onceward.http.built_pages import REVALIDATE, Asset, add_assets, read_assets

DOCUMENT: Final = "index.html"
#: The path of every screen; the document routes to the screen itself.
SCREENS: Final = (
    *("/", "/cursors", "/cursors/{name:path}", "/workers", "/dead", "/dead/{letter}"),
    *("/runs", "/runs/{workspace}/{run}", "/outcomes", "/outcomes/detail", "/keys"),
    *("/memory", "/experiments", "/conversations", "/alerts", "/audit"),
)


def not_found_page(document: Asset) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler for unknown pages; the document shows "not found", with status 404."""

    async def show(request: Request) -> Response:
        return document.answer(request, REVALIDATE, 404)

    return show


def shell_router(document: Asset, assets: Mapping[str, Asset]) -> APIRouter:
    """Return the routes of the console's screens, and of the `assets` that they load."""
    router = APIRouter()

    async def show(request: Request) -> Response:
        return document.answer(request, REVALIDATE)

    for path in SCREENS:
        router.add_api_route(path, show, methods=["GET", "HEAD"], include_in_schema=False)
    add_assets(router, assets, fixed_assets())
    return router


def plain_router(page: str, assets: Mapping[str, Asset]) -> APIRouter:
    """Return the routes of a server without the console: one plain page, and the `assets`."""
    router = APIRouter()

    async def show() -> Response:
        return Response(page, media_type="text/html", headers=REVALIDATE)

    router.add_api_route("/", show, methods=["GET", "HEAD"], include_in_schema=False)
    add_assets(router, assets, fixed_assets())
    return router


def fixed_assets() -> dict[str, Asset]:
    """Return the assets whose names contain no digest: those of the plain pages, and the icon."""
    own = resources.files(__package__) / "pages"
    shared = resources.files("onceward.http") / "pages" / "base.css"
    return read_assets((own / "icon.svg", own / "manual.css", shared))
