"""Gate: the one ASGI middleware in front of everything we serve, and the one shape of errors.

Owns who may come in (Host, Origin, token, content type, size) and what every answer carries.
Knows no route, and nothing of what lies behind it.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import logging
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from starlette.responses import JSONResponse, Response

from onceward import errors
from onceward.access.login import LOGIN_PATH, login_page
from onceward.access.peers import is_our_uid
from onceward.access.requests import has_token, is_forwarded
from onceward.errors import OncewardError
from onceward.statuses import STATUS_OF_CODE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_BYTES_MAX: Final = 8 * 1024 * 1024
#: Unless the application brings its own, as sandboxed content does.
CSP: Final = (
    b"default-src 'self'; object-src 'none'; base-uri 'none'; "
    b"frame-ancestors 'none'; form-action 'self'"
)
#: On every answer, whatever the application says.
RESPONSE_HEADERS: Final[Mapping[bytes, bytes]] = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
}
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OUR_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?", re.ASCII)
#: Where the server notes the user id of a connection's other end, in the scope's `state`.
PEER_UID: Final = "onceward.peer_uid"
#: Where the gate notes the token for a page that may be told it, in the scope.
_HANDED_OUT: Final = "onceward.token"
SEE_LOG: Final = "look into the server's log"
_Headers = dict[bytes, list[bytes]]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class GateSettings:
    """What the gate must know about the server it stands in front of."""

    #: The port the server really listens on; `localhost` and the like must name it.
    port: int
    #: What a change must present, and every request of a peer that is not the owner.
    token: str = field(repr=False)
    #: Tells whether a request comes from the user who runs this server; None: nobody is the owner.
    is_owner: Callable[[Scope], bool] | None = None
    #: Whether other machines can reach this server.
    external: bool = False
    #: Further names of this server, without a port: a proxy may have changed it.
    allowed_hosts: Sequence[str] = ()
    #: The origin that browsers see, where a proxy stands in front: `https://lab.example`.
    public_origin: str | None = None
    body_bytes_max: int = BODY_BYTES_MAX


class Gate:
    """Let in what may come in; refuse the rest before the application sees it."""

    def __init__(self, app: ASGIApp, *, settings: GateSettings) -> None:
        """Stand in front of `app`."""
        assert settings.token, "an empty token would let everybody in"
        self._app, self._settings = app, settings
        self._token = settings.token.encode()
        origin = settings.public_origin
        self._origins = frozenset() if origin is None else {origin.encode()}
        self._is_proxied = False
        self._names = {name.lower() for name in settings.allowed_hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, pass it on, and dress the answer."""
        ways = {"http": self._http, "websocket": self._websocket, "lifespan": self._app}
        await ways[scope["type"]](scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = _Exchange(scope, receive, send, self._settings.body_bytes_max)
        try:
            await self._pass_on(scope, exchange)
        except asyncio.CancelledError:
            # The server stops. What was begun may still come to its end.
            if not exchange.started:
                unknown = errors.OutcomeUnknown(fix="ask again; a request id makes that safe")
                await answer(unknown)(scope, receive, exchange.send)
            raise
        except Exception as exc:
            error = exchange.refusal or as_error(exc)
            if not exchange.started:
                is_login = isinstance(error, errors.Unauthorized) and exchange.wants_page()
                refused = login_page() if is_login else answer(error)
                await refused(scope, receive, exchange.send)
            elif not exchange.finished:
                raise  # half an answer cannot be taken back; the server closes the connection

    async def _pass_on(self, scope: Scope, exchange: _Exchange) -> None:
        is_owner = self._is_owner(scope, exchange.headers)
        self._check_caller(scope, exchange.headers)
        self._check_token(scope, exchange.headers, is_owner=is_owner)
        exchange.check_declared_body()
        is_login = (scope["method"], scope["path"]) == ("POST", LOGIN_PATH)
        app = self._logged_in(scope) if is_login else self._app
        told = {**scope, _HANDED_OUT: self._settings.token if is_owner else None}
        await app(told, exchange.receive, exchange.send_for_app)
        if not exchange.started:
            raise errors.Internal(fix=SEE_LOG)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _collect(scope)
        try:
            self._check_caller(scope, headers)
            self._check_token(scope, headers, is_owner=False)
        except OncewardError as exc:
            await send({"type": "websocket.close", "code": 1008, "reason": exc.code})
        else:
            await self._app(scope, receive, send)

    def _check_caller(self, scope: Scope, headers: _Headers) -> None:
        """Refuse names that are not ours (DNS rebinding) and pages that are not ours (CSRF)."""
        hosts = headers.get(b"host", ())
        host = hosts[0].lower() if len(hosts) == 1 else b""
        if not self._is_ours(host.decode("latin-1")):
            hint = " or start the server with --allow-host" if self._settings.external else ""
            raise errors.Misdirected(fix=f"use http://127.0.0.1:{self._settings.port}{hint}")
        our_page = set(headers.get(b"origin", ())) <= {b"http://" + host, *self._origins}
        our_site = set(headers.get(b"sec-fetch-site", ())) <= {b"same-origin", b"none"}
        if not our_page or not (our_site or _is_navigation(scope, headers)):
            message = "other sites may link to the pages of this server, and no more"
            fix = "use the pages of this server, or a client that is not a browser"
            raise errors.RequestRefused(message, fix=fix)

    def _is_ours(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name, port = found[1], int(found[2] or 80)
        if name in self._names or (name in _OUR_NAMES and port == self._settings.port):
            return True
        # A literal address is never the result of a DNS lookup, so nobody can rebind it.
        return self._settings.external and _is_address(name)

    def _is_owner(self, scope: Scope, headers: _Headers) -> bool:
        """Tell whether the user who runs this server asks; after a proxy was seen, nobody is."""
        is_owner, is_off = self._settings.is_owner, self._settings.external or self._is_proxied
        if is_owner is None or is_off or not is_owner(scope):
            return False
        self._is_proxied = is_forwarded(headers)
        if self._is_proxied:
            _log.warning(
                "a proxy forwards requests to this server: from now on every request needs the "
                "token; start the server with --trusted-proxy or --public-url",
                extra={"event": "gate.proxy_seen"},
            )
        return not self._is_proxied

    def _check_token(self, scope: Scope, headers: _Headers, *, is_owner: bool) -> None:
        """Refuse changes without the token, and without it everything that is not the owner's."""
        safe = scope.get("method") in _SAFE_METHODS  # a websocket has no method and is not safe
        may_read = is_owner or self._has_cookie(scope, headers)
        if has_token(headers, self._token) or (safe and may_read):
            return
        fix = "send the token in the header X-CM-LAB-TOKEN; `onceward token show` prints it"
        raise errors.Unauthorized(fix=fix)

    def _has_cookie(self, scope: Scope, headers: _Headers) -> bool:
        cookies = b";".join(headers.get(b"cookie", ())).split(b";")
        ours = self._cookie(scope).encode()
        return any(hmac.compare_digest(value.strip(), ours) for value in cookies)

    def _cookie(self, scope: Scope) -> str:
        """Return the cookie that lets a logged-in browser read.

        Cookies know no ports: the name keeps two servers of one host apart. Every other server of
        that host gets to see the value. So it is no token, and holds only for the user who logged
        in, where that is known.
        """
        uid = scope.get("state", {}).get(PEER_UID)
        proof = hmac.new(self._token, f"read only {uid}".encode(), "sha256").hexdigest()
        return f"onceward_{self._settings.port}={proof}"

    def _logged_in(self, scope: Scope) -> Response:
        """Answer a login: the token, for the page to keep, and the cookie, for what it embeds."""
        cookie = f"{self._cookie(scope)}; Path=/; HttpOnly; SameSite=Strict"
        return JSONResponse({"token": self._settings.token}, headers={"set-cookie": cookie})


class _Exchange:
    """One request and its answer: counts what comes in, dresses what goes out."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, body_bytes_max: int) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._body_bytes, self._body_bytes_max = 0, body_bytes_max
        self.headers = _collect(scope)
        self.started = self.finished = False
        #: Set when the body turns out unacceptable; outranks whatever the application answers.
        self.refusal: OncewardError | None = None

    def wants_page(self) -> bool:
        """Tell whether a browser opens an address to show it."""
        accepted = b",".join(self.headers.get(b"accept", ()))
        is_read = self._scope["method"] == "GET" and not _is_api(self._scope["path"])
        return is_read and b"text/html" in accepted

    def check_declared_body(self) -> None:
        lengths = self.headers.get(b"content-length", ())
        if len(set(lengths)) > 1 or not all(value.isdigit() for value in lengths):
            message = "the Content-Length header is not a number"
            raise errors.InvalidArgument(message, fix="send the length of the body in bytes")
        # Python refuses to read a number of thousands of digits; 18 say enough.
        declared = [int(value[:18]) for value in lengths]
        self._check_body(max(declared, default=int(b"transfer-encoding" in self.headers)))

    def _check_body(self, size: int) -> None:
        types = self.headers.get(b"content-type", ())
        plain = [value.partition(b";")[0].strip().lower() for value in types]
        changes = self._scope["method"] not in _SAFE_METHODS
        if size and changes and plain != [b"application/json"]:
            raise errors.UnsupportedMediaType(fix="send `Content-Type: application/json`")
        if size > self._body_bytes_max:
            raise errors.TooLarge(fix=f"send at most {self._body_bytes_max} bytes")

    async def receive(self) -> Message:
        message = await self._receive()
        self._body_bytes += len(message.get("body") or b"")
        try:
            self._check_body(self._body_bytes)
        except OncewardError as exc:
            self.refusal = exc
            raise
        return message

    async def send_for_app(self, message: Message) -> None:
        if self.started or self.refusal is None:
            await self.send(message)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            message = {**message, "headers": self._dress(message)}
        elif message["type"] == "http.response.body":
            self.finished = not message.get("more_body", False)
            message = {**message, "body": b""} if self._scope["method"] == "HEAD" else message
        await self._send(message)

    def _dress(self, message: Message) -> list[tuple[bytes, bytes]]:
        ours = dict(RESPONSE_HEADERS)
        if _is_api(self._scope["path"]) or message["status"] >= 400:
            ours[b"cache-control"] = b"no-store"
        theirs = [(name.lower(), value) for name, value in message.get("headers", ())]
        if all(name != b"content-security-policy" for name, _ in theirs):
            ours[b"content-security-policy"] = CSP
        cors = b"access-control-"  # we never invite another origin
        kept = [pair for pair in theirs if pair[0] not in ours and not pair[0].startswith(cors)]
        return [*kept, *ours.items()]


def _collect(scope: Scope) -> _Headers:
    headers: _Headers = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.lower(), []).append(value)
    return headers


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _is_api(path: str) -> bool:
    return path == "/api" or path.startswith("/api/")


def _is_navigation(scope: Scope, headers: _Headers) -> bool:
    """Tell whether somebody follows a link to one of our pages."""
    way = (headers.get(b"sec-fetch-mode"), headers.get(b"sec-fetch-dest"))
    reads = scope.get("method") in {"GET", "HEAD"} and not _is_api(scope["path"])
    return reads and way == ([b"navigate"], [b"document"])


def is_from_our_user(scope: Scope) -> bool:
    """Tell whether the connection of a request was opened by the user of this process."""
    return is_our_uid(scope.get("state", {}).get(PEER_UID))


def token_for(scope: Scope) -> str | None:
    """Return the token if this request's page may be told it, which only the owner's may."""
    token = scope.get(_HANDED_OUT)
    assert token is None or isinstance(token, str)
    return token


def as_error(exc: Exception) -> OncewardError:
    """Return what the outside may know of a failure; the log keeps the rest."""
    error = exc if isinstance(exc, OncewardError) else errors.Internal(fix=SEE_LOG)
    if STATUS_OF_CODE.get(error.code, 500) == 500:
        _log.error("a request failed", exc_info=exc)
    return error


def answer(error: OncewardError, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error as it leaves over HTTP."""
    # The standard library's encoder, because it takes every string, lone surrogates included.
    body = json.dumps(error.to_dict(), default=str, separators=(",", ":"))
    status = STATUS_OF_CODE.get(error.code, 500)
    challenge = {"www-authenticate": "Bearer"} if status == 401 else {}
    return Response(body, status, {**challenge, **(headers or {})}, media_type="application/json")
