"""The built pages: one document at every screen, assets that never change, or a plain page."""

import asyncio
import gzip

import httpx
from fastapi import FastAPI

from onceward.console.single_page_app import (
    SCREENS,
    Asset,
    not_found_page,
    plain_router,
    shell_router,
)
from onceward.http.errors import install_error_handlers

FILES = {
    "index.html": Asset(b"<!doctype html><title>x</title>", "text/html"),
    "main-AB12.js": Asset(b"export {}" * 50, "text/javascript"),
    "manifest.json": Asset(b"{}", ""),
}
FIXED = {"icon.svg": Asset(b"<svg/>", "image/svg+xml")}


def ask(app: FastAPI, path: str, **headers: str) -> httpx.Response:
    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get(path, headers=headers)

    return asyncio.run(send())


def shell() -> FastAPI:
    app = FastAPI(redirect_slashes=False)
    install_error_handlers(app)
    app.include_router(shell_router(FILES, FIXED))
    app.state.not_found_page = not_found_page(FILES)
    return app


def test_every_screen_is_the_same_document() -> None:
    """A deep link is answered with the shell, which browsers revalidate each time."""
    for path in SCREENS:
        filled = path.replace("{name:path}", "a/b%20c").replace("{", "").replace("}", "")
        response = ask(shell(), filled)
        assert (response.status_code, response.content) == (200, FILES["index.html"].plain), path
        assert response.headers["cache-control"] == "no-cache"


def test_built_assets_are_kept_for_ever_and_fixed_ones_are_not() -> None:
    """A name with a digest never means anything else."""
    assert "immutable" in ask(shell(), "/assets/main-AB12.js").headers["cache-control"]
    assert ask(shell(), "/assets/icon.svg").headers["cache-control"] == "no-cache"
    assert ask(shell(), "/favicon.ico").content == b"<svg/>"


def test_assets_are_packed_for_who_can_unpack_them() -> None:
    """Both ways give the same bytes, and `Vary` makes caches keep them apart."""
    packed = ask(shell(), "/assets/main-AB12.js", **{"accept-encoding": "gzip"})
    plain = ask(shell(), "/assets/main-AB12.js", **{"accept-encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == plain.content == FILES["main-AB12.js"].plain
    assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
    assert len(gzip.compress(plain.content)) < len(plain.content)


def test_what_is_no_asset_is_not_served() -> None:
    """Neither the document nor the list of files is found below the assets."""
    for name in ("index.html", "manifest.json", "nope.js", "..%2fapp.py"):
        assert ask(shell(), f"/assets/{name}").status_code == 404, name


def test_a_server_without_a_console_has_one_plain_page() -> None:
    """Screens are not there, and say so in our shape."""
    app = FastAPI()
    install_error_handlers(app)
    app.include_router(plain_router("<p>plain", FIXED))
    assert ask(app, "/").text == "<p>plain"
    assert ask(app, "/cursors").json()["error"]["code"] == "NOT_FOUND"


def test_a_browser_that_is_lost_gets_a_page_and_a_program_an_error() -> None:
    """Both get a 404, each in a form it can read."""
    page = ask(shell(), "/nowhere", accept="text/html,*/*")
    assert (page.status_code, page.content) == (404, FILES["index.html"].plain)
    for path, accept in (("/nowhere", "*/*"), ("/api/nowhere", "text/html")):
        response = ask(shell(), path, accept=accept)
        assert response.status_code == 404
        assert response.json()["error"]["code"] == "NOT_FOUND"
