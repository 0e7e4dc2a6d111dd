"""Serving: a web server that freezes inside an answer, while another one serves the retry.

Two servers of one store, each a process of its own. A client asks the first, which freezes; the
client's retry, with the same key, goes to the second. Woken, the first may answer what counts, or
ask to send it again; never anything else.
"""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from onceward.client import open as open_handle
from tests.proof.zombies.cells import ENGINES, LEASE_SECONDS, Cell, Place, Seen
from tests.proof.zombies.frozen import Child
from tests.proof.zombies.leasing import SILENCE_SECONDS
from tests.proof.zombies.wait_until import WAIT_SECONDS_MAX
from tests.support.middleware_server import main as serve

TABLE = "create table if not exists effects (note text)"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The response that a client got."""

    status: int
    body: bytes
    #: The process that did the work.
    server: str | None
    is_to_be_repeated: bool

    @property
    def is_charged(self) -> bool:
        """Say whether it tells that the order was charged."""
        return self.status == 201


class Server:
    """One server process, at an address of its own."""

    def __init__(self, url: str, on_crash: str, spec: str | None = None) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listening.getsockname()[1]
        words = (url, str(self._listening.fileno()), on_crash, str(LEASE_SECONDS))
        self.child = Child(lambda _: serve(*words), spec)

    def ask(self, path: str, key: str) -> Answer:
        """Send an order once."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS_MAX)
        headers = {"Idempotency-Key": key, "Content-Type": "text/plain", "Connection": "close"}
        connection.request("POST", path, body=key.encode(), headers=headers)
        given = connection.getresponse()
        body = given.read()
        connection.close()
        return Answer(
            status=given.status,
            body=body,
            server=given.headers["x-served-by"],
            is_to_be_repeated=given.headers["retry-after"] is not None,
        )

    def insist(self, path: str, key: str) -> Answer:
        """Send an order until it is answered, as a client does."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while (answer := self.ask(path, key)).is_to_be_repeated:
            assert time.monotonic() < deadline, answer
            time.sleep(0.01)
        return answer

    def close(self) -> None:
        self.child.kill()
        self._listening.close()


def freeze(  # noqa: PLR0913 - all by name
    place: Place, *, name: str, path: str, spec: str, on_crash: str, is_locked: bool, effects: int
) -> Seen:
    """Run one cell."""
    with open_handle(place.url) as ow, ow.transaction() as tx:
        tx.execute(TABLE)
    # Both before any thread is started here.
    first, second = Server(place.url, on_crash, spec), Server(place.url, on_crash)
    seen = Seen()
    with ThreadPoolExecutor(2) as pool:
        try:
            answers = exchanged(pool, (first, second), seen, partial_ask(path, name), is_locked)
        finally:
            first.close()
            second.close()
    judge(place, name, seen, answers, effects)
    return seen


def partial_ask(path: str, name: str) -> Callable[[Server], Answer]:
    """Return the client that insists on one order."""
    return lambda server: server.insist(path, name)


def exchanged(
    pool: ThreadPoolExecutor,
    servers: tuple[Server, Server],
    seen: Seen,
    insist: Callable[[Server], Answer],
    is_locked: bool,
) -> list[Answer]:
    """Let a client be left hanging, and repeat its request elsewhere."""
    first, second = servers
    hanging = pool.submit(insist, first)
    first.child.until_frozen()
    frozen_at = time.monotonic()
    retried: Future[Answer] = pool.submit(insist, second)
    if is_locked:
        # On SQLite the file, on PostgreSQL the row of the key: both stay locked.
        time.sleep(LEASE_SECONDS + SILENCE_SECONDS)
        assert not retried.done(), "another server wrote beside a frozen writer"
        seen.reached.append("waited for, and not done twice")
    else:
        response = retried.result(WAIT_SECONDS_MAX)
        seen.takeover_seconds = time.monotonic() - frozen_at
        seen.reached.append("answered by another while frozen")
        if not response.is_charged:
            assert (response.status, b'"AMBIGUOUS"' in response.body) == (409, True), response
            seen.reached.append("ambiguous, and not done twice")
            retried = pool.submit(lambda: response)
    first.child.wake()
    answers = [hanging.result(WAIT_SECONDS_MAX), retried.result(WAIT_SECONDS_MAX)]
    if not answers[0].is_charged:
        seen.refused.append(f"{answers[0].status}")
        seen.reached.append("refused after waking")
    # A repeated request gets the same response from every server.
    return [each for each in answers if each.is_charged] + [insist(first), insist(second)]


def judge(place: Place, name: str, seen: Seen, answers: list[Answer], effects: int) -> None:
    """Count effects, and make sure that all clients got the same response."""
    with open_handle(place.url) as ow, ow.transaction() as tx:
        rows = tx.execute("select note from effects where note = ?", [name])
    seen.work = min(1, len(rows))
    seen.lost = 1 - seen.work
    seen.repeated = effects - 1
    seen.doubled = len(rows) - seen.work - seen.repeated
    assert {(each.status, each.body) for each in answers} == {(201, f"charged {name}".encode())}
    assert len({each.server for each in answers}) == 1, answers
    assert (seen.lost, seen.doubled) == (0, 0), rows


def cell(  # noqa: PLR0913 - all by name
    name: str,
    path: str,
    point: str,
    *,
    on_crash: str = "ambiguous",
    is_locked: bool = False,
    effects: int = 1,
    is_quick: bool = False,
) -> Cell:
    """Return a cell of a server; `effects` is 2 where it was declared safe to rerun."""
    options: dict[str, Any] = {"on_crash": on_crash, "is_locked": is_locked, "effects": effects}
    run = partial(freeze, name=name, path=path, spec=f"{point}:1:stop", **options)
    return Cell(
        name=name,
        point=point,
        run=run,
        claims=("I1", "I3", "I5"),
        quick_on=ENGINES if is_quick else (),
    )


CELLS = [
    cell("http-before-commit", "/tx", "transaction.before_commit", is_locked=True),
    cell("http-after-commit", "/tx", "transaction.after_commit", is_quick=True),
    cell("http-may-rerun", "/plain", "outcome.finish.before_commit", on_crash="rerun", effects=2),
    cell("http-ambiguous", "/plain", "outcome.finish.before_commit"),
    cell("http-finished", "/plain", "outcome.finish.after_commit"),
]
