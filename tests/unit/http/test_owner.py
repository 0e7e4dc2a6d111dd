"""The guard and the owner: callers that read without a token, or get it, and for how long."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from onceward.http.guard import PEER_UID, RequestGuard, is_same_user, page_token_for
from onceward.http.login import LOGIN_PATH
from tests.support.guarded_asgi_calls import (
    HOST,
    TOKEN,
    WITH_TOKEN,
    Answer,
    Echo,
    Header,
    assert_refused,
    log_in,
    send_to,
    settings,
)

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

PROXY_HEADERS: list[Header] = [
    ("forwarded", "for=192.0.2.60"),
    ("x-forwarded-for", "192.0.2.60"),
    ("X-Forwarded-Proto", "https"),
    ("x-forwarded-anything", ""),
    ("x-real-ip", "192.0.2.60"),
    ("via", "1.1 proxy"),
]
PAGE: Header = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8")


async def tell(scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer with the token that a page may get."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    body = json.dumps(page_token_for(scope)).encode()
    await send({"type": "http.response.body", "body": body})


def connected_by(guard: ASGIApp, uid: int | None) -> ASGIApp:
    """Let every request come over a connection of this user."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await guard({**scope, "state": {PEER_UID: uid}}, receive, send)

    return app


def token_in(answer: Answer) -> object:
    assert answer.status == 200
    return json.loads(answer.body)


def test_h65_only_the_owner_gets_the_token() -> None:
    """A peer that has the token already learns nothing; one without it is refused."""
    owner_token = str(token_in(send_to(RequestGuard(tell, settings=settings()), "GET", "/", HOST)))
    assert owner_token.startswith("tok_")
    assert owner_token != TOKEN
    for strangers in (settings(is_owner=None), settings(is_owner=lambda _: False)):
        guard = RequestGuard(tell, settings=strangers)
        assert_refused(send_to(guard, "GET", "/", HOST), "UNAUTHORIZED")
        assert token_in(send_to(guard, "GET", "/", HOST, WITH_TOKEN)) is None


def test_h65_the_token_of_a_page_holds_for_one_process() -> None:
    """It is accepted like the token of the file, by the guard that made it and by no other."""
    guard, next_guard = (
        RequestGuard(tell, settings=settings()),
        RequestGuard(tell, settings=settings()),
    )
    given = str(token_in(send_to(guard, "GET", "/", HOST)))
    logged_in = send_to(guard, "POST", LOGIN_PATH, HOST, WITH_TOKEN)
    assert json.loads(logged_in.body) == {"token": given}
    headers: list[Header] = [("x-cm-lab-token", given), ("authorization", f"Bearer {given}")]
    for header in headers:
        assert send_to(guard, "POST", "/", HOST, header).status == 200
        assert_refused(send_to(next_guard, "POST", "/", HOST, header), "UNAUTHORIZED")


@pytest.mark.parametrize("header", PROXY_HEADERS)
def test_h65_a_proxy_of_our_user_ends_ownership(
    header: Header, caplog: pytest.LogCaptureFixture
) -> None:
    """From its first request on no caller is the owner, and the log says so once."""
    guard = RequestGuard(tell, settings=settings())
    assert token_in(send_to(guard, "GET", "/", HOST)) is not None
    for headers in ([HOST, header], [HOST], [HOST, header]):
        assert_refused(send_to(guard, "GET", "/", *headers), "UNAUTHORIZED")
    assert token_in(send_to(guard, "GET", "/", HOST, header, WITH_TOKEN)) is None
    assert [each.event for each in caplog.records] == ["guard.proxy_seen"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("header", PROXY_HEADERS)
def test_h65_another_user_cannot_end_ownership(header: Header) -> None:
    """Headers of a proxy count only when they come from a process that would be the owner."""
    guard = RequestGuard(tell, settings=settings(is_owner=is_same_user))
    assert_refused(
        send_to(connected_by(guard, 4_000_000), "GET", "/", HOST, header), "UNAUTHORIZED"
    )
    ours = RequestGuard(tell, settings=settings())
    assert token_in(send_to(ours, "GET", "/", HOST, ("x-forward", "1"))) is not None


@pytest.mark.parametrize(
    "header",
    [
        ("origin", "http://evil.test:3939"),
        ("sec-fetch-site", "same-origin"),
        ("accept-language", ""),
    ],
)
def test_h65_a_rebound_page_cannot_end_ownership(header: Header) -> None:
    """Its scripts can set most headers of a proxy; only its Host and the browser's own tell."""
    guard = RequestGuard(tell, settings=settings())
    foreign: Header = ("host", "evil.test:3939")
    forwarded: Header = ("x-forwarded-for", "192.0.2.60")
    assert_refused(send_to(guard, "GET", "/", foreign, header, forwarded), "MISDIRECTED")
    assert token_in(send_to(guard, "GET", "/", HOST)) is not None


def test_h65_a_proxy_that_passes_its_own_host_ends_ownership() -> None:
    """Though its requests are refused for their Host."""
    guard = RequestGuard(tell, settings=settings())
    foreign: Header = ("host", "lab.example")
    forwarded: Header = ("x-forwarded-for", "192.0.2.60")
    assert_refused(send_to(guard, "GET", "/", foreign, forwarded), "MISDIRECTED")
    assert_refused(send_to(guard, "GET", "/", HOST), "UNAUTHORIZED")


def test_h65_a_cookie_holds_for_the_user_who_logged_in() -> None:
    """Every server of this host sees it, those of other users as well."""
    guard = RequestGuard(Echo(), settings=settings(is_owner=None))
    cookie = log_in(connected_by(guard, 1000))
    assert send_to(connected_by(guard, 1000), "GET", "/", HOST, cookie).status == 200
    for uid in (1001, 0, None):
        assert_refused(send_to(connected_by(guard, uid), "GET", "/", HOST, cookie), "UNAUTHORIZED")


@pytest.mark.parametrize(
    ("origin", "is_secure"),
    [("https://lab.example", True), ("http://lab.example", False), (None, False)],
)
def test_h65_a_cookie_of_a_tls_proxy_is_secure(origin: str | None, *, is_secure: bool) -> None:
    """A browser then never sends it over plain HTTP."""
    guard = RequestGuard(Echo(), settings=settings(is_owner=None, public_origin=origin))
    answer = send_to(guard, "POST", LOGIN_PATH, HOST, WITH_TOKEN)
    assert str(answer.header("set-cookie")).endswith("; Secure") is is_secure


def test_a_browser_without_the_token_is_shown_a_login() -> None:
    """It is no success, holds nothing of the server, and only a page that is opened gets it."""
    guard = RequestGuard(tell, settings=settings(is_owner=None))
    answer = send_to(guard, "GET", "/lab", HOST, PAGE)
    assert answer.status == 401
    assert str(answer.header("content-type")).startswith("text/html")
    assert b"Log in to Onceward" in answer.body
    assert TOKEN.encode() not in answer.body
    policy = str(answer.header("content-security-policy"))
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    for method, path, header in (
        ("GET", "/api/config", PAGE),
        ("POST", "/lab", PAGE),
        ("GET", "/lab", ("accept", "*/*")),
    ):
        assert_refused(send_to(guard, method, path, HOST, header), "UNAUTHORIZED")


def test_a_public_address_is_an_origin_of_ours() -> None:
    """Behind a proxy with TLS the pages have its origin, and no other is let in for it."""
    public = settings(
        is_owner=None, allowed_hosts=["lab.example"], public_origin="https://lab.example"
    )
    guard = RequestGuard(Echo(), settings=public)
    for host in (HOST, ("host", "lab.example")):
        ours: Header = ("origin", "https://lab.example")
        assert send_to(guard, "POST", "/", host, ours, WITH_TOKEN).status == 200
        for origin in ("https://evil.test", "https://lab.example:444", "https://lab.example.evil"):
            answer = send_to(guard, "POST", "/", host, ("origin", origin), WITH_TOKEN)
            assert_refused(answer, "FORBIDDEN")
