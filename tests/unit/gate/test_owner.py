"""The gate and the owner: who reads freely and is told the token, and what ends that."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from onceward.gate import PEER_UID, Gate, is_from_our_user, token_for
from tests.unit.gate.calls import (
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
    """Answer with what a page may be told."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    body = json.dumps(token_for(scope)).encode()
    await send({"type": "http.response.body", "body": body})


def connected_by(gate: ASGIApp, uid: int | None) -> ASGIApp:
    """Let every request come over a connection of this user."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await gate({**scope, "state": {PEER_UID: uid}}, receive, send)

    return app


def told(answer: Answer) -> object:
    assert answer.status == 200
    return json.loads(answer.body)


def test_h65_only_the_owner_is_told_the_token() -> None:
    """A peer that has the token already learns nothing; one without it is refused."""
    assert told(send_to(Gate(tell, settings=settings()), "GET", "/", HOST)) == TOKEN
    for strangers in (settings(is_owner=None), settings(is_owner=lambda _: False)):
        gate = Gate(tell, settings=strangers)
        assert_refused(send_to(gate, "GET", "/", HOST), "UNAUTHORIZED")
        assert told(send_to(gate, "GET", "/", HOST, WITH_TOKEN)) is None


@pytest.mark.parametrize("header", PROXY_HEADERS)
def test_h65_a_proxy_of_our_user_ends_ownership(
    header: Header, caplog: pytest.LogCaptureFixture
) -> None:
    """From its first request on nobody is the owner, and the log says so once."""
    gate = Gate(tell, settings=settings())
    assert told(send_to(gate, "GET", "/", HOST)) == TOKEN
    for headers in ([HOST, header], [HOST], [HOST, header]):
        assert_refused(send_to(gate, "GET", "/", *headers), "UNAUTHORIZED")
    assert told(send_to(gate, "GET", "/", HOST, header, WITH_TOKEN)) is None
    assert [each.event for each in caplog.records] == ["gate.proxy_seen"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("header", PROXY_HEADERS)
def test_h65_another_user_cannot_end_ownership(header: Header) -> None:
    """Headers of a proxy count only when they come from a process that would be the owner."""
    gate = Gate(tell, settings=settings(is_owner=is_from_our_user))
    assert_refused(send_to(connected_by(gate, 4_000_000), "GET", "/", HOST, header), "UNAUTHORIZED")
    ours = Gate(tell, settings=settings())
    assert told(send_to(ours, "GET", "/", HOST, ("x-forward", "1"))) == TOKEN


def test_h65_a_cookie_holds_for_the_user_who_logged_in() -> None:
    """Every server of this host sees it, those of other users as well."""
    gate = Gate(Echo(), settings=settings(is_owner=None))
    cookie = log_in(connected_by(gate, 1000))
    assert send_to(connected_by(gate, 1000), "GET", "/", HOST, cookie).status == 200
    for uid in (1001, 0, None):
        assert_refused(send_to(connected_by(gate, uid), "GET", "/", HOST, cookie), "UNAUTHORIZED")


def test_a_browser_without_the_token_is_shown_a_login() -> None:
    """It is no success, holds nothing of the server, and only a page that is opened gets it."""
    gate = Gate(tell, settings=settings(is_owner=None))
    answer = send_to(gate, "GET", "/lab", HOST, PAGE)
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
        assert_refused(send_to(gate, method, path, HOST, header), "UNAUTHORIZED")


def test_a_public_address_is_an_origin_of_ours() -> None:
    """Behind a proxy with TLS the pages have its origin, and no other is let in for it."""
    public = settings(
        is_owner=None, allowed_hosts=["lab.example"], public_origin="https://lab.example"
    )
    gate = Gate(Echo(), settings=public)
    for host in (HOST, ("host", "lab.example")):
        ours: Header = ("origin", "https://lab.example")
        assert send_to(gate, "POST", "/", host, ours, WITH_TOKEN).status == 200
        for origin in ("https://evil.test", "https://lab.example:444", "https://lab.example.evil"):
            answer = send_to(gate, "POST", "/", host, ("origin", origin), WITH_TOKEN)
            assert_refused(answer, "FORBIDDEN")
