"""Serving: the pages of an application, its own modules and sheets and those that all share.

A page may stand inside another page of this server, as the console shows them, and in no other.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources
from pathlib import PurePosixPath
from typing import Final

from fastapi import APIRouter, Response

from onceward.errors import NotFound

#: Pages and assets are asked for again each time, so that no version shows with another's looks.
REVALIDATE: Final = {"cache-control": "no-cache"}
#: What the gate asks of every page, but for who may frame it.
POLICY: Final = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; "
    "frame-ancestors 'self'; form-action 'self'"
)
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def add_pages(router: APIRouter, package: str, *, page: str, base: str, at: Iterable[str]) -> None:
    """Serve one page at several addresses; its modules find out where they are.

    Args:
        router: Gets the routes.
        package: Has its pages in the directory `pages`.
        page: Its file.
        base: Everything else is served below `base` and `/assets`.
        at: Where the page is.

    """
    files = _files(package)
    shell = files.pop(page)
    headers = {**REVALIDATE, "content-security-policy": POLICY}

    async def show() -> Response:
        return Response(shell, media_type="text/html", headers=headers)

    for path in at:
        router.add_api_route(path, show, methods=["GET", "HEAD"], include_in_schema=False)

    @router.get(f"{base}/assets/{{name}}", include_in_schema=False)
    @router.head(f"{base}/assets/{{name}}", include_in_schema=False)
    async def asset(name: str) -> Response:
        kind = _TYPES.get(PurePosixPath(name).suffix)
        if kind is None or name not in files:
            message = "there is no such asset"
            raise NotFound(message, fix="reload the page")
        return Response(files[name], media_type=kind, headers=REVALIDATE)


def _files(package: str) -> dict[str, bytes]:
    """Return what pages may load, by name; what an application has of its own comes first."""
    places = (resources.files(__package__), resources.files(package) / "pages")
    return {
        each.name: each.read_bytes()
        for place in places
        for each in place.iterdir()
        if each.is_file()
    }
