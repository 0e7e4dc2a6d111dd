"""HTTP caller: identify the sender of a request, by principal or by credentials.

Credentials are compared by digest and never stored. Knows no store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator
from hashlib import sha256
from inspect import isawaitable
from typing import Final
from urllib.parse import quote

from onceward.errors import InvalidArgument
from onceward.outcomes.http_request import AsgiScope

#: Returns a stable principal, such as a user's id; None for a request without one.
CallerOf = Callable[[AsgiScope], str | Awaitable[str | None] | None]

#: Headers in which clients and authenticating proxies send credentials, besides `Cookie`.
CREDENTIAL_HEADERS: Final = (
    "Authorization",
    "Proxy-Authorization",
    "Api-Key",
    "ApiKey",
    "Private-Token",
    "Remote-User",
    "X-Access-Token",
    "X-Api-Key",
    "X-Api-Token",
    "X-Auth-Key",
    "X-Auth-Request-User",
    "X-Auth-Token",
    "X-Authorization",
    "X-Forwarded-Client-Cert",
    "X-Forwarded-User",
    "X-Remote-User",
    "X-Session-Id",
    "X-Session-Token",
    "X-Token",
    "X-User-Id",
)
#: 128 bits: no caller finds the digest of another by chance.
DIGEST_CHARS: Final = 32
#: A longer principal is replaced by its digest.
PRINCIPAL_CHARS_MAX: Final = 255


class Callers:
    """Identifies the callers of one application."""

    def __init__(
        self,
        caller: CallerOf | None,
        *,
        headers: Collection[str],
        cookies: Collection[str] | None,
    ) -> None:
        """Use the principal from `caller`; without one compare these headers and cookies."""
        self._caller = caller
        named = (*CREDENTIAL_HEADERS, *_names("caller_headers", headers))
        self._headers = frozenset(name.lower().encode() for name in named)
        self._cookies = (
            None
            if cookies is None
            else frozenset(name.encode() for name in _names("caller_cookies", cookies))
        )

    async def identify(self, request: AsgiScope, scope: str) -> tuple[str, str]:
        """Return the scope of the caller's keys, and the digest that is compared within it.

        A principal has a scope of its own, so nothing is left to compare. Requests without a
        principal share a scope, where credentials are compared as if there were no `caller=`.
        """
        if self._caller is None:
            return scope, self.digest(request)
        principal = self._caller(request)
        if isawaitable(principal):
            principal = await principal
        if principal is not None and not isinstance(principal, str):
            message = f"caller must return a string or None, not {type(principal).__name__}"
            raise TypeError(message)
        return caller_scope(scope, principal), "" if principal else self.digest(request)

    def digest(self, request: AsgiScope) -> str:
        """Return a digest of a request's credentials, or an empty text if it has none.

        Their order does not count: two requests are equal only if all their credentials are.
        """
        found = sorted(self._credentials(request))
        if not found:
            return ""
        digest = sha256()
        for part in (part for pair in found for part in pair):
            # With its length, so that no two lists of parts have the same digest.
            digest.update(b"%d:" % len(part))
            digest.update(part)
        return digest.hexdigest()[:DIGEST_CHARS]

    def _credentials(self, request: AsgiScope) -> Iterator[tuple[bytes, bytes]]:
        for name, value in request["headers"]:
            header = name.lower()
            if header == b"cookie":
                yield from self._cookies_of(value)
            elif header in self._headers and (stripped := value.strip()):
                yield header, stripped

    def _cookies_of(self, value: bytes) -> Iterator[tuple[bytes, bytes]]:
        for cookie in value.split(b";"):
            name, _, content = cookie.partition(b"=")
            name = name.strip()
            if cookie.strip() and (self._cookies is None or name in self._cookies):
                yield b"cookie " + name, content.strip()


def caller_scope(scope: str, principal: str | None) -> str:
    """Return the scope of one principal's keys; a worker that shares them uses it, too.

    An encoded principal contains neither a space, a colon nor a star: no two pairs have one name.
    """
    if not principal:
        return f"{scope} as *"
    named = quote(principal, safe="@", errors="surrogatepass")
    if len(named) > PRINCIPAL_CHARS_MAX:
        named = f"sha256:{sha256(named.encode()).hexdigest()}"
    return f"{scope} as {named}"


def _names(field: str, names: Collection[str]) -> Collection[str]:
    """Reject a string in place of a list: its letters would be taken for names."""
    if isinstance(names, str):
        message = f"{field}: must be a list of names, not the string {names!r}"
        raise InvalidArgument(message, fix=f"pass {field}=[{names!r}]", field=field)
    return names
