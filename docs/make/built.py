"""Find dead links and requests to other hosts in the pages of a built site, offline."""

import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

#: What a browser fetches by itself, and the attribute that names it.
_FETCHED: Final = {
    "audio": "src",
    "embed": "src",
    "iframe": "src",
    "img": "src",
    "link": "href",
    "object": "data",
    "script": "src",
    "source": "src",
    "track": "src",
    "video": "src",
}
_CSS_URL: Final = re.compile(r"""(?:url\(|@import\s)["']?([^"')\s]+)""")


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value is not None}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in _FETCHED and _FETCHED[tag] in given:
            self.fetched.append(given[_FETCHED[tag]])


@cache
def _read(file: Path) -> _Page:
    page = _Page()
    page.feed(file.read_text(encoding="utf-8"))
    return page


def wrong(site: Path) -> Iterator[str]:
    """Yield a sentence for every link that leads nowhere, and every request to another host."""
    for file in sorted(site.rglob("*.html")):
        page = _read(file)
        for link in (*page.links, *page.fetched):
            if fault := _dead(file, link):
                yield f"{file.relative_to(site)}: {link}: {fault}"
        for link in page.fetched:
            if _is_elsewhere(link):
                yield f"{file.relative_to(site)}: {link}: is fetched from another host"
    for file in sorted(site.rglob("*.css")):
        for link in _CSS_URL.findall(file.read_text(encoding="utf-8")):
            if _is_elsewhere(link):
                yield f"{file.relative_to(site)}: {link}: is fetched from another host"


def _is_elsewhere(link: str) -> bool:
    parts = urlsplit(link)
    return bool(parts.netloc) or parts.scheme not in ("", "data")


def _dead(file: Path, link: str) -> str | None:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        return "does not exist"
    anchor = unquote(parts.fragment)
    if anchor and target.suffix == ".html" and anchor not in _read(target).anchors:
        return "nothing there has this anchor"
    return None
