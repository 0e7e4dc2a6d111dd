"""Middleware calls: requests to an ASGI application, and handlers that have effects."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import httpx

from onceward.client import Onceward
from onceward.outcomes import IdempotencyMiddleware
from onceward.outcomes.http_request import AsgiApp, AsgiScope, Receive, Send

JSON = {"content-type": "application/json"}
#: What a handler under test answers: status, headers, body.
Answer = tuple[int, list[tuple[bytes, bytes]], bytes]
Handler = Callable[[AsgiScope, bytes], Awaitable[Answer]]
#: Pairs where one header comes several times.
Headers = Mapping[str, str] | Sequence[tuple[str, str]]


async def ask(  # noqa: PLR0913 - all of it named
    app: AsgiApp,
    path: str = "/charges",
    *,
    key: str | bytes | None = "k1",
    body: bytes = b'{"amount":5}',
    method: str = "POST",
    headers: Headers = (),
) -> httpx.Response:
    """Send one request; what the application raises is raised here."""
    pairs = [*headers.items()] if isinstance(headers, Mapping) else [*headers]
    named: list[tuple[Any, Any]] = pairs
    if "content-type" not in dict(pairs):
        named += JSON.items()
    if key is not None:
        named.append((b"Idempotency-Key", key if isinstance(key, bytes) else key.encode()))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop.test") as client:
        return await client.request(method, path, content=body, headers=named)


def call(app: AsgiApp, path: str = "/charges", **options: Any) -> httpx.Response:
    return asyncio.run(ask(app, path, **options))


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Check the one shape of our own answers, and return it."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    reported: dict[str, Any] = response.json()
    assert reported.keys() == {"type", "title", "status", "detail", "code", "fix"}
    assert (reported["status"], reported["code"]) == (status, code)
    assert reported["title"]
    assert reported["fix"]
    return reported


def answering(handler: Handler) -> AsgiApp:
    """Return an application whose every request goes to one handler."""

    async def app(scope: AsgiScope, receive: Receive, send: Send) -> None:
        body = (await receive())["body"]
        status, headers, content = await handler(scope, body)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    return app


class Shop:
    """An application that leaves one row for each request it carries out."""

    def __init__(self, ow: Onceward) -> None:
        self.ow = ow
        with ow.transaction() as tx:
            tx.execute("create table effects (note text)")
        #: How the next requests are answered.
        self.status = 201
        self.error: Exception | None = None

    def once(self, handler: Handler | None = None, **options: Any) -> IdempotencyMiddleware:
        app = answering(handler or self.charge)
        return IdempotencyMiddleware(app, store=self.ow, **options)

    async def charge(self, _scope: AsgiScope, body: bytes) -> Answer:
        """Have an effect that nothing can undo, then answer."""
        await asyncio.to_thread(self.leave, body.decode())
        return self.answer()

    async def charge_in_tx(self, scope: AsgiScope, body: bytes) -> Answer:
        """Have an effect in the transaction of the claim."""
        async with scope["onceward"].transaction() as tx:
            tx.execute("insert into effects values (?)", [body.decode()])
            return self.answer()

    def answer(self) -> Answer:
        if self.error is not None:
            raise self.error
        count = str(self.effects()).encode()
        headers = [(b"content-type", b"text/plain"), (b"x-order", count)]
        return self.status, headers, b"\xff order " + count

    def leave(self, note: str) -> None:
        with self.ow.transaction() as tx:
            tx.execute("insert into effects values (?)", [note])

    def effects(self) -> int:
        with self.ow.transaction() as tx:
            return int(tx.execute("select count(*) from effects")[0][0])
