"""Feedback over HTTP: read pages of feedback from a Lab server, with retries.

Uses the standard library only. Proxies of the environment and redirects are not used, because they
would receive the token.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException, IncompleteRead
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import orjson

from onceward import errors
from onceward.http.redirects import NoRedirects
from onceward.journal import RecordPage
from onceward.retries import retrying
from onceward.system import Clock, Randomness
from onceward.version import __version__

#: Upper bound of the `wait` parameter of a Lab server.
WAIT_SECONDS_MAX: Final = 60.0
#: How much longer than `wait` a response may take.
ANSWER_SECONDS_MAX: Final = 10.0
#: A page ends one MiB after its first entry, but a single entry may be longer.
PAGE_BYTES_MAX: Final = 256 * 1024 * 1024
TAG_HEADER: Final = "X-CM-LAB-CURSOR-TAG"
TOKEN_HEADER: Final = "X-CM-LAB-TOKEN"  # noqa: S105 - its name, not a token
_KINDS: Final[Mapping[str, type[errors.OncewardError]]] = {
    kind.code: kind
    for kind in (
        errors.InvalidArgument,
        errors.InvalidCursor,
        errors.Misdirected,
        errors.NotFound,
        errors.RequestRefused,
        errors.Unauthorized,
    )
}


def is_url(source: str) -> bool:
    """Return whether a source is an HTTP address; everything else is a path."""
    return source.lower().startswith(("http://", "https://"))


class ServerFeed:
    """Reads feedback from a Lab server."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        clock: Clock | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        """Use the server at this address; connection errors and 5xx are retried, 4xx never."""
        if not _is_server(url):
            # Not shown: such an address may hold a password.
            message = (
                "source: must be the http:// or https:// address of a server, with no user or query"
            )
            fix = "pass the address that the server printed, such as http://127.0.0.1:3939"
            raise errors.InvalidArgument(message, fix=fix, field="source")
        self._url = f"{url.rstrip('/')}/api/feedback"
        self._headers = {"Accept": "application/json", "User-Agent": f"onceward/{__version__}"}
        if token is not None:
            self._headers[TOKEN_HEADER] = token
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirects)
        self._get = retrying(clock=clock, randomness=randomness)(self._get_once)

    def read(self, since: str, tag: str | None, session_id: str | None, wait: float) -> RecordPage:
        """Return a page; wait up to `wait` seconds for the first entry."""
        query = {"since": since}
        if session_id is not None:
            query["sessionId"] = session_id
        if wait:
            query["wait"] = f"{min(wait, WAIT_SECONDS_MAX):g}"
        headers = {**self._headers, **({TAG_HEADER: tag} if tag else {})}
        body, found = self._get(f"{self._url}?{urlencode(query)}", headers, wait)
        if not _is_page(body):
            raise self._not_a_lab_error()
        return RecordPage(items=body["items"], next_cursor=body["nextCursor"], tag=found or "")

    def _get_once(
        self, url: str, headers: Mapping[str, str], wait: float
    ) -> tuple[dict[str, Any], str | None]:
        request = urllib.request.Request(url, headers=dict(headers))  # noqa: S310 - checked above
        seconds = min(wait, WAIT_SECONDS_MAX) + ANSWER_SECONDS_MAX
        try:
            with self._opener.open(request, timeout=seconds) as answer:
                content, tag = answer.read(PAGE_BYTES_MAX), answer.headers.get(TAG_HEADER)
                # With a size argument, the library does not report a truncated body.
                if answer.length and len(content) < PAGE_BYTES_MAX:
                    raise IncompleteRead(content, answer.length)
        except urllib.error.HTTPError as exc:
            with exc:
                raise self._to_error(exc) from None
        except (OSError, HTTPException) as exc:
            reason = getattr(exc, "reason", None) or exc
            message = f"{self._url} cannot be read: {reason}"
            fix = (
                "check the address, and that the Lab server is running; then read again: "
                "the position is kept"
            )
            raise errors.SourceUnavailable(message, fix=fix) from exc
        found = _object(content)
        if found is None:
            raise self._not_a_lab_error()
        return found, tag

    def _to_error(self, exc: urllib.error.HTTPError) -> errors.OncewardError:
        """Return the error for an error response."""
        try:
            problem = (_object(exc.read(PAGE_BYTES_MAX)) or {}).get("error")
        except (OSError, HTTPException):
            problem = None
        problem_fields = problem if isinstance(problem, dict) else {}
        message = str(problem_fields.get("message") or f"{self._url} answered {exc.code}")
        context = problem_fields.get("context")
        fix = str(context.get("fix") or "") if isinstance(context, dict) else ""
        if exc.code >= 500:
            after = exc.headers.get("Retry-After")
            return errors.SourceUnavailable(message, fix=fix, status=exc.code, retry_after=after)
        kind = _KINDS.get(str(problem_fields.get("code")))
        if kind is None:
            fix = fix or "pass the address that `onceward lab` printed"
            return errors.SourceRefused(message, fix=fix, status=exc.code)
        return kind(message, fix=fix)

    def _not_a_lab_error(self) -> errors.SourceRefused:
        message = f"{self._url} did not return a page of feedback"
        return errors.SourceRefused(message, fix="pass the address that `onceward lab` printed")


def _is_server(url: str) -> bool:
    """Return whether a URL is a plain server address: no user, query or fragment."""
    try:
        parts = urlsplit(url)
        is_port = parts.port is None or parts.port > 0
    except ValueError:  # An unclosed bracket, or an invalid port.
        return False
    is_plain = url.isprintable() and " " not in url
    extras = parts.username or parts.query or parts.fragment
    return bool(parts.hostname) and is_port and is_plain and not extras


def _object(content: bytes) -> dict[str, Any] | None:
    try:
        found = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def _is_page(body: dict[str, Any]) -> bool:
    items = body.get("items")
    if not isinstance(items, list) or not isinstance(body.get("nextCursor"), str):
        return False
    return all(isinstance(each, dict) and isinstance(each.get("id"), str) for each in items)
