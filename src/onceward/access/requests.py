"""Request headers that decide access: the token of a client, and the traces of a proxy."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

#: Header names in lower case, each with all of its values.
Headers = Mapping[bytes, Sequence[bytes]]

#: Set by proxies. Where our own user's process sends one, it forwards requests of others.
_PROXY_HEADERS: Final = frozenset({b"forwarded", b"x-real-ip", b"via"})
_PROXY_PREFIX: Final = b"x-forwarded-"


def has_token(headers: Headers, token: bytes) -> bool:
    """Return whether a request presents the token, as a bearer token or in our own header."""
    found = list(headers.get(b"x-cm-lab-token", ()))
    for value in headers.get(b"authorization", ()):
        scheme, _, credentials = value.partition(b" ")
        found += [credentials] if scheme.lower() == b"bearer" else []
    return any(hmac.compare_digest(value.strip(), token) for value in found)


def is_forwarded(names: Iterable[bytes]) -> bool:
    """Return whether one of these header names, in lower case, was added by a proxy."""
    return any(name in _PROXY_HEADERS or name.startswith(_PROXY_PREFIX) for name in names)
