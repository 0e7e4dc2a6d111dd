"""Request guard: ASGI middleware of every server; checks owner, token and origin of requests.

Also checks Host, content type and body size. Adds security headers and the common error
format to every response. Knows no route.
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
from onceward.errors import OncewardError
from onceward.errors.http_status import STATUS_OF_CODE
from onceward.http.login import LOGIN_PATH, login_page
from onceward.http.peers import is_our_uid
from onceward.http.request_headers import has_token, is_forwarded
from onceward.system import Ids

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_BYTES_MAX: Final = 8 * 1024 * 1024
#: Content security policy of responses that bring none of their own, as sandboxed content does.
CSP: Final = (
    b"default-src 'self'; object-src 'none'; base-uri 'none'; "
    b"frame-ancestors 'none'; form-action 'self'"
)
#: Set on every response; they override the application's.
RESPONSE_HEADERS: Final[Mapping[bytes, bytes]] = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
}
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?", re.ASCII)
_BROWSER_HEADERS: Final = frozenset({b"origin", b"accept-language"})
#: Key in the scope's `state` under which the server stores the user id of the peer.
PEER_UID: Final = "onceward.peer_uid"
#: Key in the scope of the page token, for a page of the owner.
_TOKEN_KEY: Final = "onceward.token"  # noqa: S105 - a key of the scope, not a token
SEE_LOG: Final = "check the server's log for the cause"
_Headers = dict[bytes, list[bytes]]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class GuardSettings:
    """What the request guard must know about its server."""

    #: The port that the server listens on; a Host of `localhost` and the like must name it.
    port: int
    #: The token that changes need, and every request of a peer that is not the owner.
    token: str = field(repr=False)
    #: Whether a request comes from the user who runs this server; None: no request does.
    is_owner: Callable[[Scope], bool] | None = None
    #: Whether other machines can reach this server.
    external: bool = False
    #: Further host names of this server, without a port, since a proxy may change it.
    allowed_hosts: Sequence[str] = ()
    #: The origin that browsers see behind a proxy, such as `https://lab.example`.
    public_origin: str | None = None
    body_bytes_max: int = BODY_BYTES_MAX


class RequestGuard:
    """Passes allowed requests to an application; rejects the others before it sees them."""

    def __init__(self, app: ASGIApp, *, settings: GuardSettings) -> None:
        """Guard `app`."""
        assert settings.token, "an empty token would let every client in"
        self._app, self._settings = app, settings
        self._token = settings.token.encode()
        # Pages get a token that is valid for this process only. An open page keeps polling after
        # the server stopped, and another local user may listen on its port by then.
        self._page_token = Ids().new("tok")
        origin = settings.public_origin
        self._origins = frozenset() if origin is None else {origin.encode()}
        self._is_proxied = False
        self._names = {name.lower() for name in settings.allowed_hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, forward it, and add the headers of the response."""
        handlers = {"http": self._http, "websocket": self._websocket, "lifespan": self._app}
        await handlers[scope["type"]](scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = _Exchange(scope, receive, send, self._settings.body_bytes_max)
        try:
            await self._forward(scope, exchange)
        except asyncio.CancelledError:
            # The server stops; a thread may still complete the request.
            if not exchange.started:
                message = "the server stopped; the request may or may not have been carried out"
                fix = "send it again with the same request id; without one, first check its effect"
                unknown = errors.OutcomeUnknown(message, fix=fix)
                await error_response(unknown)(scope, receive, exchange.send)
            raise
        except Exception as exc:
            error = exchange.body_error or to_public_error(exc)
            if not exchange.started:
                is_login = isinstance(error, errors.Unauthorized) and exchange.wants_page()
                refused = login_page() if is_login else error_response(error)
                await refused(scope, receive, exchange.send)
            elif not exchange.finished:
                raise  # Half a response cannot be undone; the server closes the connection.

    async def _forward(self, scope: Scope, exchange: _Exchange) -> None:
        is_owner = self._is_owner(scope, exchange.headers)
        self._check_caller(scope, exchange.headers)
        self._check_token(scope, exchange.headers, is_owner=is_owner)
        exchange.check_declared_body()
        is_login = (scope["method"], scope["path"]) == ("POST", LOGIN_PATH)
        app = self._login_response(scope) if is_login else self._app
        for_app = {**scope, _TOKEN_KEY: self._page_token if is_owner else None}
        await app(for_app, exchange.receive, exchange.send_for_app)
        if not exchange.started:
            raise errors.Internal(fix=SEE_LOG)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _collect_headers(scope)
        try:
            self._check_caller(scope, headers)
            self._check_token(scope, headers, is_owner=False)
        except OncewardError as exc:
            await send({"type": "websocket.close", "code": 1008, "reason": exc.code})
        else:
            await self._app(scope, receive, send)

    def _check_caller(self, scope: Scope, headers: _Headers) -> None:
        """Reject host names (DNS rebinding) and pages (CSRF) that are not this server's."""
        host = _host(headers)
        if not self._is_own_host(host.decode("latin-1")):
            option = "--allow-host" if self._settings.external else "--public-url"
            fix = f"use http://127.0.0.1:{self._settings.port}, or start the server with {option}"
            shown = host.decode("latin-1")
            message = (
                f"the Host header must name this server once, not {shown!r:.100}; "
                "nothing was changed"
            )
            raise errors.Misdirected(message, fix=fix)
        our_page = set(headers.get(b"origin", ())) <= {b"http://" + host, *self._origins}
        our_site = set(headers.get(b"sec-fetch-site", ())) <= {b"same-origin", b"none"}
        if not our_page or not (our_site or _is_navigation(scope, headers)):
            message = "a page of another site sent this request; nothing was changed"
            fix = "use the pages of this server; behind a proxy, start the server with --public-url"
            raise errors.RequestRefused(message, fix=fix)

    def _is_own_host(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name, port = found[1], int(found[2] or 80)
        if name in self._names or (name in _LOOPBACK_NAMES and port == self._settings.port):
            return True
        # A literal address involves no DNS lookup, so DNS rebinding cannot use it.
        return self._settings.external and _is_address(name)

    def _is_owner(self, scope: Scope, headers: _Headers) -> bool:
        """Return whether the user who runs this server sent the request.

        Once a request came through a proxy, the answer is no until the server restarts.
        """
        is_owner, is_off = self._settings.is_owner, self._settings.external or self._is_proxied
        if is_owner is None or is_off or not is_owner(scope):
            return False
        forwarded = is_forwarded(headers)
        self._is_proxied = forwarded and not self._is_rebound_page(headers)
        if self._is_proxied:
            _log.warning(
                "a proxy forwards requests to this server, so every request needs the token until "
                "it restarts; start it with --trusted-proxy or --public-url",
                extra={"event": "guard.proxy_seen"},
            )
        return not forwarded

    def _is_rebound_page(self, headers: _Headers) -> bool:
        """Return whether a browser uses a host name that is not ours, as after DNS rebinding.

        Scripts of such a page can set proxy headers, and would switch off the owner's access.
        """
        # Over plain HTTP a browser sends no Sec-Fetch-*, and no Origin with a GET of the same
        # origin. It always sends Accept-Language, which a script can change but not remove.
        is_browser = not _BROWSER_HEADERS.isdisjoint(headers)
        is_browser = is_browser or any(name.startswith(b"sec-fetch-") for name in headers)
        return is_browser and not self._is_own_host(_host(headers).decode("latin-1"))

    def _check_token(self, scope: Scope, headers: _Headers, *, is_owner: bool) -> None:
        """Require the token for changes, and for reads without ownership or a login cookie."""
        safe = scope.get("method") in _SAFE_METHODS  # a websocket has no method and is not safe
        may_read = is_owner or self._has_cookie(scope, headers)
        tokens = (self._token, self._page_token.encode())
        if any(has_token(headers, each) for each in tokens) or (safe and may_read):
            return
        fix = (
            "send the server's token in the header X-CM-LAB-TOKEN or as Authorization: Bearer; "
            "`onceward token show` prints it, unless a memory server has $ONCEWARD_MEMORY_TOKEN; "
            "in a browser, reload the page"
        )
        raise errors.Unauthorized(fix=fix)

    def _has_cookie(self, scope: Scope, headers: _Headers) -> bool:
        cookies = b";".join(headers.get(b"cookie", ())).split(b";")
        ours = self._cookie(scope).encode()
        return any(hmac.compare_digest(value.strip(), ours) for value in cookies)

    def _cookie(self, scope: Scope) -> str:
        """Return the cookie that lets a logged-in browser read, but not change.

        Cookies are not isolated by port: the name keeps two servers of one host apart, and every
        server of that host sees the value. So the value is not the token, and is valid only for
        the user who logged in, where the user is known.
        """
        uid = scope.get("state", {}).get(PEER_UID)
        proof = hmac.new(self._token, f"read only {uid}".encode(), "sha256").hexdigest()
        return f"onceward_{self._settings.port}={proof}"

    def _login_response(self, scope: Scope) -> Response:
        """Return the response to a login: the page token for changes, and the cookie for reads."""
        is_tls = (self._settings.public_origin or "").startswith("https:")
        rest = "; Path=/; HttpOnly; SameSite=Strict" + ("; Secure" if is_tls else "")
        cookie = self._cookie(scope) + rest
        return JSONResponse({"token": self._page_token}, headers={"set-cookie": cookie})


class _Exchange:
    """One request and its response: limits the body, adds the headers."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, body_bytes_max: int) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._body_bytes, self._body_bytes_max = 0, body_bytes_max
        self.headers = _collect_headers(scope)
        self.started = self.finished = False
        #: Set when the body is unacceptable; replaces any response of the application.
        self.body_error: OncewardError | None = None

    def wants_page(self) -> bool:
        """Return whether a browser opened this address as a page."""
        accepted = b",".join(self.headers.get(b"accept", ()))
        is_read = self._scope["method"] == "GET" and not _is_api(self._scope["path"])
        return is_read and b"text/html" in accepted

    def check_declared_body(self) -> None:
        lengths = self.headers.get(b"content-length", ())
        if len(set(lengths)) > 1 or not all(value.isdigit() for value in lengths):
            message = "the Content-Length header is malformed or ambiguous; nothing was changed"
            raise errors.InvalidArgument(
                message, fix="send one Content-Length: the body's length in bytes"
            )
        # Python rejects a number of thousands of digits; 18 are enough to compare.
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
            self.body_error = exc
            raise
        return message

    async def send_for_app(self, message: Message) -> None:
        if self.started or self.body_error is None:
            await self.send(message)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            message = {**message, "headers": self._with_headers(message)}
        elif message["type"] == "http.response.body":
            self.finished = not message.get("more_body", False)
            message = {**message, "body": b""} if self._scope["method"] == "HEAD" else message
        await self._send(message)

    def _with_headers(self, message: Message) -> list[tuple[bytes, bytes]]:
        ours = dict(RESPONSE_HEADERS)
        if _is_api(self._scope["path"]) or message["status"] >= 400:
            ours[b"cache-control"] = b"no-store"
        theirs = [(name.lower(), value) for name, value in message.get("headers", ())]
        if all(name != b"content-security-policy" for name, _ in theirs):
            ours[b"content-security-policy"] = CSP
        cors = b"access-control-"  # No other origin gets access.
        kept = [pair for pair in theirs if pair[0] not in ours and not pair[0].startswith(cors)]
        return [*kept, *ours.items()]


def _collect_headers(scope: Scope) -> _Headers:
    headers: _Headers = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.lower(), []).append(value)
    return headers


def _host(headers: _Headers) -> bytes:
    """Return the Host header in lower case; empty unless there is exactly one."""
    hosts = headers.get(b"host", ())
    return hosts[0].lower() if len(hosts) == 1 else b""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _is_api(path: str) -> bool:
    return path == "/api" or path.startswith("/api/")


def _is_navigation(scope: Scope, headers: _Headers) -> bool:
    """Return whether a browser follows a link to one of our pages."""
    way = (headers.get(b"sec-fetch-mode"), headers.get(b"sec-fetch-dest"))
    reads = scope.get("method") in {"GET", "HEAD"} and not _is_api(scope["path"])
    return reads and way == ([b"navigate"], [b"document"])


def is_same_user(scope: Scope) -> bool:
    """Return whether the user of this process opened the connection of a request."""
    return is_our_uid(scope.get("state", {}).get(PEER_UID))


def page_token_for(scope: Scope) -> str | None:
    """Return the page token, valid until this process ends, for a request of the owner."""
    token = scope.get(_TOKEN_KEY)
    assert token is None or isinstance(token, str)
    return token


def to_public_error(exc: Exception) -> OncewardError:
    """Return the error that a client may see; the details of a server error go to the log."""
    error = exc if isinstance(exc, OncewardError) else errors.Internal(fix=SEE_LOG)
    if STATUS_OF_CODE.get(error.code, 500) == 500:
        _log.error("a request failed with an unexpected error", exc_info=exc)
    return error


def error_response(error: OncewardError, headers: Mapping[str, str] | None = None) -> Response:
    """Return the HTTP response of an error."""
    # The standard library's encoder, because it takes every string, lone surrogates included.
    body = json.dumps(error.to_dict(), default=str, separators=(",", ":"))
    status = STATUS_OF_CODE.get(error.code, 500)
    challenge = {"www-authenticate": "Bearer"} if status == 401 else {}
    return Response(body, status, {**challenge, **(headers or {})}, media_type="application/json")
