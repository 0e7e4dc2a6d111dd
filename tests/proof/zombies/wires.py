"""Wires: what can happen to one HTTP request and its answer, and a client that does not give up.

The client sends bytes through the proxy under one fault, then repeats them, with the same key, over
a wire that works. Knows no server.
"""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.proof.proxy import Proxy
from tests.proof.zombies.wait_until import WAIT_SECONDS_MAX

#: How long the client waits for a wire that may be silent for ever.
SILENCE_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A whole answer."""

    status: int
    body: bytes
    is_to_be_repeated: bool


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is sent, byte for byte the same at every try."""

    path: str
    #: As the server calls itself: it looks at who it is meant for.
    host: str
    body: bytes
    headers: dict[str, str]

    def to_bytes(self) -> bytes:
        lines = [
            f"POST {self.path} HTTP/1.1",
            f"Host: {self.host}",
            f"Content-Length: {len(self.body)}",
            "Connection: close",
            *(f"{name}: {value}" for name, value in self.headers.items()),
        ]
        return "\r\n".join((*lines, "", "")).encode() + self.body


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One thing that happens to a request."""

    name: str
    #: Begins it, given how many bytes request and answer have.
    begin: Callable[[Proxy, int, int], None]
    #: Happens while the request is under way.
    during: Callable[[Proxy], None] | None = None
    #: Whether the server cannot have got the whole request.
    is_lost_on_the_way: bool = False
    #: Whether the client cannot have got the whole answer.
    breaks: bool = True


def ask(port: int, data: bytes, seconds: float) -> Answer | None:
    """Send a request once; None when the wire broke, or was silent, before the answer's end."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=seconds) as client:
            client.sendall(data)
            response = http.client.HTTPResponse(client, method="POST")
            response.begin()
            body = response.read()
    except (OSError, http.client.HTTPException):
        return None
    repeated = response.headers["retry-after"] is not None or response.status in (502, 503, 504)
    return Answer(status=response.status, body=body, is_to_be_repeated=repeated)


def weigh(port: int, data: bytes) -> int:
    """Return how many bytes a whole answer has, head and all."""
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS_MAX) as client:
        client.sendall(data)
        return len(b"".join(iter(lambda: client.recv(65536), b"")))


def insist(port: int, data: bytes) -> Answer:
    """Send it until it is answered."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while True:
        answer = ask(port, data, WAIT_SECONDS_MAX)
        if answer is not None and not answer.is_to_be_repeated:
            return answer
        assert time.monotonic() < deadline, answer
        time.sleep(0.01)


def send_under(fault: Fault, proxy: Proxy, data: bytes, answer_bytes: int) -> Answer | None:
    """Send it once while the fault lasts, and mend the wire."""
    fault.begin(proxy, len(data), answer_bytes)
    seconds = SILENCE_SECONDS if fault.breaks else WAIT_SECONDS_MAX
    if fault.during is None:
        answer = ask(proxy.port, data, seconds)
    else:
        answers: list[Answer | None] = []
        client = threading.Thread(target=lambda: answers.append(ask(proxy.port, data, seconds)))
        client.start()
        fault.during(proxy)
        client.join()
        (answer,) = answers
    proxy.pass_everything()
    return answer


def _dropped(of: str, name: str, count: Callable[[int], int], *, is_cut: bool) -> Fault:
    direction: Any = "request" if of == "request" else "answer"

    def begin(proxy: Proxy, request_bytes: int, answer_bytes: int) -> None:
        size = request_bytes if of == "request" else answer_bytes
        proxy.drop_after(count(size), direction, is_cut=is_cut)

    how = "cut" if is_cut else "silent"
    return Fault(
        name=f"{how} after {name} of the {of}",
        begin=begin,
        is_lost_on_the_way=of == "request",
    )


def _reset_soon(proxy: Proxy) -> None:
    """Reset what is open, as soon as something is."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not proxy.faults["reset"] and time.monotonic() < deadline:
        proxy.reset()
        time.sleep(0.001)
    proxy.faults["reset"] = 0


_PARTS: list[tuple[str, Callable[[int], int]]] = [
    ("nothing", lambda _: 0),
    ("one byte", lambda _: 1),
    ("50 bytes", lambda _: 50),
    ("half", lambda size: size // 2),
    # Not one: the number of a message may have a digit more than that of the one before.
    ("all but ten bytes", lambda size: size - 10),
]
FAULTS = [
    Fault(name="delayed", begin=lambda proxy, *_: proxy.delay(0.02), breaks=False),
    Fault(name="sent twice", begin=lambda proxy, *_: proxy.duplicate(), breaks=False),
    Fault(name="refused", begin=lambda proxy, *_: proxy.refuse(), is_lost_on_the_way=True),
    Fault(name="black", begin=lambda proxy, *_: proxy.blackhole(), is_lost_on_the_way=True),
    Fault(name="reset", begin=lambda *_: None, during=_reset_soon, breaks=False),
    *(_dropped(of, *part, is_cut=True) for of in ("request", "answer") for part in _PARTS),
    *(_dropped(of, *part, is_cut=False) for of in ("request", "answer") for part in _PARTS),
]
LOSING_NAMES = ("cut after half of the request", "cut after nothing of the answer")
QUICK_NAMES = (*LOSING_NAMES, "delayed", "sent twice", "reset", "cut after half of the answer")
#: The few of every test run.
QUICK_FAULTS = [each for each in FAULTS if each.name in QUICK_NAMES]
LOSING = [each for each in FAULTS if each.name in LOSING_NAMES]
