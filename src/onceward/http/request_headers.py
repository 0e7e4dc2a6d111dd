"""Request headers: check for the client's token, and for the headers that proxies add."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

#: Header names in lower case, each with all of its values.
Headers = Mapping[bytes, Sequence[bytes]]

#: Set by proxies. A process of our own user that sends one forwards requests of other clients.
_PROXY_HEADERS: Final = frozenset({b"forwarded", b"x-real-ip", b"via"})
_PROXY_PREFIX: Final = b"x-forwarded-"


def has_token(headers: Headers, token: bytes) -> bool:
    """Return whether a request has the token, as a bearer token or in `X-CM-LAB-TOKEN`."""
    found = list(headers.get(b"x-cm-lab-token", ()))
    for value in headers.get(b"authorization", ()):
        scheme, _, credentials = value.partition(b" ")
        found += [credentials] if scheme.lower() == b"bearer" else []
    return any(hmac.compare_digest(value.strip(), token) for value in found)


def is_forwarded(names: Iterable[bytes]) -> bool:
    """Return whether one of these header names, in lower case, was added by a proxy."""
    return any(name in _PROXY_HEADERS or name.startswith(_PROXY_PREFIX) for name in names)
