"""Serving: how a server command listens, tells where it is, and stops. Knows not what it serves."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from onceward.cli.places import WILDCARDS, Place
from onceward.cli.stopping import on_stop
from onceward.errors import Internal

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.applications import Starlette
    from uvicorn import Server

    from onceward.gate import GateSettings

#: Requests that still run after this are cut off, so that stopping takes less than two seconds.
SHUTDOWN_SECONDS: Final = 1
#: A server that ends by itself answers this much longer: the page asks for its last things.
LINGER_SECONDS: Final = 1.5
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
        token: What changes must present, and everything that does not come from the owner.
        build: Makes the application; its `state.stop_waiting`, if it has one, is called when the
            server is about to stop, so that requests that wait for news are answered.
        announce: Called with the address, once the server has answered there.
        until: What to wait for; what was asked before it returns is still answered.

    """
    import asyncio

    import uvicorn

    from onceward.cli.connections import PeerAwareProtocol
    from onceward.gate import Gate

    app = build()

    class Stopping(uvicorn.Server):
        """A server that lets nobody wait for news that it will not live to tell."""

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            getattr(app.state, "stop_waiting", bool)()
            await super().shutdown(sockets)

    config = uvicorn.Config(
        Gate(app, settings=_settings(place, listener, token)),
        http=PeerAwareProtocol,
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


def _settings(place: Place, listener: socket.socket, token: str) -> GateSettings:
    from onceward.gate import GateSettings, is_from_our_user

    return GateSettings(
        port=listener.getsockname()[1],
        token=token,
        is_owner=is_from_our_user if place.has_owner else None,
        external=place.external,
        allowed_hosts=list(place.names),
        public_origin=place.public_url,
    )


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
        from onceward.access.peers import can_tell_owner

        page_url = f"{url}{self.page}"
        has_owner = self.place.has_owner and can_tell_owner()
        if not has_owner:
            self._tell_token(url)
        if self.json_output:
            told: dict[str, object] = {"url": url, "sessionId": self.session_id}
            if self.task is not None:
                told |= {"pageUrl": page_url, **self.task}
            print(json.dumps(told), flush=True)
        else:
            print(self.sentence.format(url=page_url), flush=True)
        # The command line of a browser is no place for a token, so its page is not opened then.
        is_wanted = self.open_page or (self.open_page is None and not self.json_output)
        if is_wanted and has_owner:
            open_browser(page_url, asked=bool(self.open_page))

    def _tell_token(self, url: str) -> None:
        from onceward.access.login import login_link

        print(f"token: {self.token}", file=sys.stderr)
        link = login_link(self.place.public_url or url, self.page, self.token)
        print(f"open {link}", file=sys.stderr, flush=True)
        if self.place.host in WILDCARDS:
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
