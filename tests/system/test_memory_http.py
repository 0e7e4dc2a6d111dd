"""The memory server over HTTP: behind the guard, with a token, for concurrent clients."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.session import IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation, ResourceUpdatedNotification

from onceward.http.token_file import read_token
from tests.support.mcp_clients import (
    COMMAND,
    GRAPH,
    STOP_SECONDS_MAX,
    TOKEN,
    data,
    entity,
    http_server,
    refusal,
    relation,
    store_in,
)

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    },
}
ACCEPT = {"accept": "application/json, text/event-stream"}
WITH_TOKEN = {**ACCEPT, "authorization": f"Bearer {TOKEN}"}


@contextlib.asynccontextmanager
async def client(
    url: str, *, mode: str = "auto", heard: asyncio.Event | None = None
) -> AsyncIterator[Client]:
    async def keep(message: IncomingMessage) -> None:
        if heard is not None and isinstance(message, ResourceUpdatedNotification):
            heard.set()

    headers = {"authorization": f"Bearer {TOKEN}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http:
        wire = streamable_http_client(f"{url}/mcp", http_client=http)
        info = Implementation(name="http client", version="1")
        async with Client(wire, mode=mode, message_handler=keep, client_info=info) as connected:
            yield connected


def post(url: str, headers: dict[str, str], body: object = INITIALIZE) -> httpx.Response:
    return httpx.post(f"{url}/mcp", json=body, headers=headers, trust_env=False, timeout=60)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_clients_share_one_memory_over_http(tmp_path: Path, mode: str) -> None:
    """Two clients at once write and read the same graph, each under its own name."""

    async def main(url: str) -> None:
        async with client(url, mode=mode) as one, client(url, mode=mode) as other:
            names = [f"e{number}" for number in range(20)]
            await asyncio.gather(
                *(
                    data((one, other)[number % 2], "create_entities", entities=[entity(name)])
                    for number, name in enumerate(names)
                )
            )
            await data(other, "create_relations", relations=[relation("e0", "e1")])
            graph = await data(one, "read_graph")
            assert {each["name"] for each in graph["entities"]} == set(names)
            assert graph["relations"] == [relation("e0", "e1")]
            refused = await refusal(one, "create_relations", relations=[relation("e0", "ghost")])
            assert "'ghost'" in refused
            assert "mcp:http client" in str(await data(one, "explain", name="e0"))

    with http_server(tmp_path) as (url, process):
        asyncio.run(main(url))
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=STOP_SECONDS_MAX)
    assert (process.returncode, out) == (0, "")
    assert err.endswith("stopped\n")


@pytest.mark.filterwarnings("ignore:resources/subscribe is removed")
def test_a_change_by_one_client_notifies_another(tmp_path: Path) -> None:
    """Subscribed in the older protocol, listening in the newer one: both hear of it."""
    heard = asyncio.Event()

    async def main(url: str) -> None:
        async with (
            client(url, mode="legacy", heard=heard) as old,
            client(url) as new,
            new.listen(resource_subscriptions=[GRAPH]) as events,
        ):
            await old.subscribe_resource(GRAPH)
            await data(new, "create_entities", entities=[entity("a")])
            with anyio.fail_after(20):
                event = await anext(aiter(events))
                assert str(getattr(event, "uri", "")) == GRAPH
                await heard.wait()

    with http_server(tmp_path) as (url, _):
        asyncio.run(main(url))


def test_requests_without_the_token_or_from_another_site_are_rejected(tmp_path: Path) -> None:
    """No token 401, a foreign Host 421, a foreign Origin 403, no JSON 415; all in our one shape."""
    with http_server(tmp_path) as (url, _):
        port = url.rpartition(":")[2]
        cases: list[tuple[int, str, dict[str, str]]] = [
            (401, "UNAUTHORIZED", ACCEPT),
            (401, "UNAUTHORIZED", {**ACCEPT, "authorization": "Bearer wrong"}),
            (421, "MISDIRECTED", {**WITH_TOKEN, "host": "evil.test"}),
            (421, "MISDIRECTED", {**WITH_TOKEN, "host": f"evil.test:{port}"}),
            (421, "MISDIRECTED", {**WITH_TOKEN, "host": f"127.0.0.1.evil.test:{port}"}),
            (403, "FORBIDDEN", {**WITH_TOKEN, "origin": "http://evil.test"}),
            (403, "FORBIDDEN", {**WITH_TOKEN, "origin": "null"}),
            (403, "FORBIDDEN", {**WITH_TOKEN, "sec-fetch-site": "cross-site"}),
            (415, "UNSUPPORTED_MEDIA_TYPE", {**WITH_TOKEN, "content-type": "text/plain"}),
        ]
        for status, code, headers in cases:
            answer = post(url, headers)
            assert answer.status_code == status, (headers, answer.text)
            assert answer.json()["error"]["code"] == code
            assert answer.json()["error"]["context"]["fix"]
        for host in ("localhost", "127.0.0.1", "[::1]"):
            answer = post(url, {**WITH_TOKEN, "host": f"{host}:{port}"})
            assert answer.status_code == 200, answer.text
            assert answer.headers["x-content-type-options"] == "nosniff"
        assert httpx.get(f"{url}/healthz", trust_env=False, timeout=60).json()["status"] == "ok"
        missing = httpx.get(f"{url}/nothing", trust_env=False, timeout=60)
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "NOT_FOUND")


def test_broken_requests_get_an_answer_and_never_a_500(tmp_path: Path) -> None:
    """What is no JSON, too deep, too large or for no session is refused; the next one is served."""
    with http_server(tmp_path) as (url, process):
        bodies = [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"jsonrpc":"2.0","id":1}', b"null"]
        for body in bodies:
            headers = {**WITH_TOKEN, "content-type": "application/json"}
            answer = httpx.post(
                f"{url}/mcp", content=body, headers=headers, trust_env=False, timeout=60
            )
            assert 400 <= answer.status_code < 500, (body[:20], answer.text)
        large = post(url, WITH_TOKEN, {**INITIALIZE, "x": "x" * (9 * 1024 * 1024)})
        assert (large.status_code, large.json()["error"]["code"]) == (413, "TOO_LARGE")
        lost = post(url, {**WITH_TOKEN, "mcp-session-id": "unknown"})
        assert lost.status_code == 404
        for method in ("GET", "DELETE", "PUT", "PATCH"):
            answer = httpx.request(
                method, f"{url}/mcp", headers=WITH_TOKEN, trust_env=False, timeout=60
            )
            assert 400 <= answer.status_code < 500, (method, answer.text)
        assert post(url, WITH_TOKEN).status_code == 200
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=STOP_SECONDS_MAX)
    assert (process.returncode, "Traceback" in err) == (0, False), err


def test_a_waiting_client_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """A stream that is open when the signal comes is closed; the server ends within seconds."""

    async def main(url: str, stop: Any) -> None:
        async with client(url, mode="legacy") as connected:
            await data(connected, "read_graph")
            stop()
            with contextlib.suppress(Exception):
                await data(connected, "read_graph")

    with http_server(tmp_path) as (url, process):
        with contextlib.suppress(Exception):
            asyncio.run(main(url, lambda: process.send_signal(signal.SIGTERM)))
        _, err = process.communicate(timeout=STOP_SECONDS_MAX)
    assert (process.returncode, "Traceback" in err) == (0, False), err


def test_other_machines_need_the_token_for_everything(tmp_path: Path) -> None:
    """With --allow-external even reading wants the token, and an address is as good as a name."""
    with http_server(tmp_path, "--host", "127.0.0.1", "--allow-external") as (url, _):
        assert httpx.get(f"{url}/healthz", trust_env=False, timeout=60).status_code == 401
        assert (
            httpx.get(f"{url}/mcp", headers=ACCEPT, trust_env=False, timeout=60).status_code == 401
        )
        port = url.rpartition(":")[2]
        answer = post(url, {**WITH_TOKEN, "host": f"192.0.2.7:{port}"})
        assert answer.status_code == 200, answer.text
        assert post(url, {**WITH_TOKEN, "host": f"evil.test:{port}"}).status_code == 421


def test_the_users_token_is_taken_and_a_weak_one_is_refused(tmp_path: Path) -> None:
    """Without a token in the environment it is that of all servers of this user, never printed."""
    with http_server(tmp_path, token="") as (url, process):
        token = read_token()
        assert token is not None
        assert post(url, {**ACCEPT, "authorization": f"Bearer {token}"}).status_code == 200
        assert post(url, WITH_TOKEN).status_code == 401
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=STOP_SECONDS_MAX)
    assert token not in out + err
    assert "onceward token show" in err
    done = subprocess.run(
        [*COMMAND, "--http", "--port", "0", "--no-open", "--store", store_in(tmp_path)],
        env={**os.environ, "ONCEWARD_MEMORY_TOKEN": "short"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "ONCEWARD_MEMORY_TOKEN" in done.stderr


def test_odd_request_ids_and_broken_text_are_refused_over_http(tmp_path: Path) -> None:
    """As on stdin: an id that cannot be answered is an invalid request, never silence."""
    with http_server(tmp_path) as (url, _):
        odds: list[object] = [1.5, True, None, [], {}]
        for odd in odds:
            answer = post(url, WITH_TOKEN, {**INITIALIZE, "id": odd})
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32600), odd
        body = json.dumps({**INITIALIZE, "params": {"half": "\ud800"}})
        headers = {**WITH_TOKEN, "content-type": "application/json"}
        answer = httpx.post(f"{url}/mcp", content=body, headers=headers, trust_env=False)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32602)
        assert answer.json()["id"] == 1
        assert post(url, WITH_TOKEN).status_code == 200
