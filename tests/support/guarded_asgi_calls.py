"""Guarded ASGI calls: send raw ASGI messages to a request guard, and collect the responses."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onceward.errors.http_status import STATUS_OF_CODE
from onceward.http.guard import CSP, RESPONSE_HEADERS, GuardSettings
from onceward.http.login import LOGIN_PATH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PORT = 3939
TOKEN = "tok_6f1c2a7e"
HOST = ("host", f"127.0.0.1:{PORT}")
WITH_TOKEN = ("x-cm-lab-token", TOKEN)
JSON = ("content-type", "application/json")
Header = tuple[str, str | bytes]
FOLLOWED = (
    ("sec-fetch-site", "cross-site"),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-dest", "document"),
)


@dataclass
class Answer:
    """What came back."""

    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""

    def header(self, name: str) -> str | None:
        found = [value for found, value in self.headers if found == name]
        assert len(found) <= 1, (name, found)
        return found[0] if found else None

    @property
    def error(self) -> dict[str, Any]:
        shape = json.loads(self.body)
        assert list(shape) == ["error"]
        error: dict[str, Any] = shape["error"]
        assert list(error) == ["code", "message", "context"]
        return error


class Echo:
    """An application that reads the body and says how much it got; remembers who came."""

    def __init__(self, *headers: tuple[bytes, bytes]) -> None:
        self.headers = list(headers)
        self.calls: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.calls.append(scope["type"])
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            return
        size, more = 0, True
        while more:
            message = await receive()
            size += len(message.get("body", b""))
            more = message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": self.headers})
        await send({"type": "http.response.body", "body": b"%d" % size})


def is_owner(_: Scope) -> bool:
    """Take every caller for the user who runs the server."""
    return True


def settings(**changes: Any) -> GuardSettings:
    return GuardSettings(**{"port": PORT, "token": TOKEN, "is_owner": is_owner, **changes})


def scope_of(kind: str, method: str, target: str, headers: Sequence[Header]) -> Scope:
    path, _, query = target.partition("?")
    encoded = [
        (name.encode(), value if isinstance(value, bytes) else value.encode("latin-1"))
        for name, value in headers
    ]
    scope = {"type": kind, "path": path, "query_string": query.encode(), "headers": encoded}
    return {**scope, "method": method} if kind == "http" else scope


def send_to(
    guard: ASGIApp,
    method: str = "GET",
    target: str = "/",
    *headers: Header,
    chunks: Sequence[bytes] = (b"",),
) -> Answer:
    """Send one request, with its headers and chunks exactly as they are written here."""
    answer = Answer()
    waiting = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    waiting[-1]["more_body"] = False

    async def receive() -> Message:
        return waiting.pop(0) if waiting else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            assert not answer.status, "a second answer"
            answer.status = message["status"]
            answer.headers = [(name.decode(), value.decode()) for name, value in message["headers"]]
        else:
            answer.body += message.get("body", b"")

    asyncio.run(call(guard, scope_of("http", method, target, headers), receive, send))
    return answer


async def call(guard: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    await guard(scope, receive, send)


def connect(guard: ASGIApp, *headers: Header) -> list[Message]:
    """Ask for a websocket and return what was sent back."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(call(guard, scope_of("websocket", "", "/", headers), receive, send))
    return sent


def assert_refused(answer: Answer, code: str) -> None:
    """Check status, shape, fix and headers of a refusal."""
    assert (answer.status, answer.error["code"]) == (STATUS_OF_CODE[code], code)
    assert answer.error["message"]
    assert answer.error["context"]["fix"]
    assert answer.header("content-type") == "application/json"
    assert answer.header("content-length") == str(len(answer.body))
    assert answer.header("cache-control") == "no-store"
    assert_response_headers(answer)


def assert_response_headers(answer: Answer) -> None:
    """Check the headers that every answer carries."""
    for name, value in RESPONSE_HEADERS.items():
        assert answer.header(name.decode()) == value.decode()
    assert answer.header("content-security-policy") == CSP.decode()
    assert not [name for name, _ in answer.headers if name.startswith("access-control-")]


def log_in(guard: ASGIApp) -> Header:
    answer = send_to(guard, "POST", LOGIN_PATH, HOST, WITH_TOKEN)
    return ("cookie", str(answer.header("set-cookie")).partition(";")[0])
