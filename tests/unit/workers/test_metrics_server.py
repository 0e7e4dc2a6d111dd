"""The metrics server of a worker: one page, for this machine, whoever else asks."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import httpx
import pytest

from onceward.errors import InvalidArgument
from onceward.workers import http as http_module
from onceward.workers.http import serve_metrics
from onceward.workers.metrics import CONTENT_TYPE


@pytest.fixture
def url() -> Iterator[str]:
    """A server whose page is one line."""
    with serve_metrics(0, lambda: b"up 1\n") as address:
        yield address


def ask(method: str, url: str, **headers: str) -> httpx.Response:
    with httpx.Client(trust_env=False) as client:
        return client.request(method, url, headers=headers)


def test_the_page_is_served_here(url: str) -> None:
    """As Prometheus wants it, to this machine."""
    assert url.startswith("http://127.0.0.1:")
    answer = ask("GET", url)
    assert (answer.status_code, answer.text) == (200, "up 1\n")
    assert answer.headers["content-type"] == CONTENT_TYPE
    head = ask("HEAD", url)
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", "5")
    assert ask("GET", f"{url}?x=1").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "", {}, 404),
        ("GET", "/metrics/x", {}, 404),
        ("POST", "/metrics", {}, 501),
        ("GET", "/metrics", {"host": "evil.test"}, 421),
        ("GET", "/metrics", {"host": "localhost:1"}, 200),
        ("GET", "/metrics", {"host": "[::1]:9"}, 200),
    ],
)
def test_there_is_nothing_else(
    url: str, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    """A page of another site cannot read it by a name that it made point here."""
    assert ask(method, url.removesuffix("/metrics") + path, **headers).status_code == status


def test_it_stops_with_the_block() -> None:
    """And the port is free again."""
    with serve_metrics(0, lambda: b"") as url:
        port = int(url.split(":")[2].removesuffix("/metrics"))
    with pytest.raises(httpx.ConnectError):
        ask("GET", url)
    with serve_metrics(port, lambda: b"") as again:
        assert again == url


def test_a_port_that_is_taken_is_told() -> None:
    """With what to do."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(InvalidArgument, match=f"port {port} on 127.0.0.1 is taken") as caught:
            serve_metrics(port, lambda: b"").__enter__()
    assert "0 for any free one" in caught.value.fix
    with pytest.raises(InvalidArgument, match="cannot listen"):
        serve_metrics(99999, lambda: b"").__enter__()


def test_silent_clients_do_not_keep_others_out(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that say nothing have a few places, for a while."""
    port = int(url.split(":")[2].removesuffix("/metrics"))
    monkeypatch.setattr(http_module._Handler, "timeout", 0.2)
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(http_module.CLIENTS_MAX)]
    try:
        answer = None
        for _ in range(100):
            try:
                answer = ask("GET", url)
                break
            except httpx.TransportError:
                silent[0].recv(1)  # Waits until the first of them is sent away.
        assert answer is not None
        assert answer.status_code == 200
    finally:
        for each in silent:
            each.close()


def test_a_page_that_cannot_be_made_closes_the_connection(url: str) -> None:
    """Nothing of the failure leaks, and the next page is served."""

    def broken() -> bytes:
        raise RuntimeError

    with serve_metrics(0, broken) as bad, pytest.raises(httpx.RemoteProtocolError):
        ask("GET", bad)
    assert ask("GET", url).status_code == 200
