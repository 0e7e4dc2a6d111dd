"""FeedbackClient against a server: pages, tags, tokens, retries and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from onceward import errors
from onceward.journal import Journal
from onceward.lab import FeedbackClient
from onceward.lab.client_http import TAG_HEADER
from onceward.system import ManualClock
from tests.support.background_servers import in_background

Answer = tuple[int, dict[str, str], bytes]


class Stub:
    """A server that gives pages of a file, after the answers that were put in its way."""

    def __init__(self, file: Path) -> None:
        self.journal = Journal(file)
        self.asked: list[dict[str, str]] = []
        self.before: list[Answer | None] = []
        self.url = ""

    def answer(self, query: dict[str, str], headers: Any) -> Answer | None:
        self.asked.append({**query, "tag": headers.get(TAG_HEADER, "")})
        if self.before:
            return self.before.pop(0)
        match = {"sessionId": query["sessionId"]} if "sessionId" in query else None
        tag = headers.get(TAG_HEADER)
        try:
            page = self.journal.tail(query["since"], None, match, tag, wait=0)
        except errors.InvalidCursor as exc:
            return 400, {}, json.dumps(exc.to_dict()).encode()
        body = {"items": page.items, "nextCursor": page.next_cursor}
        return 200, {TAG_HEADER: page.tag}, json.dumps(body).encode()


@contextmanager
def serving(stub: Stub) -> Iterator[Stub]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            assert parts.path == "/api/feedback"
            found = stub.answer(dict(parse_qsl(parts.query)), self.headers)
            if found is None:
                return  # Hangs up without a word.
            status, headers, body = found
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        stub.url = f"http://127.0.0.1:{server.server_address[1]}"
        with in_background(server):
            yield stub


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[Stub]:
    with serving(Stub(tmp_path / "feedback.jsonl")) as made:
        yield made


@pytest.fixture
def client(stub: Stub, tmp_path: Path) -> Callable[..., FeedbackClient]:
    """Make clients of the server, whose pauses between attempts take no time."""

    def make(source: str | None = None, **options: Any) -> FeedbackClient:
        place: dict[str, Any] = {"cursor": tmp_path / "cursor.json", "clock": ManualClock()}
        return FeedbackClient(source or stub.url, **{**place, **options})

    return make


def add(stub: Stub, *numbers: int) -> None:
    entry = {"createdAt": "2026-01-01T00:00:00.000Z", "sessionId": "lab_1"}
    stub.journal.append(*({"id": f"fb_{n}", **entry} for n in numbers))


def ids(client: FeedbackClient) -> list[str]:
    with client:
        return [entry["id"] for entry in client.available()]


Make = Callable[..., FeedbackClient]
FAILED: Answer = (503, {}, b'{"error":{"code":"UNAVAILABLE","message":"full","context":{}}}')


def test_each_entry_comes_once(stub: Stub, client: Make) -> None:
    """The tag of a cursor goes back with it, and so does the session."""
    add(stub, 1, 2)
    assert ids(client(session_id="lab_1")) == ["fb_1", "fb_2"]
    add(stub, 3)
    assert ids(client(f"{stub.url}/", session_id="lab_1")) == ["fb_3"]
    assert {each["sessionId"] for each in stub.asked} == {"lab_1"}
    assert stub.asked[0]["tag"] == ""
    assert stub.asked[-1]["tag"] == stub.journal.end()[1]


def test_a_file_and_its_server_share_a_cursor(stub: Stub, client: Make) -> None:
    """An agent may move from the one to the other."""
    add(stub, 1, 2)
    assert ids(client()) == ["fb_1", "fb_2"]
    add(stub, 3)
    assert ids(client(str(stub.journal.path))) == ["fb_3"]


def test_waiting_is_the_servers(stub: Stub, client: Make) -> None:
    """The loop asks the server to wait, no longer than it would; `available` does not wait."""
    add(stub, 1)
    with client(wait=90) as made:
        next(iter(made))
    assert stub.asked[-1]["wait"] == "60"
    assert ids(client()) == ["fb_1"]
    assert "wait" not in stub.asked[-1]


@pytest.mark.parametrize("failure", [FAILED, (500, {}, b"oops"), None])
def test_what_passes_is_tried_again(stub: Stub, client: Make, failure: Answer | None) -> None:
    """Three attempts in all: no answer and 5xx are not the end."""
    add(stub, 1)
    stub.before = [failure, failure]
    assert ids(client()) == ["fb_1"]


def test_half_an_answer_is_tried_again(stub: Stub, client: Make) -> None:
    """A page that was cut off is not taken for a whole one."""
    add(stub, 1)
    stub.before = [(200, {"Content-Length": "999"}, b'{"items": [')]
    assert ids(client()) == ["fb_1"]


def test_a_rejected_request_raises_and_keeps_the_position(stub: Stub, client: Make) -> None:
    """After three attempts it is an error; iterating again goes on where it was."""
    add(stub, 1, 2)
    with client() as made:
        entries = iter(made)
        next(entries)
        next(entries)
        stub.before = [FAILED] * 3
        with pytest.raises(errors.SourceUnavailable, match="full"):
            next(entries)
        add(stub, 3)
        assert [entry["id"] for entry in made.available()] == ["fb_3"]


def test_an_unreachable_server_raises_an_error(client: Make, tmp_path: Path) -> None:
    """No server listens there: the error says what to check."""
    with serving(Stub(tmp_path / "other")) as other:
        pass
    with pytest.raises(errors.SourceUnavailable, match="cannot be read") as raised:
        ids(client(other.url))
    assert "running" in raised.value.fix


REFUSALS = [
    (401, "UNAUTHORIZED", errors.Unauthorized),
    (403, "FORBIDDEN", errors.RequestRefused),
    (404, "NOT_FOUND", errors.NotFound),
    (400, "INVALID_ARGUMENT", errors.InvalidArgument),
    (421, "MISDIRECTED", errors.Misdirected),
    (418, "TEAPOT", errors.SourceRefused),
]


@pytest.mark.parametrize(("status", "code", "kind"), REFUSALS)
def test_a_refusal_is_our_error_and_is_not_repeated(
    stub: Stub, client: Make, status: int, code: str, kind: type[errors.OncewardError]
) -> None:
    """4xx comes with the server's message and fix, after one attempt."""
    error = {"error": {"code": code, "message": "no", "context": {"fix": "do this"}}}
    stub.before = [(status, {}, json.dumps(error).encode())]
    with pytest.raises(kind, match="no") as raised:
        ids(client())
    assert type(raised.value) is kind
    assert raised.value.fix == "do this"
    assert len(stub.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [
        (200, {}, b"<html>"),
        (200, {}, b"[]"),
        (200, {}, b'{"items": [], "nextCursor": 5}'),
        (200, {}, b'{"items": [7], "nextCursor": "5"}'),
        (200, {}, b'{"items": [{}], "nextCursor": "5"}'),
        (302, {"Location": "http://127.0.0.1:1/"}, b""),
        (404, {}, b"<html>"),
    ],
)
def test_a_server_that_is_not_a_lab_raises_an_error(
    stub: Stub, client: Make, answer: Answer
) -> None:
    """Another service at that address gives no entries, and redirects are not followed."""
    stub.before = [answer]
    with pytest.raises(errors.SourceRefused):
        ids(client())


def test_a_replaced_file_is_noticed_through_the_server(stub: Stub, client: Make) -> None:
    """The server refuses the tag, and the client says what that means."""
    add(stub, 1, 2)
    assert ids(client()) == ["fb_1", "fb_2"]
    stub.journal.path.unlink()
    add(stub, 11, 12)
    with client() as made:
        with pytest.raises(errors.InvalidCursor, match="the feedback was replaced"):
            made.poll()
        made.reset()
        assert [entry["id"] for entry in made.available()] == ["fb_11", "fb_12"]


def test_proxies_of_the_environment_are_not_used(
    stub: Stub, client: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Lab on this machine is reached directly, whatever other hosts need."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    add(stub, 1)
    assert ids(client()) == ["fb_1"]


ADDRESSES = [
    *("http://", "http://u@host", "https://host/?a=1", "http://host/#x"),
    *("http://[::1", "http://127.0.0.1:99999", "http://127.0.0.1:abc", "http://a b/"),
]


@pytest.mark.parametrize("url", ADDRESSES)
def test_an_address_is_checked(client: Make, url: str) -> None:
    """What is not the address of a server is refused before anything is asked."""
    with pytest.raises(errors.InvalidArgument, match="address of a server"):
        client(url)
