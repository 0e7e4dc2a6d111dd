"""HTTP pages: GET one page of JSON with retries; responses become our errors.

Redirects are not followed: the token would go with them.
"""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
)
from threading import Event, Timer
from typing import Any, Final
from urllib.parse import SplitResult, urlencode, urlsplit

from onceward.errors import InvalidArgument, SourceError, SourceRefused, SourceUnavailable
from onceward.retries import CLIENT, Schedule, retrying
from onceward.system import Clock, Randomness

#: How long a service may be silent …
TIMEOUT_SECONDS: Final = 30.0
#: … and so often that a whole page may take, however it trickles in.
TIMEOUTS_PER_PAGE: Final = 10
#: No page is larger; one that is would have to be kept in memory whole.
PAGE_BYTES_MAX: Final = 64 * 1024 * 1024
#: A service that is busy, or slow, says so with these; they pass.
_PASSING: Final = (408, 425, 429)


class PageClient:
    """The pages behind one address."""

    def __init__(  # noqa: PLR0913 - made in one place
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        timeout_seconds: float,
        schedule: Schedule = CLIENT,
        clock: Clock | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        """Ask at this address; 5xx and silence are retried by the schedule, 4xx never."""
        parts = urlsplit(url)
        if not _is_usable(parts):
            message = "url: must be http:// or https://, with a host and without a user"
            raise InvalidArgument(message, fix="pass https://host/path", field="url")
        #: The address, without what may be secret in its query.
        self.place: Final = f"{parts.scheme}://{parts.netloc}{parts.path}"
        self._parts = parts
        self._headers = {"Accept": "application/json", **headers}
        self._timeout_seconds = timeout_seconds
        retry = retrying(schedule=schedule, clock=clock, randomness=randomness)
        self._get = retry(self._get_once)

    def get(self, params: Mapping[str, str]) -> dict[str, Any]:
        """Return the object that the service answers."""
        query = "&".join(filter(None, [self._parts.query, urlencode(params)]))
        body = self._get(f"{self._parts.path or '/'}?{query}" if query else self._parts.path or "/")
        try:
            page = json.loads(body)
        except (ValueError, RecursionError) as exc:
            message = f"{self.place} did not answer with JSON: {exc}"
            raise SourceRefused(message, fix="name the address of the cursor endpoint") from exc
        if not isinstance(page, dict):
            message = f"{self.place} did not answer with a JSON object"
            raise SourceRefused(message, fix="name the address of the cursor endpoint")
        return page

    def _get_once(self, target: str) -> bytes:
        connection = self._connection()
        try:
            connection.connect()
            with _deadline(connection.sock, TIMEOUTS_PER_PAGE * self._timeout_seconds):
                connection.request("GET", target, headers=self._headers)
                response = connection.getresponse()
                body = response.read(PAGE_BYTES_MAX + 1)
                # What was promised and did not come; asked for in parts, the library is silent.
                if response.length and len(body) <= PAGE_BYTES_MAX:
                    raise IncompleteRead(body, response.length)
        except (OSError, HTTPException) as exc:
            message = f"{self.place} cannot be read: {str(exc) or type(exc).__name__}"
            raise SourceUnavailable(message) from exc
        finally:
            connection.close()
        self._check(response, len(body))
        return body

    def _connection(self) -> HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "http":
            return HTTPConnection(host, port, timeout=self._timeout_seconds)
        context = ssl.create_default_context()
        return HTTPSConnection(host, port, timeout=self._timeout_seconds, context=context)

    def _check(self, response: HTTPResponse, size: int) -> None:
        status, said = response.status, f"{self.place} answered {response.status} {response.reason}"
        if status == 200:
            if size > PAGE_BYTES_MAX:
                message = f"{self.place}: the page has more than {PAGE_BYTES_MAX} bytes"
                raise SourceRefused(message, fix="ask for smaller pages, such as with a limit")
            return
        after = response.headers.get("Retry-After")
        kind: type[SourceError] = SourceRefused
        fix = "check the address and the token"
        if status >= 500 or status in _PASSING:
            kind, fix = SourceUnavailable, ""
        elif 300 <= status < 400:
            fix = f"use the address it moved to: {response.headers.get('Location', 'unknown')}"
        raise kind(said, fix=fix, status=status, retry_after=after)


@contextmanager
def _deadline(sock: socket.socket, seconds: float) -> Iterator[None]:
    """End a connection that is in use after so long; a service that trickles is not silent."""
    is_late = Event()

    def cut() -> None:
        is_late.set()
        with suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)

    timer = Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, HTTPException, ValueError) as exc:
        if is_late.is_set():
            raise TimeoutError(_deadline_message(seconds)) from exc
        raise
    finally:
        timer.cancel()
    if is_late.is_set():  # Without a length, the end that we made looks like its end.
        raise TimeoutError(_deadline_message(seconds))


def _deadline_message(seconds: float) -> str:
    return f"the page took longer than {seconds:g} seconds"


def _is_usable(parts: SplitResult) -> bool:
    try:
        parts.port  # noqa: B018 - raises when it is no number
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.username
