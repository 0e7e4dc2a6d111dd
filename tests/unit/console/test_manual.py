"""The documentation inside the server: every page renders, and every link leads somewhere."""

import asyncio
import posixpath
import re

import httpx
from fastapi import FastAPI

from onceward.console.app import build_app
from onceward.console.manual import HOME

HREF = re.compile(r'<a href="([^"]+)"')
PICTURE_TAGS = ("<img", "<svg")


def pages(app: FastAPI, start: str) -> dict[str, str]:
    """Return the body of every page that can be reached from `start`, by address."""

    async def crawl() -> dict[str, str]:
        transport = httpx.ASGITransport(app=app)
        found: dict[str, str] = {}
        left = [start]
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            while left:
                address = left.pop()
                if address in found:
                    continue
                response = await client.get(address)
                assert response.status_code == 200, address
                found[address] = response.text.partition("<main")[2]
                left += linked(address, found[address])
        return found

    return asyncio.run(crawl())


def linked(address: str, body: str) -> list[str]:
    """Return the addresses of this server that a page links to, without their anchors."""
    paths = [href.partition("#")[0] for href in HREF.findall(body) if "://" not in href]
    return [posixpath.normpath(posixpath.join(posixpath.dirname(address), p)) for p in paths if p]


def test_every_page_is_reached_and_every_link_leads_to_a_page() -> None:
    """A reader who starts at the first page finds the tutorials, and no dead link."""
    found = pages(build_app(), f"/manual/{HOME}")
    assert {
        "/manual/docs/tutorial/workers.md",
        "/manual/docs/how-to/install.md",
        "/manual/GUARANTEES.md",
    } <= found.keys()
    assert not [where for where, body in found.items() if any(t in body for t in PICTURE_TAGS)]


def test_anchors_within_the_pages_exist() -> None:
    """A link to a heading lands on that heading."""
    found = pages(build_app(), f"/manual/{HOME}")
    for address, body in found.items():
        for href in HREF.findall(body):
            path, _, anchor = href.partition("#")
            if anchor and "://" not in path:
                place = posixpath.normpath(posixpath.join(posixpath.dirname(address), path))
                target = found[place if path else address]
                assert f'id="{anchor}"' in target, (address, href)


def test_a_missing_page_is_reported_with_the_way_back() -> None:
    """Neither a file of the tree nor one above it is shown."""

    async def ask(path: str) -> httpx.Response:
        transport = httpx.ASGITransport(app=build_app())
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get(path)

    for path in ("docs/nothing.md", "pyproject.toml", "../pyproject.toml", "docs/../LICENSE"):
        answer = asyncio.run(ask(f"/manual/{path.replace('..', '%2e%2e')}"))
        assert answer.status_code == 404, path
    missing = asyncio.run(ask("/manual/docs/nothing.md")).json()["error"]
    assert HOME in missing["context"]["fix"]
    assert asyncio.run(ask("/manual")).headers["location"] == f"/manual/{HOME}"
