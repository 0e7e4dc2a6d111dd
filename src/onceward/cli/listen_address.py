"""Listen address: host, port and allowed clients of a server command."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import re
import socket
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

import typer

from onceward.errors import InvalidArgument, PortInUse

if TYPE_CHECKING:
    from collections.abc import Sequence

PORT_DEFAULT: Final = 3939
#: How many ports after the default one are tried before giving up.
PORTS_TRIED_MAX: Final = 50
#: Addresses that mean "all of them" on the left, and one that a browser can open on the right.
WILDCARDS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - recognised, not chosen
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_NOT_STARTED: Final = "the server was not started"

# --- the options that servers share -------------------------------------------------------------

Host = Annotated[
    str,
    typer.Option(
        "--host",
        help="IP address or host name to listen on; one that other machines reach needs "
        "--allow-external.",
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        "--port",
        help=f"Port to listen on; 0 picks a free one. Default: {PORT_DEFAULT}, or the first free "
        "one after it.",
    ),
]
AllowExternal = Annotated[
    bool,
    typer.Option(
        "--allow-external",
        help="Accept requests from other machines; every request, from your own processes too, "
        "then needs the token. Default: refuse.",
    ),
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host",
        help="Another host name by which clients reach this server; needs --allow-external. "
        "Repeatable.",
    ),
]
RequireToken = Annotated[
    bool,
    typer.Option(
        "--require-token",
        help="Require the token, which `onceward token show` prints, for every request. "
        "Default: your own processes may read without it; changes and MCP calls always need it.",
    ),
]
PublicUrl = Annotated[
    str | None,
    typer.Option(
        "--public-url",
        help="URL at which a proxy serves this server; every request, from your own processes "
        "too, then needs the token.",
    ),
]
TrustedProxy = Annotated[
    list[str] | None,
    typer.Option(
        "--trusted-proxy",
        help="IP address or network of a proxy in front of this server: every request, from your "
        "own processes too, then needs the token. Repeatable.",
    ),
]
OpenPage = Annotated[
    bool | None,
    typer.Option(
        "--open/--no-open",
        help="Open the page in a browser; not without a display, or when all requests need the "
        "token. Default: only on a terminal, without --json.",
    ),
]
ServerJson = Annotated[
    bool,
    typer.Option(
        "--json",
        help="When the server is ready, print one line of JSON with `url` and `sessionId`.",
    ),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class ListenAddress:
    """The address that a server listens on, and the clients it accepts."""

    host: str
    #: None is the default port or the next free one, 0 any free one.
    port: int | None
    #: Whether other machines are accepted, with the token.
    external: bool
    #: Accepted host names.
    names: Sequence[str]
    #: Whether processes of the same user may read without the token.
    has_owner: bool = False
    #: The URL of this server behind a proxy.
    public_url: str | None = None

    def url(self, listener: socket.socket) -> str:
        """Return the address that a browser on this machine can open."""
        # Not `localhost`: a browser may try ::1 first, where another user can have the same port.
        named = "127.0.0.1" if self.host == "localhost" else self.host
        host = _bracketed(WILDCARDS.get(named, named))
        return f"http://{host}:{listener.getsockname()[1]}"


def check_listen_address(
    host: str,
    port: int | None,
    allow_host: list[str] | None,
    *,
    external: bool,
    require_token: bool,
    public_url: str | None,
    trusted_proxy: list[str] | None,
) -> ListenAddress:
    """Validate the options of a server."""
    allowed = allow_host or []
    if port is not None and not 0 <= port <= 65535:
        message = f"--port {port} is not a port; {_NOT_STARTED}"
        raise InvalidArgument(message, fix="choose a number from 0 to 65535")
    if not external and not _is_loopback(host):
        message = f"--host {host} would accept other machines; {_NOT_STARTED}"
        fix = "omit --host, or add --allow-external to accept them with a token"
        raise InvalidArgument(message, fix=fix)
    if allowed and not external:
        message = f"--allow-host requires --allow-external; {_NOT_STARTED}"
        raise InvalidArgument(message, fix="add --allow-external, or omit --allow-host")
    for option, name in (("--host", host), *(("--allow-host", each) for each in allowed)):
        if not _is_address(name) and not _NAME.fullmatch(name):
            message = f"{option} {name!r} is not a host name or an IP address; {_NOT_STARTED}"
            fix = "pass a host name or an IP address, without scheme and port, such as lab.example"
            raise InvalidArgument(message, fix=fix, field=option)
    for proxy in trusted_proxy or ():
        _check_network(proxy)
    names = [_bracketed(name) for name in (host, *allowed)]
    if public_url is not None:
        names.append(_host_of(public_url))
    return ListenAddress(
        host=host,
        port=port,
        external=external,
        names=names,
        # A proxy that runs as the same user looks like one of the user's own processes.
        has_owner=not (external or require_token or public_url or trusted_proxy),
        public_url=None if public_url is None else public_url.rstrip("/"),
    )


def _host_of(url: str) -> str:
    """Return the host in an address that people open, having checked that it is one."""
    host = None
    # ValueError: a bracket is not closed, or the port is not a number.
    with contextlib.suppress(ValueError):
        parts = urlsplit(url)
        rest = (parts.path.strip("/"), parts.query, parts.fragment, parts.username)
        if parts.scheme in ("http", "https") and parts.port != 0 and not any(rest):
            host = parts.hostname
    if not host:
        message = f"--public-url {url!r} is not the URL of a server; {_NOT_STARTED}"
        fix = "pass a scheme and a host, without a path, such as https://lab.example"
        raise InvalidArgument(message, fix=fix, field="--public-url")
    return _bracketed(host)


def _check_network(proxy: str) -> None:
    try:
        ipaddress.ip_network(proxy, strict=False)
    except ValueError as exc:
        message = f"--trusted-proxy {proxy!r} is not an IP address or a network; {_NOT_STARTED}"
        fix = "pass an address or a network, such as 127.0.0.1 or 10.0.0.0/8"
        raise InvalidArgument(message, fix=fix, field="--trusted-proxy") from exc


def _is_address(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(host))
    return False


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


# --- listening ----------------------------------------------------------------------------------


def listen(address: ListenAddress) -> socket.socket:
    """Return a socket that listens: on the port asked for, or on the first free one."""
    if address.port is not None:
        return _bind(address.host, address.port)
    for candidate in range(PORT_DEFAULT, PORT_DEFAULT + PORTS_TRIED_MAX + 1):
        with contextlib.suppress(PortInUse):
            listener = _bind(address.host, candidate)
            if candidate != PORT_DEFAULT:
                print(f"port {PORT_DEFAULT} is in use; using {candidate}", file=sys.stderr)
            return listener
    message = (
        f"ports {PORT_DEFAULT} to {PORT_DEFAULT + PORTS_TRIED_MAX} are all in use; {_NOT_STARTED}"
    )
    raise PortInUse(message, fix="add --port 0 to take any free port")


def _bind(host: str, port: int) -> socket.socket:
    address = "127.0.0.1" if host == "localhost" else host
    try:
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)
        listener = socket.create_server(found[0][4], family=found[0][0])
        # What it accepts inherits this; else every answer in two parts waits 40 ms for the first.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as exc:
        if exc.errno == errno.EADDRINUSE:
            message = f"port {port} on {host} is in use; {_NOT_STARTED}"
            fix = "choose another port, --port 0 for any free one, or omit --port"
            raise PortInUse(message, fix=fix) from exc
        message = f"cannot listen on {host}, port {port}: {exc.strerror}; {_NOT_STARTED}"
        raise InvalidArgument(message, fix="choose another --host or --port") from exc
    return listener
