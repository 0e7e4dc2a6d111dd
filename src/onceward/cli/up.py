"""Up: the command that serves the console: how a server starts, tells so, and stops."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import json
import logging
import os
import re
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from onceward.cli.db import StoreUrl
from onceward.cli.output import ConfigFile
from onceward.errors import Internal, InvalidArgument
from onceward.seams import Ids
from onceward.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from uvicorn import Server

PORT_DEFAULT: Final = 3939
#: How many ports after the default one are tried before giving up.
PORTS_TRIED_MAX: Final = 50
#: Requests that still run after this are cut off, so that stopping takes less than two seconds.
SHUTDOWN_SECONDS: Final = 1
#: Addresses that mean "all of them" on the left, and one that a browser can open on the right.
_WILDCARDS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - recognised, not chosen
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


def up(
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            help=f"Port to listen on; 0 is any free one. Without: {PORT_DEFAULT} or next."
        ),
    ] = None,
    allow_external: Annotated[
        bool, typer.Option("--allow-external", help="Let other machines in, with a token.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="One more name of this server, with --allow-external. Repeatable."),
    ] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
    store: StoreUrl = None,
    config: ConfigFile = None,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON once the server answers.")
    ] = False,
) -> None:
    """Serve the console on this machine until Ctrl-C, with metrics and alerts of a store.

    Example: `onceward up --port 0 --no-open`
    """
    names = _check(host, port, allow_host or [], external=allow_external)
    token = Ids().new("tok")
    with _on_stop(_interrupt):
        with (
            contextlib.suppress(KeyboardInterrupt),
            _watching(store, config) as metrics,
            _listen(host, port) as listener,
        ):
            url = f"http://{_bracketed(_WILDCARDS.get(host, host))}:{listener.getsockname()[1]}"

            def announce() -> None:
                if allow_external:
                    _print_token(url, token, everywhere=host in _WILDCARDS)
                _print_address(url, json_output=json_output)
                if not (no_open or json_output or allow_external):
                    _open_browser(url)

            _serve(listener, token, names, url, announce, metrics, external=allow_external)
        print("stopped", file=sys.stderr)


@contextlib.contextmanager
def _watching(store: str | None, config: str | None) -> Iterator[Callable[[], bytes]]:
    """Evaluate the alerts of a store while the server runs; gives what makes its metrics."""
    from onceward.workers.alert_rules import read_rules
    from onceward.workers.watching import watching

    with watching(store, read_rules(config)) as metrics:
        yield metrics


def _check(host: str, port: int | None, allow_host: list[str], *, external: bool) -> list[str]:
    """Refuse what cannot or should not be served; return the names this server goes by."""
    if port is not None and not 0 <= port <= 65535:
        message = f"--port {port} is not a port"
        raise InvalidArgument(message, fix="choose a number from 0 to 65535")
    if not external and not _is_loopback(host):
        message = f"--host {host} would let other machines in"
        fix = "leave --host out, or add --allow-external to let them in with a token"
        raise InvalidArgument(message, fix=fix)
    if allow_host and not external:
        message = "--allow-host is for servers that other machines can reach"
        raise InvalidArgument(message, fix="add --allow-external, or leave --allow-host out")
    for name in (host, *allow_host):
        if not _is_address(name) and not _NAME.fullmatch(name):
            message = f"{name!r} is not the name of a host"
            raise InvalidArgument(message, fix="write a name or an address, without a port")
    return [_bracketed(name) for name in (host, *allow_host)]


def _is_address(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(host))
    return False


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _listen(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens: on the port asked for, or on the first free one."""
    if port is not None:
        return _bind(host, port)
    for candidate in range(PORT_DEFAULT, PORT_DEFAULT + PORTS_TRIED_MAX + 1):
        with contextlib.suppress(_Taken):
            listener = _bind(host, candidate)
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
        return socket.create_server(found[0][4], family=found[0][0])
    except OSError as exc:
        if exc.errno == errno.EADDRINUSE:
            message = f"port {port} on {host} is taken"
            fix = "choose another port, --port 0 for any free one, or leave --port out"
            raise _Taken(message, fix=fix) from exc
        message = f"cannot listen on {host}, port {port}: {exc.strerror}"
        raise InvalidArgument(message, fix="choose another --host or --port") from exc


def _serve(
    listener: socket.socket,
    token: str,
    names: list[str],
    url: str,
    announce: Callable[[], None],
    metrics: Callable[[], bytes],
    *,
    external: bool,
) -> None:
    import asyncio

    import uvicorn

    from onceward.console import build_app
    from onceward.gate import Gate, GateSettings

    port = listener.getsockname()[1]
    settings = GateSettings(port=port, token=token, external=external, allowed_hosts=names)
    config = uvicorn.Config(
        Gate(build_app(metrics=metrics), settings=settings),
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # whom to believe about addresses is not the server's to guess
        ws="none",
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    server = uvicorn.Server(config)
    logging.getLogger("uvicorn.error").addFilter(_is_news)

    def stop() -> None:
        server.should_exit = True

    # The server takes the signals while it runs and raises them once more when it is done; what
    # it finds then must be harmless.
    with _on_stop(stop):
        asyncio.run(_run(server, listener, url, token, announce))


def _is_news(record: logging.LogRecord) -> bool:
    """Keep the trace of a request that was cut off on purpose out of the log."""
    import asyncio

    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


async def _run(
    server: Server, listener: socket.socket, url: str, token: str, announce: Callable[[], None]
) -> None:
    """Serve, and announce the address once it has answered at that address."""
    import asyncio

    serving = asyncio.create_task(server.serve(sockets=[listener]))
    answering = asyncio.create_task(_answers(listener.getsockname()[:2], url, token))
    await asyncio.wait({serving, answering}, return_when=asyncio.FIRST_COMPLETED)
    answered = answering.done() and answering.result()
    silent = not answered and not server.should_exit
    if answered:
        announce()
    else:
        answering.cancel()
        server.should_exit = True
    await serving
    if silent:
        message = f"the server started, but does not answer at {url}"
        raise Internal(message, fix="look at the messages above")


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


def _print_token(url: str, token: str, *, everywhere: bool) -> None:
    print(f"token: {token}", file=sys.stderr)
    print(f"open {url}/?token={token}", file=sys.stderr, flush=True)
    if everywhere:
        print(
            "from elsewhere, use this machine's address; a name needs --allow-host NAME",
            file=sys.stderr,
            flush=True,
        )


def _print_address(url: str, *, json_output: bool) -> None:
    if json_output:
        print(json.dumps({"url": url, "sessionId": Ids().new("lab")}), flush=True)
    else:
        print(f"Onceward {__version__} is at {url} - Ctrl-C stops it", flush=True)


def _open_browser(url: str) -> None:
    """Open the page if somebody sits in front of a screen; never mind if that fails."""
    # Without a screen the opener may start a text browser, which would take the terminal over.
    screen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    if not sys.stdout.isatty() or not (screen or sys.platform == "darwin"):
        return

    def attempt() -> None:
        with contextlib.suppress(Exception):
            import webbrowser

            webbrowser.open(url)

    threading.Thread(target=attempt, daemon=True).start()


def _interrupt() -> NoReturn:
    raise KeyboardInterrupt


@contextlib.contextmanager
def _on_stop(act: Callable[[], object]) -> Iterator[None]:
    """Do this when somebody asks the process to stop."""
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(each, lambda *_: act()) for each in signals]
    try:
        yield
    finally:
        for each, handler in zip(signals, before, strict=True):
            signal.signal(each, handler)
