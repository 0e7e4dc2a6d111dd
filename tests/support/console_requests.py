"""Ask the console's routers as a browser would: behind the guard, with the token."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx
from fastapi import APIRouter, FastAPI

from onceward.http.errors import install_error_handlers
from onceward.http.guard import GuardSettings, RequestGuard
from tests.support.openapi_document import assert_documented

PORT = 3939
TOKEN = "tok_1"
_keys = count(1)


class Asking:
    """Some routers behind the guard."""

    def __init__(self, *routers: APIRouter) -> None:
        app = FastAPI()
        install_error_handlers(app)
        for router in routers:
            app.include_router(router)
        self.app = app
        self._guard = RequestGuard(app, settings=GuardSettings(port=PORT, token=TOKEN))

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self._guard, raise_app_exceptions=True)
            base, headers = f"http://127.0.0.1:{PORT}", {"x-cm-lab-token": TOKEN}
            async with httpx.AsyncClient(
                transport=transport, base_url=base, headers=headers
            ) as client:
                return await client.request(method, path, **options)

        response = asyncio.run(send())
        assert_documented(response)
        return response

    def get(self, path: str, /, **query: Any) -> httpx.Response:
        return self.ask("GET", path, params=query)

    def body(self, path: str, /, **query: Any) -> Any:
        """Return what a question is answered, which must be a success that says when it was so."""
        response = self.get(path, **query)
        assert response.status_code == 200, response.text
        found = response.json()
        assert found["as_of"].endswith("Z")
        return found

    def pages(self, path: str, /, after: str | None = "", **query: Any) -> Iterator[list[Any]]:
        """Yield what is on each page of a list, until there is no next one."""
        while after is not None:
            found = self.body(path, after=after, **query)
            yield found["items"]
            after = found["next"]

    def act(self, path: str, key: str | None = "", /, **body: Any) -> httpx.Response:
        """Send a change, by default under a key of its own; None sends no key."""
        chosen = {} if key is None else {"idempotency-key": key or f"key-{next(_keys)}"}
        headers = {"content-type": "application/json", **chosen}
        return self.ask("POST", path, content=json.dumps(body), headers=headers)

    def done(self, path: str, key: str | None = "", /, **body: Any) -> Any:
        """Return what came of an action."""
        response = self.act(path, key, **body)
        assert response.status_code == 200, response.text
        return response.json()


def error_of(response: httpx.Response) -> tuple[int, str, str | None]:
    """Return status, code and field, having checked the shape."""
    error = response.json()["error"]
    assert list(error) == ["code", "message", "context"]
    assert error["context"]["fix"]
    return response.status_code, error["code"], error["context"].get("field")
