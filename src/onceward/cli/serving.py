"""Serving: how a server command listens, tells where it is, and stops. Knows not what it serves."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import json
import logging
import os
import re
import socket
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from onceward.cli.stopping import on_stop
from onceward.errors import Internal, InvalidArgument

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from starlette.applications import Starlette
    from uvicorn import Server

PORT_DEFAULT: Final = 3939
#: How many ports after the default one are tried before giving up.
PORTS_TRIED_MAX: Final = 50
#: Requests that still run after this are cut off, so that stopping takes less than two seconds.
SHUTDOWN_SECONDS: Final = 1
#: A server that ends by itself answers this much longer: the page asks for its last things.
LINGER_SECONDS: Final = 1.5
#: Addresses that mean "all of them" on the left, and one that a browser can open on the right.
_WILDCARDS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - recognised, not chosen
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")

# --- the options that servers share -------------------------------------------------------------

Host = Annotated[str, typer.Option("--host", help="Address to listen on.")]
Port = Annotated[
    int | None,
    typer.Option(
        "--port", help=f"Port to listen on; 0 is any free one. Without: {PORT_DEFAULT} or next."
    ),
]
AllowExternal = Annotated[
    bool, typer.Option("--allow-external", help="Let other machines in, with a token.")
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host", help="One more name of this server, with --allow-external. Repeatable."
    ),
]
OpenPage = Annotated[
    bool | None,
    typer.Option(
        "--open/--no-open",
        help="Open a browser, or do not. Without: if a person sits at this terminal.",
    ),
]
ServerJson = Annotated[
    bool, typer.Option("--json", help="Print one line of JSON once the server answers.")
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a server listens, and for whom."""

    host: str
    #: None is the default port or the next free one, 0 any free one.
    port: int | None
    #: Whether other machines may come in, with the token.
    external: bool
    #: The names this server goes by.
    names: Sequence[str]

    def url(self, listener: socket.socket) -> str:
        """Return the address that a browser on this machine can open."""
        host = _bracketed(_WILDCARDS.get(self.host, self.host))
        return f"http://{host}:{listener.getsockname()[1]}"


def check_place(
    host: str, port: int | None, allow_host: list[str] | None, *, external: bool
) -> Place:
    """Refuse what cannot or should not be served."""
    allowed = allow_host or []
    if port is not None and not 0 <= port <= 65535:
        message = f"--port {port} is not a port"
        raise InvalidArgument(message, fix="choose a number from 0 to 65535")
    if not external and not _is_loopback(host):
        message = f"--host {host} would let other machines in"
        fix = "leave --host out, or add --allow-external to let them in with a token"
        raise InvalidArgument(message, fix=fix)
    if allowed and not external:
        message = "--allow-host is for servers that other machines can reach"
        raise InvalidArgument(message, fix="add --allow-external, or leave --allow-host out")
    for name in (host, *allowed):
        if not _is_address(name) and not _NAME.fullmatch(name):
            message = f"{name!r} is not the name of a host"
            raise InvalidArgument(message, fix="write a name or an address, without a port")
    names = [_bracketed(name) for name in (host, *allowed)]
    return Place(host=host, port=port, external=external, names=names)


def _is_address(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(host))
    return False


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


# --- listening ----------------------------------------------------------------------------------


def listen(place: Place) -> socket.socket:
    """Return a socket that listens: on the port asked for, or on the first free one."""
    if place.port is not None:
        return _bind(place.host, place.port)
    for candidate in range(PORT_DEFAULT, PORT_DEFAULT + PORTS_TRIED_MAX + 1):
        with contextlib.suppress(_Taken):
            listener = _bind(place.host, candidate)
            if candidate != PORT_DEFAULT:
                print(f"port {PORT_DEFAULT} is taken, so this is {candidate}", file=sys.stderr)
            return listener
    message = f"ports {PORT_DEFAULT} to {PORT_DEFAULT + PORTS_TRIED_MAX} are all taken"
    raise InvalidArgument(message, fix="add --port 0 to take any free port")


class _Taken(InvalidArgument):
    """Another process listens on this port."""


def _bind(host: str, port: int) -> socket.socket:
    address = "127.0.0.1" if host == "localhost" else host
    try:
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)
        listener = socket.create_server(found[0][4], family=found[0][0])
        # What it accepts inherits this; else every answer in two parts waits 40 ms for the first.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as exc:
        if exc.errno == errno.EADDRINUSE:
            message = f"port {port} on {host} is taken"
            fix = "choose another port, --port 0 for any free one, or leave --port out"
            raise _Taken(message, fix=fix) from exc
        message = f"cannot listen on {host}, port {port}: {exc.strerror}"
        raise InvalidArgument(message, fix="choose another --host or --port") from exc
    return listener


# --- serving ------------------------------------------------------------------------------------


def serve(
    place: Place,
    listener: socket.socket,
    token: str,
    build: Callable[[], Starlette],
    *,
    announce: Callable[[str], None],
    until: Callable[[], Awaitable[object]] | None = None,
) -> bool:
    """Serve what `build` makes behind the gate, until a signal, or until `until` returns.

    Returns whether it was a signal.

    Args:
        place: Where.
        listener: The socket.
        token: What changes must present, and in external mode everything.
        build: Makes the application; its `state.stop_waiting`, if it has one, is called when the
            server is about to stop, so that requests that wait for news are answered.
        announce: Called with the address, once the server has answered there.
        until: What to wait for; what was asked before it returns is still answered.

    """
    import asyncio

    import uvicorn

    from onceward.gate import Gate, GateSettings

    app = build()

    class Stopping(uvicorn.Server):
        """A server that lets nobody wait for news that it will not live to tell."""

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            getattr(app.state, "stop_waiting", bool)()
            await super().shutdown(sockets)

    port, names = listener.getsockname()[1], list(place.names)
    settings = GateSettings(port=port, token=token, external=place.external, allowed_hosts=names)
    config = uvicorn.Config(
        Gate(app, settings=settings),
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # whom to believe about addresses is not the server's to guess
        ws="none",
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    server = Stopping(config)
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    url = place.url(listener)

    signals: list[bool] = []

    def stop() -> None:
        server.should_exit = True
        signals.append(True)

    # The server takes the signals while it runs and raises them once more when it is done; what
    # it finds then must be harmless.
    with on_stop(stop):
        asyncio.run(_run(server, listener, url, token, lambda: announce(url), until))
    return bool(signals)


def _is_news(record: logging.LogRecord) -> bool:
    """Keep the trace of a request that was cut off on purpose out of the log."""
    import asyncio

    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


async def _run(
    server: Server,
    listener: socket.socket,
    url: str,
    token: str,
    announce: Callable[[], None],
    until: Callable[[], Awaitable[object]] | None = None,
) -> None:
    """Serve, and announce the address once it has answered at that address."""
    import asyncio

    serving = asyncio.create_task(server.serve(sockets=[listener]))
    answering = asyncio.create_task(_answers(listener.getsockname()[:2], url, token))
    await asyncio.wait({serving, answering}, return_when=asyncio.FIRST_COMPLETED)
    answered = answering.done() and answering.result()
    silent = not answered and not server.should_exit
    try:
        if answered:
            announce()
            if until is not None:
                await _end_after(serving, until)
                server.should_exit = True
        else:
            answering.cancel()
            server.should_exit = True
    except BaseException:
        server.should_exit = True
        await serving
        raise
    await serving
    if silent:
        message = f"the server started, but does not answer at {url}"
        raise Internal(message, fix="look at the messages above")


async def _end_after(serving: asyncio.Task[None], until: Callable[[], Awaitable[object]]) -> None:
    """Wait for what the command waits for, or for a signal to end the server before that."""
    import asyncio

    ending = asyncio.ensure_future(until())
    await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
    if not ending.done():
        ending.cancel()
        return
    ending.result()
    await asyncio.wait({serving}, timeout=LINGER_SECONDS)


async def _answers(address: tuple[str, int], url: str, token: str) -> bool:
    """Ask the server for its health as anybody would; the socket listens, so this waits for it."""
    import asyncio

    host = url.removeprefix("http://")
    lines = ["GET /healthz HTTP/1.1", f"Host: {host}", f"X-CM-LAB-TOKEN: {token}", "", ""]
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection(*address)
        with contextlib.closing(writer):
            writer.write("\r\n".join(lines).encode())
            return b" 200 " in await reader.readline()
    return False


# --- telling where it is ------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Announcement:
    """What a server says once it answers, to a person or to a machine."""

    place: Place
    token: str
    session_id: str
    #: What to say to a person; `{url}` stands for the address of the page.
    sentence: str
    #: The page to open; empty is the first one.
    page: str = ""
    #: What somebody is asked to do on that page, as machines are told it; None when nothing is.
    task: Mapping[str, object] | None = None
    open_page: bool | None = None
    json_output: bool = False

    def __call__(self, url: str) -> None:
        """Say it, and open the page if somebody is there to see it."""
        page_url = f"{url}{self.page}"
        if self.place.external:
            self._tell_token(url)
        if self.json_output:
            told: dict[str, object] = {"url": url, "sessionId": self.session_id}
            if self.task is not None:
                told |= {"pageUrl": page_url, **self.task}
            print(json.dumps(told), flush=True)
        else:
            print(self.sentence.format(url=page_url), flush=True)
        # A browser's address bar is no place for a token, so an external page is not opened.
        is_wanted = self.open_page or (self.open_page is None and not self.json_output)
        if is_wanted and not self.place.external:
            open_browser(page_url, asked=bool(self.open_page))

    def _tell_token(self, url: str) -> None:
        print(f"token: {self.token}", file=sys.stderr)
        page, mark = self.page or "/", "&" if "?" in self.page else "?"
        print(f"open {url}{page}{mark}token={self.token}", file=sys.stderr, flush=True)
        if self.place.host in _WILDCARDS:
            print(
                "from elsewhere, use this machine's address; a name needs --allow-host NAME",
                file=sys.stderr,
                flush=True,
            )


def open_browser(url: str, *, asked: bool = False) -> None:
    """Open the page if somebody sits in front of a screen; never mind if that fails."""
    # Without a screen the opener may start a text browser, which would take the terminal over.
    screen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    if not (asked or sys.stdout.isatty()) or not (screen or sys.platform == "darwin"):
        return

    def attempt() -> None:
        with contextlib.suppress(Exception):
            import webbrowser

            webbrowser.open(url)

    threading.Thread(target=attempt, daemon=True).start()
