"""Connections: a server asks the kernel once per connection which user opened it."""

import asyncio
import socket

import httpx
import pytest
from starlette.types import Receive, Scope, Send
from uvicorn import Config, Server

from onceward.cli import peer_connections
from onceward.cli.peer_connections import PeerAwareProtocol
from onceward.http.guard import PEER_UID


async def noted_uid(scope: Scope, _: Receive, send: Send) -> None:
    """Answer with the user id that the request came with."""
    body = str(scope["state"][PEER_UID]).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def test_h65_a_connection_costs_one_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later requests of a connection are its user's; another connection is asked about again."""
    lookups: list[int] = []

    def uid_of_peer(_: socket.socket) -> int:
        lookups.append(1)
        return 4000 + len(lookups)

    monkeypatch.setattr(peer_connections, "uid_of_peer", uid_of_peer)

    async def ask() -> list[list[str]]:
        config = Config(noted_uid, http=PeerAwareProtocol, lifespan="off", log_level="error")
        server = Server(config)
        answers = []
        with socket.create_server(("127.0.0.1", 0)) as listener:
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
            for _ in range(2):
                async with httpx.AsyncClient(trust_env=False, timeout=120) as client:
                    answers.append([(await client.get(url)).text for _ in range(5)])
            server.should_exit = True
            await serving
        return answers

    assert asyncio.run(ask()) == [["4001"] * 5, ["4002"] * 5]
