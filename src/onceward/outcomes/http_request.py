"""HTTP request: read its idempotency key, scope and fingerprint.

Reads headers and body as ASGI gives them. Knows no store.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, MutableMapping
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote

from onceward.errors import InvalidArgument, TooLarge
from onceward.outcomes.claims import NAME_CHARS_MAX

#: An ASGI scope: one request, or one connection.
AsgiScope = MutableMapping[str, Any]
AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]
AsgiApp = Callable[[AsgiScope, Receive, Send], Awaitable[None]]

KEY_CHARS_MAX: Final = 255
_KEY: Final = re.compile(rf"[ -~]{{1,{KEY_CHARS_MAX}}}")
#: A string as structured headers write it.
_QUOTED: Final = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')
_BOUNDARY: Final = re.compile(rb'boundary="?([^";,]+)', re.IGNORECASE)


def headers_of(scope: AsgiScope, name: str) -> list[bytes]:
    """Return the values of one header, in order."""
    wanted = name.lower().encode("ascii")
    return [value for each, value in scope["headers"] if each.lower() == wanted]


def read_key(scope: AsgiScope, header: str) -> str | None:
    """Return the idempotency key of a request, or None."""
    values = headers_of(scope, header)
    if not values:
        return None
    text = values[0].decode("latin-1").strip(" \t")
    found = _QUOTED.fullmatch(text)
    key = re.sub(r"\\(.)", r"\1", found[1]) if found else text
    is_torn = found is None and text.startswith('"')
    if len(values) > 1 or is_torn or not _KEY.fullmatch(key):
        message = f"{header}: must be one key of 1 to {KEY_CHARS_MAX} printable ASCII characters"
        message += "; the request was not run"
        fix = "send a unique key, such as a random UUID, bare or in double quotes"
        raise InvalidArgument(message, fix=fix, field=header)
    return key


async def read_body(scope: AsgiScope, receive: Receive, bytes_max: int) -> bytes | None:
    """Return the complete body, or None when the client disconnected before its end."""
    too_large = TooLarge(
        f"the request body is larger than {bytes_max} bytes; the request was not run",
        fix=f"send at most {bytes_max} bytes",
    )
    declared = headers_of(scope, "content-length")
    # Python rejects a number of thousands of digits; 18 are enough to compare.
    if any(value.isdigit() and int(value[:18]) > bytes_max for value in declared):
        raise too_large
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body") or b""
        if len(body) > bytes_max:
            raise too_large
        if not message.get("more_body", False):
            return bytes(body)


def default_scope(scope: AsgiScope) -> str:
    """Return method and route.

    The route is its template if the router has run already, else the path.
    """
    path = getattr(scope.get("route"), "path", None) or scope["path"]
    name = f"{scope['method']} {quote(path, safe='/{}:@!$&()*+,;=~')}"
    if len(name) > NAME_CHARS_MAX // 2:
        name = f"{scope['method']} sha256:{sha256(name.encode()).hexdigest()}"
    return name


def default_fingerprint(scope: AsgiScope, body: bytes) -> str:
    """Return a digest of method, path, query, media type and body.

    Clients choose a new boundary for each attempt at a form, so boundaries do not count.
    """
    content_type = b",".join(headers_of(scope, "content-type"))
    media_type = content_type.partition(b";")[0].strip().lower()
    boundary = _BOUNDARY.search(content_type)
    if media_type.startswith(b"multipart/") and boundary is not None:
        body = body.replace(b"--" + boundary[1].strip(), b"--boundary")
    digest = sha256()
    path = scope.get("raw_path") or quote(scope["path"]).encode()
    for part in (scope["method"].encode(), path, scope.get("query_string", b""), media_type, body):
        # With its length, so that no two lists of parts have the same digest.
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.hexdigest()
