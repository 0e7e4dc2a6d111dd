"""Metrics server: serve a worker's metrics to its own user, and to clients with the token."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import logging
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Final

from onceward.errors import InvalidArgument, OncewardError, PortInUse
from onceward.http.peers import is_our_uid, uid_of_peer
from onceward.http.request_headers import Headers, has_token, is_forwarded
from onceward.http.token_file import read_token

#: Socket timeout of a client.
IDLE_SECONDS_MAX: Final = 5.0
#: Concurrent clients; further connections are closed immediately.
CLIENTS_MAX: Final = 16
#: Host headers that DNS rebinding cannot produce.
_OUR_HOST: Final = re.compile(r"(localhost|[0-9.]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?")
_UNAUTHORIZED: Final = b"send the token as Authorization: Bearer; `onceward token show` prints it\n"
_log: Final = logging.getLogger("onceward.workers")


class _Server(ThreadingHTTPServer):
    """A threaded server with a limit on clients; its threads do not delay process exit."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], collect: Callable[[], bytes]) -> None:
        self.collect = collect
        self._places = threading.Semaphore(CLIENTS_MAX)
        self._is_proxied = False
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Bind without a DNS lookup of this host's name."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]  # a socket's

    def may_read(self, connection: socket.socket, headers: Headers) -> bool:
        """Return whether a request is the owner's or presents the token."""
        if self._is_owner(connection):
            if is_forwarded(headers):  # Only ever set: other threads read it concurrently.
                self._is_proxied = True
            if not self._is_proxied:
                return True
        token = None
        with contextlib.suppress(OncewardError):  # A token readable by others grants nothing.
            # Read per request: works without a writable home, and a rotation applies immediately.
            token = read_token()
        return token is not None and has_token(headers, token.encode())

    def _is_owner(self, connection: socket.socket) -> bool:
        """Return whether our own user opened the connection; always False beyond loopback."""
        is_local = ipaddress.ip_address(str(self.server_address[0])).is_loopback
        return is_local and not self._is_proxied and is_our_uid(uid_of_peer(connection))

    def process_request(self, request: object, client_address: object) -> None:
        """Answer in a thread, unless too many clients are connected."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)  # type: ignore[arg-type]
        else:
            self.shutdown_request(request)  # type: ignore[arg-type]

    def process_request_thread(self, request: object, client_address: object) -> None:
        """Answer, and free the slot."""
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            self._places.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Log nothing about clients that disconnect."""


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD of /metrics only."""

    server: _Server
    timeout = IDLE_SECONDS_MAX
    server_version = "onceward"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer with the page."""
        if not _OUR_HOST.fullmatch(self.headers.get("Host", "")):
            # DNS rebinding: with another host name, a foreign web page could read the metrics.
            self._answer(421, b"use an address, or localhost\n")
        elif not self.server.may_read(self.connection, self._headers()):
            self._answer(401, _UNAUTHORIZED)
        elif self.path.partition("?")[0] != "/metrics":
            self._answer(404, b"the metrics are at /metrics\n")
        else:
            self._answer(200, self.server.collect())

    do_HEAD = do_GET  # noqa: N815 - its name

    def _headers(self) -> Headers:
        found: dict[bytes, list[bytes]] = {}
        for name, value in self.headers.items():
            # Bytes that are not ASCII are no part of any token.
            found.setdefault(name.lower().encode(), []).append(value.encode(errors="replace"))
        return found

    def _answer(self, status: int, body: bytes) -> None:
        from onceward.workers.metrics import CONTENT_TYPE  # noqa: PLC0415 - slow to import

        self.send_response(status)
        self.send_header("Content-Type", CONTENT_TYPE if status == 200 else "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Do not log every scrape."""


@contextmanager
def serve_metrics(
    port: int, collect: Callable[[], bytes], *, host: str = "127.0.0.1"
) -> Iterator[str]:
    """Serve what `collect` returns at /metrics while the block runs; gives the address.

    Port 0 is any free one. Only the user of this process reads without the token, over loopback;
    on any other `host` every request needs it.
    """
    try:
        server = _Server((host, port), collect)
    except (OSError, OverflowError) as exc:
        is_taken = isinstance(exc, OSError) and exc.errno == errno.EADDRINUSE
        if is_taken:
            message = f"port {port} on {host} is in use; metrics are not served"
            fix = "choose another port, or 0 for any free one"
            raise PortInUse(message, fix=fix, field="port") from exc
        message = f"cannot listen on {host}, port {port}: {exc}; metrics are not served"
        fix = "choose an address of this machine, and a port from 1024 to 65535, or 0"
        raise InvalidArgument(message, fix=fix, field="port") from exc
    thread = threading.Thread(
        target=server.serve_forever, args=(0.1,), name="onceward-metrics-server", daemon=True
    )
    thread.start()
    name = f"[{host}]" if ":" in host else host
    url = f"http://{name}:{server.server_port}/metrics"
    _log.info("metrics are at %s", url, extra={"event": "metrics served", "facts": {"url": url}})
    try:
        yield url
    finally:
        server.shutdown()
        server.server_close()
