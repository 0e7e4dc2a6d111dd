"""Guarded requests: send one HTTP request through the guard, and read its error."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx

from onceward.http.guard import GuardSettings, RequestGuard

if TYPE_CHECKING:
    from starlette.types import ASGIApp


PORT = 3939
TOKEN = "tok_6f1c2a7e"
#: Every caller is the user who runs the server by default.
OWNED: dict[str, Any] = {"port": PORT, "token": TOKEN, "is_owner": lambda _: True}
OURS = f"http://127.0.0.1:{PORT}"


def ask(
    app: ASGIApp,
    method: str,
    path: str,
    headers: dict[str, str] | None = None,
    content: bytes | None = None,
    **settings: Any,
) -> httpx.Response:
    """Send one request through the guard to the application."""
    guard = RequestGuard(app, settings=GuardSettings(**{**OWNED, **settings}))

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(guard, raise_app_exceptions=True)
        async with httpx.AsyncClient(transport=transport, base_url=OURS) as client:
            return await client.request(method, path, headers=headers, content=content)

    return asyncio.run(send())


def error_of(response: httpx.Response) -> dict[str, Any]:
    """Return the error, having checked its shape."""
    shape = response.json()
    assert list(shape) == ["error"]
    error: dict[str, Any] = shape["error"]
    assert list(error) == ["code", "message", "context"]
    assert error["context"]["fix"]
    return error
