"""Lab HTTP client: call a Lab behind the request guard with the token, in process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from pydantic import BaseModel

from onceward.console.app import build_app
from onceward.http.guard import GuardSettings, RequestGuard
from onceward.lab.lab import Lab
from tests.support.labs import make_lab

PORT = 3939
TOKEN = "tok_6f1c2a7e"
OURS = f"http://127.0.0.1:{PORT}"


class Site:
    """A Lab behind the request guard, called with the token."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.directory = directory
        self.lab: Lab = make_lab(directory, **options)
        self.app: FastAPI = build_app(lab=self.lab)
        settings = GuardSettings(port=PORT, token=TOKEN, is_owner=lambda _: True)
        self.guard = RequestGuard(self.app, settings=settings)

    def client(self) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self.guard, raise_app_exceptions=True)
        headers = {"x-cm-lab-token": TOKEN}
        return httpx.AsyncClient(transport=transport, base_url=OURS, headers=headers)

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            async with self.client() as client:
                return await client.request(method, path, **options)

        return asyncio.run(send())

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.ask("GET", path, **options)

    def post(self, path: str, body: Any, request_id: str | None = None) -> httpx.Response:
        headers = {} if request_id is None else {"x-cm-lab-request-id": request_id}
        return self.ask("POST", path, json=body, headers=headers)

    def raw(self, path: str, body: bytes) -> httpx.Response:
        headers = {"content-type": "application/json"}
        return self.ask("POST", path, content=body, headers=headers)


def error_of(response: httpx.Response) -> tuple[int, str, dict[str, Any]]:
    """Return status, code and context, having checked the shape."""
    error = response.json()["error"]
    assert list(error) == ["code", "message", "context"]
    assert error["context"]["fix"]
    return response.status_code, error["code"], error["context"]


def body_of(response: httpx.Response, model: type[BaseModel]) -> Any:
    """Return the body of a success, having held it against what the document says of it."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    model.model_validate_json(response.content, strict=True)
    return response.json()
