"""The console's document: one at every screen, or a plain page."""

import asyncio

import httpx
from fastapi import FastAPI

from onceward.console.single_page_app import SCREENS, not_found_page, plain_router, shell_router
from onceward.http.built_pages import Asset
from onceward.http.errors import install_error_handlers

DOCUMENT = Asset(b"<!doctype html><title>x</title>", "text/html")
ASSETS = {"main-AB12.js": Asset(b"export {}" * 50, "text/javascript")}


def ask(app: FastAPI, path: str, **headers: str) -> httpx.Response:
    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get(path, headers=headers)

    return asyncio.run(send())


def shell() -> FastAPI:
    app = FastAPI(redirect_slashes=False)
    install_error_handlers(app)
    app.include_router(shell_router(DOCUMENT, ASSETS))
    app.state.not_found_page = not_found_page(DOCUMENT)
    return app


def test_every_screen_is_the_same_document() -> None:
    """A deep link is answered with the shell, which browsers revalidate each time."""
    for path in SCREENS:
        filled = path.replace("{name:path}", "a/b%20c").replace("{", "").replace("}", "")
        response = ask(shell(), filled)
        assert (response.status_code, response.content) == (200, DOCUMENT.plain), path
        assert response.headers["cache-control"] == "no-cache"


def test_a_server_without_a_console_has_one_plain_page() -> None:
    """Screens are not there, and say so in our shape; the Lab's page still finds its assets."""
    app = FastAPI()
    install_error_handlers(app)
    app.include_router(plain_router("<p>plain", ASSETS))
    assert ask(app, "/").text == "<p>plain"
    assert ask(app, "/assets/main-AB12.js").status_code == 200
    assert ask(app, "/cursors").json()["error"]["code"] == "NOT_FOUND"


def test_a_browser_that_is_lost_gets_a_page_and_a_program_an_error() -> None:
    """Both get a 404, each in a form it can read."""
    page = ask(shell(), "/nowhere", accept="text/html,*/*")
    assert (page.status_code, page.content) == (404, DOCUMENT.plain)
    for path, accept in (("/nowhere", "*/*"), ("/api/nowhere", "text/html")):
        response = ask(shell(), path, accept=accept)
        assert response.status_code == 404
        assert response.json()["error"]["code"] == "NOT_FOUND"
