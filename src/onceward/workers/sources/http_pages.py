"""HTTP pages: GET one page of JSON, with retries, timeouts and a size limit.

Error responses are mapped to our errors. Redirects are not followed: they would leak the token.
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
from urllib.parse import SplitResult, urlencode, urlsplit, urlunsplit

from onceward.errors import InvalidArgument, SourceError, SourceRefused, SourceUnavailable
from onceward.retries import CLIENT, Schedule, retrying
from onceward.system import Clock, Randomness

_ADDRESS_FIX: Final = "pass the address that answers with a page of messages, as a JSON object"
#: Socket timeout: how long a service may send nothing.
TIMEOUT_SECONDS: Final = 30.0
#: A whole page may take this many times the socket timeout.
TIMEOUTS_PER_PAGE: Final = 10
#: Limit of a page, which is held in memory.
PAGE_BYTES_MAX: Final = 64 * 1024 * 1024
#: 4xx statuses of a busy or slow service.
_RETRYABLE_STATUSES: Final = (408, 425, 429)


class PageClient:
    """Requests the pages of one address."""

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
        """Set the address; 5xx and timeouts are retried by the schedule, most 4xx are not."""
        parts = urlsplit(url)
        if not _is_usable(parts):
            message = "url: must be http:// or https://, with a host and without credentials"
            fix = "pass https://host/path, and credentials as token= or in headers="
            raise InvalidArgument(message, fix=fix, field="url")
        #: The address without its query, which may hold secrets.
        self.address: Final = f"{parts.scheme}://{parts.netloc}{parts.path}"
        self._parts = parts
        self._headers = {"Accept": "application/json", **headers}
        self._timeout_seconds = timeout_seconds
        retry = retrying(schedule=schedule, clock=clock, randomness=randomness)
        self._get = retry(self._get_once)

    def get(self, params: Mapping[str, str]) -> dict[str, Any]:
        """Return the JSON object of the response."""
        query = "&".join(filter(None, [self._parts.query, urlencode(params)]))
        body = self._get(f"{self._parts.path or '/'}?{query}" if query else self._parts.path or "/")
        try:
            page = json.loads(body)
        except (ValueError, RecursionError) as exc:
            message = f"{self.address} did not return JSON; the cursor was not moved: {exc}"
            raise SourceRefused(message, fix=_ADDRESS_FIX) from exc
        if not isinstance(page, dict):
            message = f"{self.address} did not return a JSON object; the cursor was not moved"
            raise SourceRefused(message, fix=_ADDRESS_FIX)
        return page

    def _get_once(self, target: str) -> bytes:
        connection = self._connection()
        try:
            connection.connect()
            with _deadline(connection.sock, TIMEOUTS_PER_PAGE * self._timeout_seconds):
                connection.request("GET", target, headers=self._headers)
                response = connection.getresponse()
                body = response.read(PAGE_BYTES_MAX + 1)
                # With a size limit, `read` does not report a truncated body itself.
                if response.length and len(body) <= PAGE_BYTES_MAX:
                    raise IncompleteRead(body, response.length)
        except (OSError, HTTPException) as exc:
            message = f"{self.address} cannot be read: {str(exc) or type(exc).__name__}"
            raise SourceUnavailable(message) from exc
        finally:
            connection.close()
        self._check_response(response, len(body))
        return body

    def _connection(self) -> HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "http":
            return HTTPConnection(host, port, timeout=self._timeout_seconds)
        context = ssl.create_default_context()
        return HTTPSConnection(host, port, timeout=self._timeout_seconds, context=context)

    def _check_response(self, response: HTTPResponse, size: int) -> None:
        status = response.status
        answer = f"{self.address} answered {status} {response.reason:.60}"
        if status == 200:
            if size > PAGE_BYTES_MAX:
                message = (
                    f"{self.address}: the page has more than {PAGE_BYTES_MAX} bytes; "
                    "the cursor was not moved"
                )
                raise SourceRefused(
                    message, fix="request smaller pages, such as with a limit in the URL"
                )
            return
        after = response.headers.get("Retry-After")
        kind: type[SourceError] = SourceRefused
        fix = "check the address and the token"
        if status >= 500 or status in _RETRYABLE_STATUSES:
            kind, fix = SourceUnavailable, ""
        elif 300 <= status < 400:
            fix = f"redirects are not followed; pass the new address{_moved_to(response)}"
        message = f"{answer}; the cursor was not moved"
        raise kind(message, fix=fix, status=status, retry_after=after)


@contextmanager
def _deadline(sock: socket.socket, seconds: float) -> Iterator[None]:
    """Limit the total time of a request; the socket timeout does not stop a slow stream."""
    is_late = Event()

    def shut_down() -> None:
        is_late.set()
        with suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)

    timer = Timer(seconds, shut_down)
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
    if is_late.is_set():  # Without a Content-Length, our shutdown looks like the end of the body.
        raise TimeoutError(_deadline_message(seconds))


def _deadline_message(seconds: float) -> str:
    return f"the page took longer than {seconds:g} seconds"


def _is_usable(parts: SplitResult) -> bool:
    try:
        parts.port  # noqa: B018 - raises if it is not a number
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc


def _moved_to(response: HTTPResponse) -> str:
    """Return the address of a redirect for a message, without its query and its credentials."""
    try:
        parts = urlsplit(response.headers.get("Location", ""))
    except ValueError:
        return ""
    shown = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    return f": {shown[:200]}" if shown else ""
