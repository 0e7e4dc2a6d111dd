"""The built pages: documents that are revalidated, assets that never change, or a notice."""

import asyncio
import gzip
from pathlib import Path

import httpx
import pytest
from fastapi import APIRouter, FastAPI

from onceward.http import built_pages
from onceward.http.built_pages import Asset, add_assets, add_document, built_assets
from onceward.http.errors import install_error_handlers

ASSETS = {"main-AB12.js": Asset(b"export {}" * 50, "text/javascript")}
FIXED = {"icon.svg": Asset(b"<svg/>", "image/svg+xml")}


def ask(router: APIRouter, path: str, **headers: str) -> httpx.Response:
    app = FastAPI()
    install_error_handlers(app)
    app.include_router(router)

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get(path, headers=headers)

    return asyncio.run(send())


@pytest.fixture
def assets() -> APIRouter:
    """Routes of one built and one fixed asset."""
    router = APIRouter()
    add_assets(router, ASSETS, FIXED)
    return router


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory in place of the built files."""
    monkeypatch.setattr(built_pages, "_built", lambda: tmp_path)
    return tmp_path


def test_built_assets_are_kept_for_ever_and_fixed_ones_are_not(assets: APIRouter) -> None:
    """A name with a digest never means anything else."""
    assert "immutable" in ask(assets, "/assets/main-AB12.js").headers["cache-control"]
    assert ask(assets, "/assets/icon.svg").headers["cache-control"] == "no-cache"
    assert ask(assets, "/favicon.ico").content == b"<svg/>"


def test_assets_are_packed_for_who_can_unpack_them(assets: APIRouter) -> None:
    """Both ways give the same bytes, and `Vary` makes caches keep them apart."""
    packed = ask(assets, "/assets/main-AB12.js", **{"accept-encoding": "gzip"})
    plain = ask(assets, "/assets/main-AB12.js", **{"accept-encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == plain.content == ASSETS["main-AB12.js"].plain
    assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
    assert len(gzip.compress(plain.content)) < len(plain.content)


def test_only_assets_are_served_as_assets(built: Path) -> None:
    """Neither a document nor the list of files is found below the assets."""
    (built / "assets").mkdir()
    for name in ("lab.html", "manifest.json", "assets/a.js", "assets/a.map"):
        (built / name).write_text("x")
    router = APIRouter()
    add_assets(router, built_assets(), {})
    assert ask(router, "/assets/a.js").headers["content-type"].startswith("text/javascript")
    for name in ("lab.html", "manifest.json", "a.map", "nope.js", "..%2flab.html"):
        assert ask(router, f"/assets/{name}").status_code == 404, name


def test_a_document_is_served_at_each_of_its_paths(built: Path) -> None:
    """The script of the document looks at the path; browsers revalidate the document."""
    (built / "lab.html").write_text("<p>lab")
    router = APIRouter()
    add_document(router, "lab.html", at=("/lab", "/lab/review/{run_id}"))
    for path in ("/lab", "/lab/review/run_1"):
        response = ask(router, path)
        assert (response.status_code, response.text) == (200, "<p>lab")
        assert response.headers["cache-control"] == "no-cache"


@pytest.mark.usefixtures("built")
def test_without_built_pages_a_notice_says_how_to_build_them() -> None:
    """The server starts all the same, and its page names the command."""
    router = APIRouter()
    add_document(router, "lab.html", at=("/lab",))
    assert built_assets() == {}
    response = ask(router, "/lab")
    assert response.status_code == 200
    assert "<code>make web</code>" in response.text
