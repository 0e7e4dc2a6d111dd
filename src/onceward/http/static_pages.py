"""Static pages: serve an application's page with its own and the shared scripts and styles.

Pages of this server, such as the console, may frame a page; other sites may not.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources
from pathlib import PurePosixPath
from typing import Final

from fastapi import APIRouter, Response

from onceward.errors import NotFound
from onceward.http.built_pages import REVALIDATE

#: The guard's policy, except that pages of this server may frame the page.
POLICY: Final = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; "
    "frame-ancestors 'self'; form-action 'self'"
)
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def add_pages(router: APIRouter, package: str, *, page: str, base: str, at: Iterable[str]) -> None:
    """Serve one page at several addresses, and its assets.

    Args:
        router: The routes are added to it.
        package: The package whose directory `pages` holds the files.
        page: File name of the page.
        base: Assets are served below this address and `/assets`.
        at: Addresses of the page.

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
            message = f"there is no asset {name[:60]!r}; the page may be of another version"
            raise NotFound(message, fix="reload the page")
        return Response(files[name], media_type=kind, headers=REVALIDATE)


def _files(package: str) -> dict[str, bytes]:
    """Return the files that pages may load, by name; the application's override shared ones."""
    places = (resources.files(__package__) / "pages", resources.files(package) / "pages")
    return {
        each.name: each.read_bytes()
        for place in places
        for each in place.iterdir()
        if each.is_file()
    }
