"""The metrics server of a worker: one page, for this machine only."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import httpx
import pytest

from onceward.errors import InvalidArgument, PortInUse
from onceward.http.request_headers import is_forwarded
from onceward.http.token_file import open_token, rotate_token, token_path
from onceward.workers import http as http_module
from onceward.workers.http import serve_metrics
from onceward.workers.metrics import CONTENT_TYPE

#: Becomes another user, asks for a page with the headers that follow, and prints the answer.
_AS_ANOTHER = """
import encodings.idna, http.client, os, sys
uid, port, *headers = sys.argv[1:]
os.setgroups([]); os.setgid(int(uid)); os.setuid(int(uid))
connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=120)
connection.request("GET", "/metrics", headers=dict(each.split(": ", 1) for each in headers))
answer = connection.getresponse()
print(answer.status, answer.read().decode())
"""
SECOND_UID = 54321


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


@pytest.fixture
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEWARD_HOME", str(tmp_path / "home"))


def as_another(url: str, *headers: str) -> str:
    """Return status and text that another user of this machine gets."""
    port = url.split(":")[2].removesuffix("/metrics")
    words = [sys.executable, "-c", _AS_ANOTHER, str(SECOND_UID), port, *headers]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


@pytest.mark.usefixtures("second_user", "_own_home")
def test_h65_another_local_user_reads_no_metrics(url: str) -> None:
    """Only with the token, in either header; a token that was replaced is none."""
    odd = ["Authorization: Bearer ", "X-CM-LAB-TOKEN: ", "Authorization: Basic eDp5", "Via: 1.1 us"]
    for headers in ([], *([each] for each in odd)):
        refused = as_another(url, *headers)
        assert refused.startswith("401 send the token")
        assert "up 1" not in refused
    old = open_token()
    for header in ("Authorization: Bearer", "X-CM-LAB-TOKEN:"):
        assert as_another(url, f"{header} {old}").startswith("200 up 1")
    new = rotate_token()
    assert as_another(url, f"X-CM-LAB-TOKEN: {old}").startswith("401")
    assert as_another(url, f"X-CM-LAB-TOKEN: {new}").startswith("200")
    assert ask("GET", url).status_code == 200  # The other user has not ended the ownership.


@pytest.mark.usefixtures("_own_home")
@pytest.mark.parametrize("header", ["forwarded", "x-forwarded-for", "x-real-ip", "via"])
def test_h65_a_proxy_of_our_user_reads_no_metrics(url: str, header: str) -> None:
    """Once one was seen, no request is answered without the token."""
    assert ask("GET", url, **{header: "127.0.0.1"}).status_code == 401
    refused = ask("GET", url)
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert ask("GET", url, authorization=f"Bearer {open_token()}").status_code == 200


@pytest.mark.usefixtures("_own_home")
def test_h65_a_concurrent_request_does_not_hide_a_proxy(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy is seen in one thread while another thread checks a request without its headers."""
    is_nested = iter([True])

    def check_late(names: Iterable[bytes]) -> bool:
        if next(is_nested, False):
            assert ask("GET", url, via="1.1 us").status_code == 401
        return is_forwarded(names)

    monkeypatch.setattr(http_module, "is_forwarded", check_late)
    ask("GET", url)
    assert ask("GET", url).status_code == 401


@pytest.mark.usefixtures("_own_home")
def test_h65_metrics_for_other_machines_need_the_token() -> None:
    """The owner too: at an open address a proxy looks like its clients."""
    with serve_metrics(0, lambda: b"up 1\n", host="0.0.0.0") as address:
        url = address.replace("0.0.0.0", "127.0.0.1")
        assert ask("GET", url).status_code == 401
        assert ask("GET", url, **{"x-cm-lab-token": open_token()}).text == "up 1\n"


@pytest.mark.usefixtures("_own_home")
def test_a_token_that_others_may_know_grants_no_access(url: str) -> None:
    """The owner still reads; a broken token file ends neither the server nor the check."""
    token = open_token()
    token_path().chmod(0o644)
    assert ask("GET", url).status_code == 200
    headers = {"via": "1.1 us", "x-cm-lab-token": token}
    assert ask("GET", url, **headers).status_code == 401


def test_it_stops_with_the_block() -> None:
    """And the port is free again."""
    with serve_metrics(0, lambda: b"") as url:
        port = int(url.split(":")[2].removesuffix("/metrics"))
    with pytest.raises(httpx.ConnectError):
        ask("GET", url)
    with serve_metrics(port, lambda: b"") as again:
        assert again == url


def test_a_port_that_is_taken_is_reported() -> None:
    """The error says what to do."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortInUse, match=f"port {port} on 127.0.0.1 is in use") as caught:
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
