"""HTTP server: serve an application for a command, print its URL, and stop on a signal."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from onceward.cli.listen_address import WILDCARDS, ListenAddress
from onceward.cli.stop_signals import on_stop
from onceward.errors import Internal

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.applications import Starlette
    from uvicorn import Server

    from onceward.http.guard import GuardSettings

#: Requests still running after this are cancelled, so that a stop takes less than two seconds.
SHUTDOWN_SECONDS: Final = 1
#: A server that ends by itself answers this much longer, for the last requests of its page.
LINGER_SECONDS: Final = 1.5
# --- serving ------------------------------------------------------------------------------------


def serve(
    address: ListenAddress,
    listener: socket.socket,
    token: str,
    build: Callable[[], Starlette],
    *,
    announce: Callable[[str], None],
    until: Callable[[], Awaitable[object]] | None = None,
) -> bool:
    """Serve what `build` makes behind the guard, until a signal, or until `until` returns.

    Returns whether it was a signal.

    Args:
        address: The address and its accepted clients.
        listener: The socket.
        token: Required for changes, and for every request that is not the owner's.
        build: Returns the application; its `state.stop_waiting`, if any, is called before the
            server stops, so that long polls are answered.
        announce: Called with the URL, once the server has answered there.
        until: What to wait for; requests received before it returns are still answered.

    """
    import asyncio

    import uvicorn

    from onceward.cli.peer_connections import PeerAwareProtocol
    from onceward.http.guard import RequestGuard

    app = build()

    class LongPollServer(uvicorn.Server):
        """A server that answers long polls before it stops."""

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            getattr(app.state, "stop_waiting", bool)()
            await super().shutdown(sockets)

    config = uvicorn.Config(
        RequestGuard(app, settings=_settings(address, listener, token)),
        http=PeerAwareProtocol,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the peer is the connection's, whatever headers say
        ws="none",
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    server = LongPollServer(config)
    logging.getLogger("uvicorn.error").addFilter(_is_not_cancellation)
    url = address.url(listener)

    signals: list[bool] = []

    def stop() -> None:
        server.should_exit = True
        signals.append(True)

    # uvicorn handles the signals while it runs and raises them again when it is done; this
    # handler must then have no effect.
    with on_stop(stop):
        asyncio.run(_run(server, listener, url, token, lambda: announce(url), until))
    return bool(signals)


def _settings(address: ListenAddress, listener: socket.socket, token: str) -> GuardSettings:
    from onceward.http.guard import GuardSettings, is_same_user

    return GuardSettings(
        port=listener.getsockname()[1],
        token=token,
        is_owner=is_same_user if address.has_owner else None,
        external=address.external,
        allowed_hosts=list(address.names),
        public_origin=address.public_url,
    )


def _is_not_cancellation(record: logging.LogRecord) -> bool:
    """Drop tracebacks of requests that were cancelled on purpose."""
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
        message = f"the server started, but does not answer at {url}; it was stopped"
        raise Internal(message, fix="see the messages above")


async def _end_after(serving: asyncio.Task[None], until: Callable[[], Awaitable[object]]) -> None:
    """Wait for `until`, or for a signal that ends the server before."""
    import asyncio

    ending = asyncio.ensure_future(until())
    await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
    if not ending.done():
        ending.cancel()
        return
    ending.result()
    await asyncio.wait({serving}, timeout=LINGER_SECONDS)


async def _answers(address: tuple[str, int], url: str, token: str) -> bool:
    """Request /healthz like any client; the socket listens, so this waits for the server."""
    import asyncio

    host = url.removeprefix("http://")
    lines = ["GET /healthz HTTP/1.1", f"Host: {host}", f"X-CM-LAB-TOKEN: {token}", "", ""]
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection(*address)
        with contextlib.closing(writer):
            writer.write("\r\n".join(lines).encode())
            return b" 200 " in await reader.readline()
    return False


# --- announcing the address ---------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Announcement:
    """What a server prints once it is ready, as text or JSON."""

    address: ListenAddress
    token: str
    session_id: str
    #: The text; `{url}` is the URL of the page.
    sentence: str
    #: The page to open; empty is the first one.
    page: str = ""
    #: The ids of the task on that page, for JSON; None without a task.
    task: Mapping[str, object] | None = None
    open_page: bool | None = None
    json_output: bool = False

    def __call__(self, url: str) -> None:
        """Print the URL, and open the page on an interactive terminal."""
        from onceward.http.peers import can_identify_peers

        page_url = f"{url}{self.page}"
        has_owner = self.address.has_owner and can_identify_peers()
        if not has_owner:
            self._print_token(url)
        if self.json_output:
            fields: dict[str, object] = {"url": url, "sessionId": self.session_id}
            if self.task is not None:
                fields |= {"pageUrl": page_url, **self.task}
            print(json.dumps(fields), flush=True)
        else:
            print(self.sentence.format(url=page_url), flush=True)
        # The command line of a browser must not hold a token, so its page is not opened then.
        is_wanted = self.open_page or (self.open_page is None and not self.json_output)
        if is_wanted and has_owner:
            open_browser(page_url, asked=bool(self.open_page))

    def _print_token(self, url: str) -> None:
        from onceward.http.login import login_link

        print(f"token: {self.token}", file=sys.stderr)
        link = login_link(self.address.public_url or url, self.page, self.token)
        print(f"open {link}", file=sys.stderr, flush=True)
        if self.address.host in WILDCARDS:
            print(
                "from elsewhere, use this machine's address; a name needs --allow-host NAME",
                file=sys.stderr,
                flush=True,
            )


def open_browser(url: str, *, asked: bool = False) -> None:
    """Open the page in a browser if there is a display; failures are ignored."""
    # Without a display the opener may start a text browser in this terminal.
    screen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    if not (asked or sys.stdout.isatty()) or not (screen or sys.platform == "darwin"):
        return

    def attempt() -> None:
        with contextlib.suppress(Exception):
            import webbrowser

            webbrowser.open(url)

    threading.Thread(target=attempt, daemon=True).start()
