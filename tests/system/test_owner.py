"""Owner by user id: every server, its owner, another local user, and a proxy of the same user."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from onceward.http.token_file import read_token
from onceward.lab.client import FeedbackClient
from onceward.workers.http import serve_metrics
from tests.support.lab_processes import Bench
from tests.support.namespaces import SECOND_UID
from tests.support.nginx import proxy
from tests.support.served_commands import Served, started

COMMAND = [sys.executable, "-m", "onceward"]
SERVERS = {
    "up": ["up"],
    "lab": ["lab"],
    "memory": ["memory", "serve", "--http"],
    "dispatch": ["dispatch", "serve"],
}
#: Servers that a person's task ends.
TASKS = {
    "review": ["lab", "review", "runs/a"],
    "compare": ["lab", "compare", "runs/a", "runs/b"],
}
#: Where a server gives the owner's pages a token.
CONFIGS = {
    "up": ["/api/config", "/api/console/config", "/api/chat/config"],
    "lab": ["/api/config"],
    "memory": [],
    "dispatch": ["/api/chat/config"],
}
METHODS = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"]
#: What no document of the API lists.
PAGES = ["/", "/healthz", "/metrics", "/lab", "/chat", "/docs", "/mcp", "/assets/x", "/nope"]
PAGES += ["/assets/base.css", "/api/console/openapi.json", "/api/console/login"]

#: Becomes another user once everything that it needs is loaded, and sends the requests it is given.
_AS_ANOTHER = """
import encodings.idna, http.client, json, os, sys
uid, port, is_kept, calls = json.load(sys.stdin)
os.setgroups([]); os.setgid(uid); os.setuid(uid)
for method, path, headers in calls:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request(method, path, b"{}" if method == "POST" else None, headers)
    answer = connection.getresponse()
    print(json.dumps([method, path, answer.status, answer.read().decode(errors="replace")]))
    connection.close()
connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
for method, path, headers in calls[:2] if is_kept else []:
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    print(json.dumps(["kept", path, answer.status, answer.read().decode(errors="replace")]))
    assert not answer.will_close
"""


@contextlib.contextmanager
def serving(name: str, *options: str) -> Iterator[Served]:
    """Start a server at any port."""
    words = [*COMMAND, *SERVERS[name], "--port", "0", "--json", "--no-open", *options]
    with started(words) as process:
        yield Served(process)


def read(server: Served, path: str, **headers: str) -> httpx.Response:
    return httpx.get(f"{server.url}{path}", headers=headers, trust_env=False, timeout=120)


def calls_to(server: Served) -> list[tuple[str, str, dict[str, str]]]:
    """Return a call of every route with every method, and some with what an attacker may try."""
    document = read(server, "/api/console/openapi.json")
    listed = document.json()["paths"] if document.status_code == 200 else {}
    paths = sorted({*PAGES, *(each.replace("{", "").replace("}", "") for each in listed)})
    plain = {"content-type": "application/json", "accept": "*/*"}
    calls = [(method, path, plain) for path in paths for method in METHODS]
    port = server.url.rpartition(":")[2]
    for odd in (
        {"accept": "text/html"},
        {"cookie": f"onceward_{port}=0"},
        {"x-cm-lab-token": ""},
        {"authorization": "Bearer tok_"},
        {"x-forwarded-for": "127.0.0.1"},
        {"via": "1.1 us"},
        {"origin": server.url, "sec-fetch-site": "same-origin"},
        {"range": "bytes=0-0"},
    ):
        calls += [("GET", "/api/config", odd), ("GET", "/", odd), ("POST", "/api/feedback", odd)]
        calls += [("HEAD", "/api/config", odd), ("GET", "/assets/base.css", odd)]
    return calls


def as_another(port: int, calls: list[tuple[str, str, dict[str, str]]], *, is_kept: bool) -> str:
    """Return what another user is answered, by lines; `is_kept` sends two calls over one line."""
    ran = subprocess.run(
        [sys.executable, "-c", _AS_ANOTHER],
        input=json.dumps([SECOND_UID, port, is_kept, calls]),
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(ran.stdout.splitlines()) == len(calls) + 2 * is_kept
    return ran.stdout


@pytest.mark.usefixtures("second_user")
@pytest.mark.parametrize("name", [*SERVERS, *TASKS])
def test_h65_another_local_user_gets_nothing(name: str, tmp_path: Path) -> None:
    """No call of any route succeeds, none tells a token, and the owner notices nothing."""
    options = ["--port", "0", "--json", "--no-open"]
    with Bench(tmp_path).start(*{**SERVERS, **TASKS}[name], *options) as server:
        calls = calls_to(server)
        assert len(calls) > 80
        said = as_another(int(server.url.rpartition(":")[2]), calls, is_kept=True)
        assert {json.loads(line)[2] for line in said.splitlines()} == {401}
        token = read_token()
        assert token is not None
        pages = page_tokens(server, name) if name in SERVERS else set()
        assert not [each for each in (token, *pages) if each in said]
        assert read(server, "/healthz").status_code == 200


@pytest.mark.usefixtures("second_user")
def test_h65_another_local_user_gets_no_metrics_of_a_worker() -> None:
    """The server of `--metrics-port` is another one, and keeps no connection."""
    with serve_metrics(0, lambda: b"up 1\n") as url:
        heads: list[dict[str, str]] = [{}, {"range": "bytes=0-0"}, {"accept": "text/html"}]
        calls = [(method, "/metrics", each) for method in ("GET", "HEAD") for each in heads]
        said = as_another(int(url.split(":")[2].partition("/")[0]), calls, is_kept=False)
        assert {json.loads(line)[2] for line in said.splitlines()} == {401}
        assert "up 1" not in said
        assert httpx.get(url, trust_env=False).text == "up 1\n"


@pytest.mark.parametrize("name", SERVERS)
def test_h65_the_owner_needs_no_login(name: str, tmp_path: Path) -> None:
    """Pages, the token for changes and a polling agent; only changes need the token."""
    with serving(name) as server:
        assert read(server, "/healthz").status_code == 200
        change = {"url": f"{server.url}/api/feedback", "json": {}, "trust_env": False}
        assert httpx.post(**change, timeout=120).status_code == 401  # type: ignore[arg-type]
        if name in ("up", "lab"):
            assert read(server, "/lab").status_code == 200
            with FeedbackClient(server.url, cursor=tmp_path / "cursor") as client:
                assert client.poll() == []


def log_in(server: Served, token: str | None) -> httpx.Response:
    """Send a change that every server has, with a token."""
    headers = {"x-cm-lab-token": str(token)}
    url = f"{server.url}/api/console/login"
    return httpx.post(url, headers=headers, trust_env=False, timeout=120)


def page_tokens(server: Served, name: str) -> set[str]:
    """Return every token that this server gives to pages."""
    found = {log_in(server, read_token()).json()["token"]}
    for path in CONFIGS[name]:
        found.add(read(server, path).json()["token"])
    return found


@pytest.mark.parametrize("name", SERVERS)
def test_h65_the_token_of_a_page_ends_with_the_process(name: str, tmp_path: Path) -> None:
    """An open page sends its token to whichever process has the port after the server stopped."""
    with serving(name) as server:
        (captured,) = page_tokens(server, name)
        assert captured.startswith("tok_")
        assert captured != read_token()
        bearer = {"authorization": f"Bearer {captured}"}
        url = f"{server.url}/api/console/login"
        assert httpx.post(url, headers=bearer, trust_env=False, timeout=120).status_code == 200
    port = server.url.rpartition(":")[2]
    with serving(name, "--port", port) as server:
        assert log_in(server, captured).status_code == 401
        assert page_tokens(server, name).isdisjoint({captured, read_token()})
        if name in ("up", "lab"):
            with FeedbackClient(server.url, cursor=tmp_path / "cursor", token=captured) as client:
                assert client.poll() == []  # The owner reads without a token.
    with serving(name, "--require-token") as server:
        assert read(server, "/healthz", **{"x-cm-lab-token": captured}).status_code == 401


def test_h65_senders_survive_a_restart_and_end_with_a_rotation() -> None:
    """The token of the file holds for every process, until it is replaced."""
    show, tokens = [*COMMAND, "token", "show"], set()
    for _ in range(2):
        with serving("lab") as server:
            ran = subprocess.run(show, capture_output=True, text=True, check=True)
            tokens.add(ran.stdout.strip())
            assert log_in(server, *tokens).status_code == 200
    (shown,) = tokens
    rotate = [*COMMAND, "token", "rotate", "--yes", "--json"]
    rotated = json.loads(subprocess.run(rotate, capture_output=True, check=True).stdout)
    assert list(rotated) == ["applied", "token", "path"]
    with serving("lab", "--require-token") as server:
        for token, status in ((shown, 401), (rotated["token"], 200)):
            answer = read(server, "/healthz", **{"x-cm-lab-token": token})
            assert answer.status_code == status


@pytest.mark.parametrize(
    "options",
    [
        ("--require-token",),
        ("--trusted-proxy", "127.0.0.1"),
        ("--public-url", "https://lab.example"),
        ("--allow-external",),
    ],
)
def test_h65_a_declared_server_has_no_owner(options: tuple[str, ...]) -> None:
    """Every request needs the token, and the printed link logs in without showing it to us."""
    with serving("lab", *options) as server:
        assert read(server, "/healthz").status_code == 401
        assert server.process.stderr is not None
        lines = [server.process.stderr.readline().strip() for _ in range(2)]
        url = "https://lab.example" if "--public-url" in options else server.url
        assert lines == [f"token: {read_token()}", f"open {url}/lab#token={read_token()}"]
        answer = read(server, "/api/config", authorization=f"Bearer {read_token()}")
        assert (answer.status_code, answer.json()["token"]) == (200, None)


@pytest.mark.usefixtures("nginx")
@pytest.mark.parametrize("header", ["X-Forwarded-For $remote_addr", "X-Real-IP $remote_addr"])
def test_h65_through_nginx_of_the_same_user_no_client_is_owner(header: str) -> None:
    """Its first request is refused, and from then on no request without the token is answered."""
    with serving("up") as server, proxy(server.url, f"proxy_set_header {header}") as front:
        assert read(server, "/api/config").json()["token"].startswith("tok_")
        with httpx.Client(base_url=front, trust_env=False, timeout=120) as client:
            assert [client.get(path).status_code for path in ("/api/config", "/lab")] == [401] * 2
            assert read(server, "/api/config").status_code == 401
            headers = {"x-cm-lab-token": str(read_token())}
            answer = client.get("/api/config", headers=headers)
            assert (answer.status_code, answer.json()["token"]) == (200, None)


@pytest.mark.usefixtures("nginx")
def test_h65_through_a_declared_nginx_no_client_is_owner() -> None:
    """One that adds no header is known only by what the operator says."""
    with (
        serving("up", "--trusted-proxy", "127.0.0.1") as server,
        proxy(server.url) as front,
        httpx.Client(base_url=front, trust_env=False, timeout=120) as client,
    ):
        assert client.get("/api/config").status_code == 401
        login = client.post("/api/console/login", headers={"x-cm-lab-token": str(read_token())})
        assert login.status_code == 200
        assert client.get("/lab").status_code == 200


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--public-url", "lab.example"),
        ("--public-url", "https://lab.example/below"),
        ("--public-url", "ftp://lab.example"),
        ("--trusted-proxy", "lab.example"),
    ],
)
def test_a_proxy_that_is_none_is_refused(option: str, value: str) -> None:
    """The error names the option and shows how it is written."""
    words = [*COMMAND, "up", "--port", "0", option, value]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert option in ran.stderr
    assert "fix: " in ran.stderr
