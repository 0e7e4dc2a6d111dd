"""The documentation inside the server: Markdown pages of the project, rendered under `/manual/`.

URLs mirror the source tree, so that relative links work unchanged. The wheel contains the pages; a
checkout serves its own. Images are left out, and links to files that are not included become text.
"""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Iterator
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Response

from onceward.errors import NotFound
from onceward.http.built_pages import REVALIDATE

if TYPE_CHECKING:
    from markdown_it.token import Token

#: Path of the first page; the console links to it and to the tutorials.
HOME: Final = "docs/index.md"
#: The folders that the package build puts into the wheel, as in `pyproject.toml`.
_CARRIED: Final = "manual"
_FOLDERS: Final = ("tutorial", "how-to", "explanation", "reference")
_CHECKOUT: Final = Path(__file__).parents[3]


def manual_router(template: str) -> APIRouter:
    """Return the routes of the documentation; `template` is the HTML around each page."""
    router = APIRouter()

    def show(name: str) -> Response:
        pages = _pages()
        if name not in pages:
            message = f"the documentation has no page {name!r:.60}"
            raise NotFound(message, fix=f"start at /manual/{HOME}")
        title, body = _render(name, pages[name].read_text("utf-8"), frozenset(pages))
        page = template.replace("{{ title }}", html.escape(title)).replace("{{ content }}", body)
        return Response(page, media_type="text/html", headers=REVALIDATE)

    def home() -> Response:
        return Response(status_code=307, headers={"location": f"/manual/{HOME}"})

    methods = ["GET", "HEAD"]
    router.add_api_route("/manual", home, methods=methods, include_in_schema=False)
    router.add_api_route("/manual/{name:path}", show, methods=methods, include_in_schema=False)
    return router


@cache
def _pages() -> dict[str, Traversable]:
    """Return every page by its path in the source tree; empty if the build left them out."""
    carried = resources.files("onceward") / _CARRIED
    root = carried if carried.is_dir() else _CHECKOUT
    docs = root / "docs"
    found = dict(_markdown(root, ""))
    found |= _markdown(docs, "docs/")
    for folder in _FOLDERS:
        found |= _markdown(docs / folder, f"docs/{folder}/")
    return found if HOME in found else {}


def _markdown(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    if folder.is_dir():
        for each in folder.iterdir():
            if each.name.endswith(".md"):
                yield prefix + each.name, each


def _render(name: str, text: str, pages: frozenset[str]) -> tuple[str, str]:
    """Return the title and the body of a page as HTML."""
    from markdown_it import MarkdownIt  # noqa: PLC0415 - only a reader of the manual needs it

    markdown = MarkdownIt("commonmark").enable("table")
    tokens = markdown.parse(text)
    title = name
    for position, token in enumerate(tokens):
        if token.type == "heading_open":
            heading = tokens[position + 1].content
            token.attrSet("id", _anchor(heading))
            title = heading if token.tag == "h1" else title
        elif token.type == "inline" and token.children:
            token.children = [each for each in token.children if each.type != "image"]
            _unlink_missing(token.children, name, pages)
    return title, markdown.renderer.render(tokens, markdown.options, {})


def _unlink_missing(tokens: list[Token], name: str, pages: frozenset[str]) -> None:
    """Turn links to files that are not included into text: an `a` without `href`."""
    for token in tokens:
        path = str(token.attrs.get("href", "")).partition("#")[0]
        if path and "://" not in path:
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
            if target not in pages:
                token.attrs = {}


def _anchor(heading: str) -> str:
    """Return the anchor that code hosts give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
