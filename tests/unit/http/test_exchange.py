"""Request guard: accepted bodies, and the headers of every response."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from onceward import errors
from onceward.http.guard import RequestGuard
from tests.support.guarded_asgi_calls import (
    FOLLOWED,
    HOST,
    JSON,
    PORT,
    TOKEN,
    WITH_TOKEN,
    Echo,
    Header,
    assert_refused,
    assert_response_headers,
    call,
    connect,
    log_in,
    send_to,
    settings,
)

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


# --- the body ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "",
        "application/jsonp",
        "\xff",
    ],
)
def test_a_change_must_be_json(content_type: str) -> None:
    """The types a form can send without asking are refused."""
    headers = [HOST, WITH_TOKEN, ("content-type", content_type), ("content-length", "2")]
    answer = send_to(
        RequestGuard(Echo(), settings=settings()), "POST", "/", *headers, chunks=[b"{}"]
    )
    assert_refused(answer, "UNSUPPORTED_MEDIA_TYPE")


def test_a_change_without_a_type_is_refused_however_the_body_comes() -> None:
    """Declared, chunked or unannounced, a body needs its type."""
    guard = RequestGuard(Echo(), settings=settings())
    for header in [("content-length", "2"), ("transfer-encoding", "chunked"), ("accept", "*/*")]:
        answer = send_to(guard, "POST", "/", HOST, WITH_TOKEN, header, chunks=[b"{}"])
        assert_refused(answer, "UNSUPPORTED_MEDIA_TYPE")
    twice = send_to(guard, "POST", "/", HOST, WITH_TOKEN, JSON, JSON, ("content-length", "2"))
    assert_refused(twice, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize("value", ["application/json", "Application/JSON ; charset=utf-8"])
def test_json_comes_in_with_parameters_too(value: str) -> None:
    """A charset beside the type is fine."""
    headers = [HOST, WITH_TOKEN, ("content-type", value), ("content-length", "2")]
    answer = send_to(
        RequestGuard(Echo(), settings=settings()), "POST", "/", *headers, chunks=[b"{}"]
    )
    assert (answer.status, answer.body) == (200, b"2")


def test_a_change_without_a_body_needs_no_type() -> None:
    """Nothing has no type."""
    guard = RequestGuard(Echo(), settings=settings())
    assert send_to(guard, "DELETE", "/", HOST, WITH_TOKEN).status == 200
    assert send_to(guard, "POST", "/", HOST, WITH_TOKEN, ("content-length", "0")).status == 200


@pytest.mark.parametrize("length", ["11", "9" * 18, "9" * 5000])
def test_a_body_declared_too_large_is_refused_unread(length: str) -> None:
    """The announced length is enough to refuse."""
    app = Echo()
    guard = RequestGuard(app, settings=settings(body_bytes_max=10))
    answer = send_to(guard, "POST", "/", HOST, WITH_TOKEN, JSON, ("content-length", length))
    assert_refused(answer, "TOO_LARGE")
    assert app.calls == []


@pytest.mark.parametrize("method", ["POST", "GET"])
@pytest.mark.parametrize("header", [("transfer-encoding", "chunked"), ("content-length", "3")])
def test_a_body_that_grows_too_large_is_refused(method: str, header: Header) -> None:
    """Bytes are counted as they come, whatever was announced."""
    guard = RequestGuard(Echo(), settings=settings(body_bytes_max=10))
    headers = [HOST, WITH_TOKEN, JSON, header]
    assert send_to(guard, method, "/", *headers, chunks=[b"12345", b"67890"]).body == b"10"
    answer = send_to(guard, method, "/", *headers, chunks=[b"12345", b"67890", b"1"])
    assert_refused(answer, "TOO_LARGE")


def test_an_application_cannot_talk_its_way_out_of_a_refusal() -> None:
    """An application that turns our refusal into an answer of its own is not heard."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await Echo()(scope, receive, send)
        except errors.TooLarge:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"fine"})

    guard = RequestGuard(app, settings=settings(body_bytes_max=1))
    assert_refused(send_to(guard, "POST", "/", HOST, WITH_TOKEN, JSON, chunks=[b"12"]), "TOO_LARGE")


@pytest.mark.parametrize("lengths", [["x"], ["-1"], ["+1"], ["1.0"], ["\xb2"], [""], ["1", "2"]])
def test_a_length_that_is_no_number_is_refused(lengths: list[str]) -> None:
    """A broken or contradictory Content-Length is an invalid argument."""
    headers = [("content-length", length) for length in lengths]
    guard = RequestGuard(Echo(), settings=settings())
    answer = send_to(guard, "POST", "/", HOST, WITH_TOKEN, JSON, *headers)
    assert_refused(answer, "INVALID_ARGUMENT")


# --- what goes out -------------------------------------------------------------------------------


def test_what_the_application_says_against_our_headers_is_dropped() -> None:
    """An application can neither weaken our headers nor invite another origin."""
    app = Echo(
        (b"Access-Control-Allow-Origin", b"*"),
        (b"Referrer-Policy", b"unsafe-url"),
        (b"cache-control", b"max-age=9"),
        (b"etag", b"1"),
    )
    guard = RequestGuard(app, settings=settings())
    for path, caching in (("/", "max-age=9"), ("/api/x", "no-store")):
        answer = send_to(guard, "GET", path, HOST)
        assert_response_headers(answer)
        assert answer.header("cache-control") == caching
        assert answer.header("etag") == "1"


def test_an_application_may_bring_its_own_content_policy() -> None:
    """Sandboxed content keeps its stricter policy."""
    guard = RequestGuard(Echo((b"content-security-policy", b"sandbox")), settings=settings())
    answer = send_to(guard, "GET", "/", HOST)
    assert answer.header("content-security-policy") == "sandbox"


def test_head_has_no_body() -> None:
    """Neither an answer nor a refusal to HEAD carries a body."""
    guard = RequestGuard(Echo(), settings=settings())
    assert send_to(guard, "HEAD", "/", HOST).body == b""
    assert send_to(guard, "HEAD", "/", ("host", "evil.test")).body == b""


def test_a_crash_is_logged_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    """The caller gets our shape without a trace of the cause; the log has it."""

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        message = "secret cause"
        raise RuntimeError(message)

    answer = send_to(RequestGuard(app, settings=settings()), "GET", "/", HOST)
    assert_refused(answer, "INTERNAL")
    assert b"secret" not in answer.body
    assert b"Traceback" not in answer.body
    assert "secret cause" in caplog.text
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_an_application_without_a_response_is_an_error() -> None:
    """Silence is answered for, too."""

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        pass

    assert_refused(send_to(RequestGuard(app, settings=settings()), "GET", "/", HOST), "INTERNAL")


def test_a_crash_in_the_middle_of_an_answer_closes_the_connection() -> None:
    """Half an answer is not completed with something else; the server sees the exception."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        message = "boom"
        raise RuntimeError(message)

    with pytest.raises(RuntimeError, match="boom"):
        send_to(RequestGuard(app, settings=settings()), "GET", "/", HOST)


def test_a_crash_after_the_answer_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    """What fails after a complete answer does not undo it."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Echo()(scope, receive, send)
        message = "too late"
        raise RuntimeError(message)

    assert send_to(RequestGuard(app, settings=settings()), "GET", "/", HOST).status == 200
    assert "too late" in caplog.text


# --- websockets and lifespan ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ([("host", f"evil.test:{PORT}"), WITH_TOKEN], "MISDIRECTED"),
        ([WITH_TOKEN], "MISDIRECTED"),
        ([HOST, ("origin", "http://evil.test"), WITH_TOKEN], "FORBIDDEN"),
        ([HOST, ("sec-fetch-site", "cross-site"), WITH_TOKEN], "FORBIDDEN"),
        ([HOST, *FOLLOWED, WITH_TOKEN], "FORBIDDEN"),
        ([HOST], "UNAUTHORIZED"),
        ([HOST, ("x-cm-lab-token", b"\xff")], "UNAUTHORIZED"),
    ],
)
def test_a_websocket_is_closed_before_it_is_accepted(headers: list[Header], reason: str) -> None:
    """The same rules hold for websockets, and the application never sees a refused one."""
    app = Echo()
    sent = connect(RequestGuard(app, settings=settings()), *headers)
    assert [(message["type"], message["reason"]) for message in sent] == [
        ("websocket.close", reason)
    ]
    assert app.calls == []


def test_a_websocket_with_the_token_comes_in() -> None:
    """Our own name, our own page and the token open a websocket; the cookie does not."""
    guard = RequestGuard(Echo(), settings=settings(external=True))
    ours = ("origin", f"http://127.0.0.1:{PORT}")
    assert connect(guard, HOST, ours, WITH_TOKEN) == [{"type": "websocket.accept"}]
    assert connect(guard, HOST, ours, log_in(guard))[0]["type"] == "websocket.close"


def test_start_and_stop_messages_pass_through() -> None:
    """The guard passes lifespan messages through to the application."""
    seen: list[str] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append(scope["type"])

    async def nothing(*_: Any) -> Any:
        raise AssertionError

    asyncio.run(
        call(RequestGuard(app, settings=settings()), {"type": "lifespan"}, nothing, nothing)
    )
    assert seen == ["lifespan"]


def test_the_settings_do_not_show_the_token() -> None:
    """A token does not get into a log by way of a repr."""
    assert TOKEN not in repr(settings())
