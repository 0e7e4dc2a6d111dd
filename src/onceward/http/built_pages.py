"""Built pages: serve the HTML documents that the package build makes from `web/`, and their assets.

`web/build.mjs` writes one document per application: `index.html` is the console's, `lab.html` the
Lab's, `chat.html` the conversations'. All share the assets under `/assets/`. They are never
committed; without them, a plain page explains how to build them.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import Final

from fastapi import APIRouter, Request, Response

from onceward.errors import NotFound

#: Folder of the built files, in this package.
BUILT: Final = "built"
#: Browsers revalidate documents each time, so that no page mixes two versions.
REVALIDATE: Final = {"cache-control": "no-cache"}
#: Names of built assets contain a digest of their content, so responses never change.
FOREVER: Final = {"cache-control": "public, max-age=31536000, immutable"}
_METHODS: Final = ["GET", "HEAD"]
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
#: Page in place of a document that is not built.
_UNBUILT: Final = "unbuilt.html"


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


def built_document(name: str) -> Asset | None:
    """Return a built document, or None if the pages are not built."""
    found = _built() / name
    return Asset(found.read_bytes(), "text/html") if found.is_file() else None


def built_assets() -> dict[str, Asset]:
    """Return what the built documents load, by name; empty if the pages are not built."""
    folder = _built() / "assets"
    return read_assets(folder.iterdir() if folder.is_dir() else ())


def read_assets(files: Iterable[Traversable]) -> dict[str, Asset]:
    """Return those of the files that a page can load, by name."""
    kinds = ((each, _TYPES.get(PurePosixPath(each.name).suffix)) for each in files)
    return {each.name: Asset(each.read_bytes(), kind) for each, kind in kinds if kind}


def add_document(router: APIRouter, name: str, *, at: Iterable[str]) -> None:
    """Serve one built document at several paths, or a page that explains how to build it."""
    found = built_document(name)
    if found is None:
        page = resources.files(__package__) / "pages" / _UNBUILT
        found = Asset(page.read_bytes(), "text/html")
    document = found

    async def show(request: Request) -> Response:
        return document.answer(request, REVALIDATE)

    for path in at:
        router.add_api_route(path, show, methods=_METHODS, include_in_schema=False)


def add_assets(router: APIRouter, built: Mapping[str, Asset], fixed: Mapping[str, Asset]) -> None:
    """Serve assets under `/assets/`; names of the `fixed` ones contain no digest."""
    served = {**built, **fixed}

    async def asset(name: str, request: Request) -> Response:
        if name not in served:
            message = f"there is no asset {name[:60]!r}; the page may be of another version"
            raise NotFound(message, fix="reload the page")
        return served[name].answer(request, REVALIDATE if name in fixed else FOREVER)

    async def favicon(request: Request) -> Response:
        return await asset("icon.svg", request)

    router.add_api_route("/assets/{name}", asset, methods=_METHODS, include_in_schema=False)
    router.add_api_route("/favicon.ico", favicon, methods=_METHODS, include_in_schema=False)


def _built() -> Traversable:
    return resources.files(__package__) / BUILT
