"""Single-page app: serve the console's built HTML document at every screen's path, and its assets.

The package build makes them from `web/`; they are never committed. Without them, a plain page
explains how to build them.
"""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import Final

from fastapi import APIRouter, Request, Response

from onceward.errors import NotFound
from onceward.http.static_pages import REVALIDATE

#: Folder of the built files.
BUILT: Final = "built"
DOCUMENT: Final = "index.html"
#: The path of every screen; the document routes to the screen itself.
SCREENS: Final = (
    *("/", "/cursors", "/cursors/{name:path}", "/workers", "/dead", "/dead/{letter}"),
    *("/runs", "/runs/{workspace}/{run}", "/outcomes", "/outcomes/detail", "/keys"),
    *("/memory", "/experiments", "/conversations", "/alerts", "/audit"),
)
#: Names of built assets contain a digest of their content, so responses never change.
FOREVER: Final = {"cache-control": "public, max-age=31536000, immutable"}
_TYPES: Final = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A static file and its media type."""

    plain: bytes
    kind: str

    def answer(self, request: Request, headers: dict[str, str], status: int = 200) -> Response:
        """Return the file as a response, compressed if the client accepts gzip."""
        body, varied = self.plain, {**headers, "vary": "Accept-Encoding"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            body = gzip.compress(self.plain, mtime=0)
            varied["content-encoding"] = "gzip"
        return Response(body, status, varied, media_type=self.kind)


def built_pages() -> dict[str, Asset] | None:
    """Return the built files by name, or None when there are none."""
    place = resources.files(__package__) / BUILT
    if not (place / DOCUMENT).is_file():
        return None
    return {
        each.name: Asset(each.read_bytes(), _kind(each.name))
        for folder in (place, place / "assets")
        for each in _files(folder)
    }


def not_found_page(files: dict[str, Asset]) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler for unknown pages; the document shows "not found", with status 404."""

    async def show(request: Request) -> Response:
        return files[DOCUMENT].answer(request, REVALIDATE, 404)

    return show


def shell_router(files: dict[str, Asset], fixed: dict[str, Asset]) -> APIRouter:
    """Return the routes of the console; `fixed` are assets whose names contain no digest."""
    router = APIRouter()
    document = files[DOCUMENT]

    async def show(request: Request) -> Response:
        return document.answer(request, REVALIDATE)

    for path in SCREENS:
        router.add_api_route(path, show, methods=["GET", "HEAD"], include_in_schema=False)
    _add_assets(router, {**files, **fixed}, frozenset(fixed))
    return router


def plain_router(page: str, fixed: dict[str, Asset]) -> APIRouter:
    """Return the routes of a server without the console: one plain page."""
    router = APIRouter()

    async def show() -> Response:
        return Response(page, media_type="text/html", headers=REVALIDATE)

    router.add_api_route("/", show, methods=["GET", "HEAD"], include_in_schema=False)
    _add_assets(router, fixed, frozenset(fixed))
    return router


def _add_assets(router: APIRouter, files: dict[str, Asset], fixed: frozenset[str]) -> None:
    served = {name: each for name, each in files.items() if each.kind and name != DOCUMENT}

    async def asset(name: str, request: Request) -> Response:
        if name not in served:
            message = f"there is no asset {name[:60]!r}"
            raise NotFound(message, fix="reload the page")
        return served[name].answer(request, REVALIDATE if name in fixed else FOREVER)

    async def favicon(request: Request) -> Response:
        return await asset("icon.svg", request)

    methods = ["GET", "HEAD"]
    router.add_api_route("/assets/{name}", asset, methods=methods, include_in_schema=False)
    router.add_api_route("/favicon.ico", favicon, methods=methods, include_in_schema=False)


def fixed_assets() -> dict[str, Asset]:
    """Return the assets of the plain pages, which the console also uses."""
    own = resources.files(__package__) / "pages"
    files = (
        own / "icon.svg",
        own / "manual.css",
        resources.files("onceward.http") / "pages" / "base.css",
    )
    return {each.name: Asset(each.read_bytes(), _kind(each.name)) for each in files}


def _kind(name: str) -> str:
    """Return the media type of a file; empty if the file is no asset."""
    suffix = PurePosixPath(name).suffix
    return "text/html" if name == DOCUMENT else _TYPES.get(suffix, "")


def _files(folder: Traversable) -> list[Traversable]:
    return [each for each in folder.iterdir() if each.is_file()] if folder.is_dir() else []
