"""A webhook of another service, as a real server on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.background_servers import in_background


class Hook(ThreadingHTTPServer):
    """Takes what it is sent, and answers with the configured status."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.taken: list[tuple[dict[str, str], Any]] = []
        self.answers: list[int] = []
        self.headers: dict[str, str] = {}
        self.arrived = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"


class _Handler(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        named = {name.lower(): value for name, value in self.headers.items()}
        self.server.taken.append((named, json.loads(body)))
        self.send_response(self.server.answers.pop(0) if self.server.answers else 204)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.server.arrived.set()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def hook() -> Iterator[Hook]:
    """Serve while the block runs."""
    with Hook() as server, in_background(server):
        yield server
