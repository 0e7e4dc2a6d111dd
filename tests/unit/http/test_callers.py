"""Request guard: which requests it accepts, by Host, Origin and token."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING

import pytest

from onceward import errors
from onceward.errors.http_status import STATUS_OF_CODE
from onceward.http.guard import RequestGuard
from onceward.http.login import LOGIN_PATH
from tests.support.guarded_asgi_calls import (
    FOLLOWED,
    HOST,
    PORT,
    TOKEN,
    WITH_TOKEN,
    Echo,
    Header,
    assert_refused,
    assert_response_headers,
    log_in,
    send_to,
    settings,
)

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


# --- the table of codes --------------------------------------------------------------------------


CONTRACT = """
    400 INVALID_ARGUMENT INVALID_CURSOR INVALID_JSON INVALID_MESSAGE NOT_CANONICAL PORT_IN_USE
    SOURCE_NOT_READABLE SQL_FAILED UNDECODABLE_TEXT WRONG_PATH · 401 UNAUTHORIZED · 403
    FORBIDDEN · 404 NOT_FOUND CURSOR_NOT_FOUND DEAD_LETTER_NOT_FOUND ENTITY_NOT_FOUND
    FILE_NOT_FOUND GROUP_NOT_FOUND RUN_NOT_FOUND · 405 METHOD_NOT_ALLOWED · 409 CONFLICT
    ALREADY_SUBMITTED AMBIGUOUS BATCH_IN_FLIGHT CURSOR_ERROR FENCE_LOST FILES_CHANGED
    FORKED_IN_TRANSACTION IN_FLIGHT JOINED_CONCURRENTLY LEASE_LOST NOTHING_TO_UNDO
    NOT_RECONCILABLE RECORDED_FAILURE RESULT_NOT_STORED RUN_LOCKED SECOND_SQLITE SUPERSEDED
    VERSION_MISMATCH WRITER_HELD · 410 KEY_EXPIRED · 413 TOO_LARGE · 415 UNSUPPORTED_MEDIA_TYPE
    · 416 RANGE_NOT_SATISFIABLE · 421 MISDIRECTED · 422 KEY_REUSED · 500 INTERNAL OPERATION_FAILED
    · 503 UNAVAILABLE AGENT_FAILED DISK_FULL FSYNC_FAILED LEDGER_DAMAGED NOT_WRITABLE
    OUTCOME_UNKNOWN RETRYABLE SCHEMA_MISMATCH SERIALIZATION_FAILED SOURCE_ERROR
    SOURCE_UNAVAILABLE STORAGE_ERROR STORE_BUSY STORE_ERROR
"""


def test_the_statuses_are_those_that_clients_rely_on() -> None:
    """The table says what the documentation promises, no more and no less."""
    lines = [line.split() for line in CONTRACT.split("·")]
    assert {code: int(status) for status, *codes in lines for code in codes} == STATUS_OF_CODE


def test_every_error_code_has_a_status() -> None:
    """No error of ours falls back to 500 because the table forgot its code."""
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    codes = {kind.code for kind in kinds if issubclass(kind, errors.OncewardError)}
    assert codes <= set(STATUS_OF_CODE)


@pytest.mark.parametrize(("code", "status"), STATUS_OF_CODE.items())
def test_an_error_leaves_with_the_status_of_its_code(code: str, status: int) -> None:
    """An error raised by the application is answered in our shape, with its facts."""

    class Special(errors.OncewardError):
        """It went wrong."""

    Special.code = code

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        message = "no"
        raise Special(message, fix="do it", path="\ud800", when=object)

    answer = send_to(RequestGuard(app, settings=settings()), "GET", "/", HOST)
    assert_refused(answer, code)
    assert answer.status == status
    assert answer.error["context"]["path"] == "\ud800"


# --- Host ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]", "LocalHost"])
def test_our_own_names_come_in(name: str) -> None:
    """The loopback names with our port reach the application."""
    assert (
        send_to(
            RequestGuard(Echo(), settings=settings()), "GET", "/", ("host", f"{name}:{PORT}")
        ).status
        == 200
    )


FOREIGN_HOSTS = [
    "evil.test",
    f"evil.test:{PORT}",
    f"127.0.0.1.evil.test:{PORT}",
    f"localhost.evil.test:{PORT}",
    f"localhost.:{PORT}",
    f"localhost:{PORT + 1}",
    f"127.0.0.1:{PORT}0",
    "localhost",
    "127.0.0.1",
    f"127.0.0.2:{PORT}",
    f"192.168.0.7:{PORT}",
    f"0.0.0.0:{PORT}",
    f"[::2]:{PORT}",
    f"evil.test@localhost:{PORT}",
    f"localhost:{PORT}@evil.test",
    f"localhost:{PORT}, evil.test",
    f"localhost:{PORT}\n",
    f" localhost:{PORT}",
    "localhost:",
    f":{PORT}",
    "",
    "\xff\xfe",
    "localhost:\xb2",
]


def test_a_host_that_is_not_ours_is_misdirected() -> None:
    """A name that a foreign DNS points here never reaches the application."""
    for host in FOREIGN_HOSTS:
        for method in ["GET", "HEAD", "OPTIONS", "POST"]:
            app = Echo()
            answer = send_to(
                RequestGuard(app, settings=settings()), method, "/", ("host", host), WITH_TOKEN
            )
            assert answer.status == 421
            assert_response_headers(answer)
            assert app.calls == []


@pytest.mark.parametrize("hosts", [[], [HOST, HOST], [HOST, ("host", "evil.test")]])
def test_there_must_be_exactly_one_host(hosts: list[Header]) -> None:
    """No Host, or two of them, even if both are ours, is refused."""
    assert_refused(
        send_to(RequestGuard(Echo(), settings=settings()), "GET", "/", *hosts), "MISDIRECTED"
    )


def test_port_80_may_be_left_out() -> None:
    """Browsers leave the default port out of the Host header."""
    guard = RequestGuard(Echo(), settings=settings(port=80))
    assert send_to(guard, "GET", "/", ("host", "localhost")).status == 200


def test_further_names_come_in_when_allowed() -> None:
    """A name given by the operator is ours, at any port a proxy may have."""
    guard = RequestGuard(Echo(), settings=settings(allowed_hosts=["Lab.Example"]))
    assert send_to(guard, "GET", "/", ("host", "lab.example:8443")).status == 200
    assert send_to(guard, "GET", "/", ("host", "other.example")).status == 421


def test_external_mode_takes_addresses_but_no_unknown_names() -> None:
    """An address cannot be rebound by DNS, a name can."""
    guard = RequestGuard(Echo(), settings=settings(external=True))
    for host in (f"192.168.0.7:{PORT}", f"[fe80::1]:{PORT}"):
        assert send_to(guard, "GET", "/", ("host", host), WITH_TOKEN).status == 200
    for host in (f"evil.test:{PORT}", f"1.2.3.4.evil.test:{PORT}", f"0x7f.1:{PORT}"):
        assert_refused(send_to(guard, "GET", "/", ("host", host), WITH_TOKEN), "MISDIRECTED")


# --- Origin and Sec-Fetch-* ----------------------------------------------------------------------

FOREIGN_ORIGINS = [
    "null",
    "http://evil.test",
    f"http://evil.test:{PORT}",
    f"http://127.0.0.1:{PORT + 1}",
    "http://127.0.0.1",
    f"https://127.0.0.1:{PORT}",
    f"http://localhost:{PORT}",
    f"http://127.0.0.1:{PORT}.evil.test",
    f"http://127.0.0.1:{PORT}/",
    f"127.0.0.1:{PORT}",
    "",
    "\xff",
]


def test_a_foreign_origin_is_refused_on_every_method() -> None:
    """A page of another origin gets nothing, the right token or not."""
    for origin in FOREIGN_ORIGINS:
        for method in ["GET", "HEAD", "OPTIONS", "POST", "DELETE"]:
            app = Echo()
            answer = send_to(
                RequestGuard(app, settings=settings()),
                method,
                "/",
                HOST,
                ("origin", origin),
                WITH_TOKEN,
            )
            assert answer.status == 403
            assert_response_headers(answer)
            assert app.calls == []


def test_our_own_origin_comes_in() -> None:
    """Our own pages may talk to us; one foreign origin beside it spoils it."""
    guard = RequestGuard(Echo(), settings=settings())
    ours = ("origin", f"http://127.0.0.1:{PORT}")
    assert send_to(guard, "GET", "/", HOST, ours).status == 200
    assert send_to(guard, "POST", "/", HOST, ours, WITH_TOKEN).status == 200
    assert_refused(send_to(guard, "GET", "/", HOST, ours, ("origin", "null")), "FORBIDDEN")


@pytest.mark.parametrize("site", ["cross-site", "same-site", "Same-Origin", "", "none, cross-site"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST"])
def test_requests_from_another_site_are_refused(site: str, method: str) -> None:
    """What the browser marks as coming from elsewhere is refused, the right token or not."""
    guard = RequestGuard(Echo(), settings=settings())
    answer = send_to(guard, method, "/", HOST, ("sec-fetch-site", site), WITH_TOKEN)
    assert answer.status == 403
    assert_response_headers(answer)


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_our_pages_and_typed_addresses_come_in(site: str) -> None:
    """`none` is an address typed by hand or opened from a bookmark."""
    guard = RequestGuard(Echo(), settings=settings())
    assert send_to(guard, "GET", "/api/x", HOST, ("sec-fetch-site", site)).status == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 200),
        ("HEAD", "/healthz", 200),
        ("GET", "/apiary", 200),
        ("GET", "/api/runs", 403),
        ("GET", "/api", 403),
        ("POST", "/", 403),
        ("OPTIONS", "/", 403),
    ],
)
def test_another_site_may_link_to_our_pages_only(method: str, path: str, status: int) -> None:
    """A followed link opens a page; it reads no API and changes nothing."""
    guard = RequestGuard(Echo(), settings=settings())
    assert send_to(guard, method, path, HOST, WITH_TOKEN, *FOLLOWED).status == status


@pytest.mark.parametrize(
    ("name", "value"), [("sec-fetch-dest", "iframe"), ("sec-fetch-mode", "no-cors")]
)
def test_only_a_whole_page_counts_as_following_a_link(name: str, value: str) -> None:
    """Frames, images and scripts of another site are not navigation."""
    headers = [(found, value if found == name else kept) for found, kept in FOLLOWED]
    answer = send_to(RequestGuard(Echo(), settings=settings()), "GET", "/", HOST, *headers)
    assert_refused(answer, "FORBIDDEN")


# --- the token -----------------------------------------------------------------------------------

GOOD_TOKENS: list[Header] = [
    WITH_TOKEN,
    ("authorization", f"Bearer {TOKEN}"),
    ("authorization", f"bearer  {TOKEN}"),
]
BAD_TOKENS: list[Header] = [
    ("x-cm-lab-token", ""),
    ("x-cm-lab-token", "tok_wrong"),
    ("x-cm-lab-token", TOKEN + "x"),
    ("x-cm-lab-token", TOKEN[:-1]),
    ("x-cm-lab-token", TOKEN.upper()),
    ("x-cm-lab-token", b"\xff\xfe\x00"),
    ("x-cm-lab-token", "töken".encode()),
    ("authorization", TOKEN),
    ("authorization", f"Basic {TOKEN}"),
    ("authorization", "Bearer"),
    ("authorization", b"Bearer \xe2\x82\xac"),
    ("cookie", f"onceward_{PORT}={TOKEN}"),
    ("accept", "*/*"),
]
UNSAFE = ["POST", "PUT", "PATCH", "DELETE", "TRACE", "BREW"]


def test_a_change_without_the_token_is_refused() -> None:
    """Whatever is not known to be safe needs the token, and strange bytes break nothing."""
    for method in UNSAFE:
        for header in BAD_TOKENS:
            app = Echo()
            answer = send_to(RequestGuard(app, settings=settings()), method, "/", HOST, header)
            assert_refused(answer, "UNAUTHORIZED")
            assert answer.header("www-authenticate") == "Bearer"
            assert app.calls == []


@pytest.mark.parametrize("method", UNSAFE)
@pytest.mark.parametrize("header", GOOD_TOKENS)
def test_a_change_with_the_token_comes_in(method: str, header: Header) -> None:
    """The token opens in its own header and as a bearer."""
    assert (
        send_to(RequestGuard(Echo(), settings=settings()), method, "/", HOST, header).status == 200
    )


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_the_owner_reads_without_the_token(method: str) -> None:
    """Only changes of the owner need the token."""
    assert send_to(RequestGuard(Echo(), settings=settings()), method, "/", HOST).status == 200


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", *UNSAFE])
def test_external_mode_needs_the_token_for_everything(method: str) -> None:
    """Where other machines can ask, nothing is free."""
    guard = RequestGuard(Echo(), settings=settings(external=True))
    answer = send_to(guard, method, "/", HOST)
    assert answer.status == 401
    assert_response_headers(answer)
    assert send_to(guard, method, "/", HOST, WITH_TOKEN).status == 200


def test_a_login_gives_the_page_its_token_and_the_browser_a_cookie() -> None:
    """The page keeps the token; what it embeds comes with a cookie that scripts cannot read."""
    app = Echo()
    guard = RequestGuard(app, settings=settings(is_owner=None))
    answer = send_to(guard, "POST", LOGIN_PATH, HOST, WITH_TOKEN)
    assert answer.status == 200
    page_token = json.loads(answer.body)["token"]
    assert send_to(guard, "POST", "/", HOST, ("x-cm-lab-token", page_token)).status == 200
    assert answer.header("cache-control") == "no-store"
    cookie = str(answer.header("set-cookie"))
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
    assert TOKEN not in cookie
    assert page_token not in cookie
    assert_response_headers(answer)
    assert app.calls == ["http"]  # The change above; a login never reaches the application.


@pytest.mark.parametrize("header", [*BAD_TOKENS, ("origin", "http://evil.test")])
def test_a_login_without_the_token_gives_nothing(header: Header) -> None:
    """Not even the owner logs in without it: a page of another site could do that for him."""
    guard = RequestGuard(Echo(), settings=settings())
    cookie = log_in(guard)
    answer = send_to(guard, "POST", LOGIN_PATH, HOST, header, cookie)
    assert answer.status in {401, 403}
    assert answer.header("set-cookie") is None
    assert TOKEN.encode() not in answer.body


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_the_cookie_lets_read(method: str) -> None:
    """A browser that logged in may read, also with other cookies around ours."""
    guard = RequestGuard(Echo(), settings=settings(external=True))
    name, value = log_in(guard)
    assert send_to(guard, method, "/", HOST, (name, value)).status == 200
    assert send_to(guard, method, "/", HOST, (name, f"a=b; {value!s};c")).status == 200


@pytest.mark.parametrize("method", UNSAFE)
@pytest.mark.parametrize("external", [True, False])
def test_the_cookie_never_lets_change(method: str, *, external: bool) -> None:
    """Cookies travel by themselves, so they authorise nothing that changes anything."""
    cookie = log_in(RequestGuard(Echo(), settings=settings(external=True)))
    guard = RequestGuard(Echo(), settings=settings(external=external))
    assert_refused(send_to(guard, method, "/", HOST, cookie), "UNAUTHORIZED")
    proof = str(cookie[1]).partition("=")[2]
    assert_refused(send_to(guard, method, "/", HOST, ("x-cm-lab-token", proof)), "UNAUTHORIZED")


@pytest.mark.parametrize(
    "cookie", ["", "onceward_3939", "onceward_3939=", f"onceward_{PORT}={TOKEN}", "\xff=\xfe"]
)
def test_a_wrong_cookie_gives_no_access(cookie: str) -> None:
    """Neither an empty cookie nor the token itself passes for the cookie."""
    guard = RequestGuard(Echo(), settings=settings(external=True))
    assert_refused(send_to(guard, "GET", "/", HOST, ("cookie", cookie)), "UNAUTHORIZED")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_token_in_the_address_counts_for_nothing(method: str) -> None:
    """Addresses stand in logs, histories and Referer headers."""
    guard = RequestGuard(Echo(), settings=settings(is_owner=None))
    answer = send_to(guard, method, f"/?token={TOKEN}", HOST)
    assert_refused(answer, "UNAUTHORIZED")
    assert answer.header("set-cookie") is None
