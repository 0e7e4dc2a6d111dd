"""Cuts: connections that break and servers that die, anywhere between a request and its answer.

Whatever is cut, a client that repeats the request with its key gets one effect and one answer.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle

ROOT = Path(__file__).parent.parent.parent
ANSWER_SECONDS_MAX = 60
#: Short, so that a dead server's claims expire while a client retries.
LEASE_SECONDS = 0.3
BODY = b"order-1"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Server:
    """A uvicorn process that can be killed and started again at the same address."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = self._listening.getsockname()
        self._process: subprocess.Popen[bytes] | None = None

    def start(
        self, on_crash: str = "ambiguous", *, crash: str = "", lease_seconds: float = LEASE_SECONDS
    ) -> None:
        """Start it; clients may connect at once and wait until it accepts."""
        descriptor = self._listening.fileno()
        words = [self.url, str(descriptor), on_crash, str(lease_seconds)]
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.support.middleware_server", *words],
            pass_fds=[descriptor],
            cwd=ROOT,
            env={**os.environ, "ONCEWARD_CRASH": crash},
        )

    def wait_killed(self) -> None:
        assert self._process is not None
        assert self._process.wait(ANSWER_SECONDS_MAX) == -signal.SIGKILL

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._listening.close()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=ANSWER_SECONDS_MAX)

    def ask(self, path: str, *, key: str = "k1") -> Answer | None:
        """Send a request; None when the connection broke before an answer."""
        with self.connect() as client:
            client.sendall(request(path, key))
            try:
                received = b"".join(iter(lambda: client.recv(65536), b""))
            except ConnectionResetError:
                return None
        return parsed(received) if received else None

    def insist(self, path: str, *, key: str = "k1") -> Answer:
        """Send it until there is an answer that does not ask to come back, as a client would."""
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while time.monotonic() < deadline:
            answer = self.ask(path, key=key)
            if answer is not None and "retry-after" not in answer.headers:
                return answer
        pytest.fail("no answer in time")


def request(path: str, key: str) -> bytes:
    lines = (
        f"POST {path} HTTP/1.1",
        "Host: shop.test",
        f"Idempotency-Key: {key}",
        "Content-Type: text/plain",
        f"Content-Length: {len(BODY)}",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + BODY


def parsed(received: bytes) -> Answer:
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return Answer(int(first.split()[1]), headers, body)


@pytest.fixture
def handle(ow_url: str) -> Iterator[Onceward]:
    with open_handle(ow_url) as opened:
        with opened.transaction() as tx:
            tx.execute("create table effects (note text)")
        yield opened


@pytest.fixture
def server(ow_url: str, handle: Onceward) -> Iterator[Server]:
    assert handle.store.applied()
    made = Server(ow_url)
    yield made
    made.close()


def effects(ow: Onceward) -> int:
    with ow.transaction() as tx:
        return int(tx.execute("select count(*) from effects")[0][0])


def check_done(server: Server, ow: Onceward, path: str) -> None:
    """Retry until done, then once more: one effect, one answer."""
    answer = server.insist(path)
    again = server.insist(path)
    assert answer.status == again.status == 201
    assert answer.body == again.body == b"charged order-1"
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers["x-served-by"] == answer.headers["x-served-by"]
    assert effects(ow) == 1


@pytest.mark.parametrize("path", ["/plain", "/tx"])
def test_connections_cut_anywhere(server: Server, handle: Onceward, path: str) -> None:
    """After some of the headers, all of them, half the body, or before the answer."""
    server.start(lease_seconds=60)
    whole = request(path, "k1")
    for length in (30, len(whole) - len(BODY), len(whole) - 3):
        with server.connect() as client:
            client.sendall(whole[:length])
    assert server.ask(path, key="other") is not None
    assert effects(handle) == 1, "what was cut before its end has not happened"
    with handle.transaction() as tx:
        tx.execute("delete from effects")
    with server.connect() as client:
        client.sendall(whole)
    check_done(server, handle, path)


@pytest.mark.parametrize("path", ["/plain", "/tx"])
def test_the_same_request_many_times_at_once(server: Server, handle: Onceward, path: str) -> None:
    """Eight clients send one request on eight connections: one effect, eight equal answers."""
    server.start(lease_seconds=60)
    answers: list[Answer] = []
    clients = [
        threading.Thread(target=lambda: answers.append(server.insist(path))) for _ in range(8)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert {(answer.status, answer.body) for answer in answers} == {(201, b"charged order-1")}
    assert len(answers) == 8
    assert effects(handle) == 1


@pytest.mark.parametrize(
    ("on_crash", "crash"),
    [
        ("rerun", "outcome.claim.before_commit:1"),
        ("rerun", "outcome.claim.after_commit:1"),
        ("rerun", "transaction.before_commit:1"),
        ("rerun", "transaction.after_commit:1"),
        ("ambiguous", "outcome.claim.before_commit:1"),
        ("ambiguous", "outcome.claim.after_commit:2"),
        ("ambiguous", "transaction.before_commit:1"),
        ("ambiguous", "transaction.after_commit:1"),
    ],
)
def test_a_server_killed_around_its_transaction(
    server: Server, handle: Onceward, on_crash: str, crash: str
) -> None:
    """With effects in the transaction a repeat always ends in one effect and one answer."""
    server.start(on_crash, crash=crash)
    assert server.ask("/tx") is None
    server.wait_killed()
    assert effects(handle) == (crash == "transaction.after_commit:1")
    server.start(on_crash)
    check_done(server, handle, "/tx")


@pytest.mark.parametrize(
    ("crash", "had_effect"),
    [
        ("outcome.claim.after_commit:1", False),
        ("outcome.finish.before_commit:1", True),
    ],
)
def test_a_server_killed_with_effects_that_no_store_can_see(
    server: Server, handle: Onceward, crash: str, *, had_effect: bool
) -> None:
    """Without a transaction it is ambiguous, happened or not, until an operator decides."""
    server.start(crash=crash)
    assert server.ask("/plain") is None
    server.wait_killed()
    server.start()
    ambiguous = server.insist("/plain")
    assert ambiguous.status == 409
    assert b'"AMBIGUOUS"' in ambiguous.body
    assert effects(handle) == had_effect
    verdict = {"done": "seen"} if had_effect else {"not_done": True}
    handle.outcomes.reconcile("charge", "k1", actor="ada", reason="looked", **verdict)
    answer = server.insist("/plain")
    assert (answer.status, answer.body) == (
        (200, b'"seen"') if had_effect else (201, b"charged order-1")
    )
    assert effects(handle) == 1


def test_a_server_killed_after_the_answer_was_recorded(server: Server, handle: Onceward) -> None:
    """The client never saw the answer; the next server gives it."""
    server.start(crash="outcome.finish.after_commit:1")
    assert server.ask("/plain") is None
    server.wait_killed()
    server.start()
    check_done(server, handle, "/plain")
