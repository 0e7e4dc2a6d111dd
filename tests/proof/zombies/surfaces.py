"""Surfaces: servers that take requests under a key, each with a way to count what they did."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.journal import Journal
from tests.proof.zombies.wires import Answer, Request
from tests.support.chat_servers import ChatServer
from tests.support.labs import make_lab, make_run, submission

ROOT = Path(__file__).parent.parent.parent.parent


@dataclass(frozen=True, kw_only=True)
class Surface:
    """One kind of request to one server."""

    name: str
    port: int
    claims: tuple[str, ...]
    #: Returns the request under a key.
    request: Callable[[str], Request]
    #: Counts what was done under a key.
    effects: Callable[[str], int]
    #: Returns what must be the same in every answer under a key.
    essence: Callable[[Answer], object] = lambda answer: (answer.status, answer.body)


@contextmanager
def shop(url: str, path: str) -> Iterator[Surface]:
    """Serve orders with the middleware, their effects in the claim's transaction or apart."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=128)
    port = listening.getsockname()[1]
    with open_handle(url) as ow:
        with ow.transaction() as tx:
            tx.execute("create table if not exists effects (note text)")
        words = [url, str(listening.fileno()), "ambiguous", "60"]
        command = [sys.executable, "-m", "tests.support.middleware_server", *words]
        process = subprocess.Popen(
            command, pass_fds=[listening.fileno()], cwd=ROOT, env={**os.environ}
        )

        def request(key: str) -> Request:
            headers = {"Idempotency-Key": key, "Content-Type": "text/plain"}
            return Request(path=path, host="shop.test", body=key.encode(), headers=headers)

        def effects(key: str) -> int:
            with ow.transaction() as tx:
                return len(tx.execute("select note from effects where note = ?", [key]))

        try:
            yield Surface(
                name=f"the middleware{path}",
                port=port,
                claims=("I1", "I3", "I5"),
                request=request,
                effects=effects,
            )
        finally:
            process.kill()
            process.wait()
            listening.close()


@contextmanager
def up(url: str, directory: Path) -> Iterator[list[Surface]]:
    """Serve everything as `onceward up` does: conversations, the console and the Lab."""
    server = ChatServer(directory, "--allow-root", str(directory), store=url, words="up")
    server.add_group("team", prefix="@unused")
    with open_handle(url) as ow:
        ow.cursors.acquire("moved", "w")
        with server:
            host = server.url.removeprefix("http://")
            headers = {
                "Content-Type": "application/json",
                "x-cm-lab-token": server.token,
                "Origin": server.url,
            }
            yield [
                _chat(ow, host, headers),
                _console(ow, host, headers),
                _lab(server, host, headers, directory),
            ]


def _port(host: str) -> int:
    return int(host.rpartition(":")[2])


def _json(path: str, host: str, headers: dict[str, str], body: object) -> Request:
    return Request(path=path, host=host, body=json.dumps(body).encode(), headers=headers)


def _chat(ow: Onceward, host: str, headers: dict[str, str]) -> Surface:
    def request(key: str) -> Request:
        body = {"id": key, "sender": "ann", "text": f"said {key}"}
        return _json("/api/chat/team/messages", host, headers, body)

    def effects(key: str) -> int:
        return len(ow.store.select("select id from dispatch_messages where id = ?", [key]))

    return Surface(
        name="a message to a group",
        port=_port(host),
        claims=("X2", "I5"),
        request=request,
        effects=effects,
        # New the first time and known the next; its place is the same.
        essence=lambda answer: json.loads(answer.body)["seq"],
    )


def _console(ow: Onceward, host: str, headers: dict[str, str]) -> Surface:
    def request(key: str) -> Request:
        body = {"name": "moved", "position": key, "reason": key}
        own = {**headers, "Idempotency-Key": key}
        return _json("/api/cursors/seek", host, own, body)

    def effects(key: str) -> int:
        moves = [each for each in ow.cursors.history("moved", 1000) if each.reason == key]
        audited = ow.store.select("select id from onceward_audit where request_id = ?", [key])
        assert len(moves) == len(audited), (moves, audited)
        return len(moves)

    return Surface(
        name="an action of the console",
        port=_port(host),
        claims=("C1", "I5"),
        request=request,
        effects=effects,
        # Its receipt says whether this is a repeat.
        essence=lambda answer: json.dumps({**json.loads(answer.body), "receipt": None}),
    )


def _lab(server: ChatServer, host: str, headers: dict[str, str], directory: Path) -> Surface:
    def post(path: str, body: object) -> dict[str, str]:
        answer = server._client.post(f"{server.url}{path}", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        found: dict[str, str] = answer.json()
        return found

    runs = [
        post("/api/runs/import", {"path": str(make_run(directory, each))})["runId"]
        for each in ("one", "two")
    ]
    made: dict[str, str] = {}

    def request(key: str) -> Request:
        body = {"baselineRunId": runs[0], "variants": [{"runId": runs[1]}]}
        if key not in made:
            made[key] = post("/api/experiments", body)["experimentId"]
        judged = submission(make_lab(directory).experiment(made[key]))
        own = {**headers, "x-cm-lab-request-id": key}
        path = f"/api/experiments/{made[key]}/submit"
        return _json(path, host, own, judged.model_dump(mode="json", exclude_none=True))

    def effects(key: str) -> int:
        lines = Journal(directory / "feedback.jsonl").read().items
        mine = [each for each in lines if made[key] in json.dumps(each)]
        return len(mine) // len(runs)

    return Surface(
        name="a judgement of the Lab",
        port=_port(host),
        claims=("L1", "I5"),
        request=request,
        effects=effects,
    )
