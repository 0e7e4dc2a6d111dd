"""Paged HTTP service: serves pages of entries, fails on request, and counts its requests."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.background_servers import in_background


class Answer:
    """What to answer once instead of a page."""

    def __init__(
        self, status: int, body: bytes = b"", headers: dict[str, str] | None = None, *, cut: int = 0
    ) -> None:
        self.status, self.body, self.headers, self.cut = status, body, headers or {}, cut


class Service:
    """Entries in pages of a size; cursors are offsets."""

    def __init__(self, *entries: Any, size: int = 3) -> None:
        self.entries: list[Any] = list(entries)
        self.size = size
        #: Whether the last page has a cursor too, after all entries.
        self.has_last_cursor = True
        self.asked: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.next_answers: deque[Answer] = deque()
        self.page: Callable[[str | None], dict[str, Any]] = self.by_offset
        self.url = ""

    def by_offset(self, cursor: str | None) -> dict[str, Any]:
        start = int(cursor or 0)
        found = self.entries[start : start + self.size]
        end = start + len(found)
        is_last = end >= len(self.entries) and not self.has_last_cursor
        return {"items": found, "nextCursor": None if is_last else str(end)}


@contextmanager
def serving(service: Service) -> Iterator[Service]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            query = {
                name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()
            }
            service.asked.append(query)
            service.headers.append(dict(self.headers.items()))
            if service.next_answers:
                self.answer(service.next_answers.popleft())
            else:
                body = json.dumps(service.page(query.get("cursor"))).encode()
                self.answer(Answer(200, body))

        def answer(self, given: Answer) -> None:
            self.send_response(given.status)
            for name, value in given.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(given.body)))
            self.end_headers()
            self.wfile.write(given.body[: len(given.body) - given.cut])
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        service.url = f"http://127.0.0.1:{server.server_port}/api/entries"
        with in_background(server):
            yield service
