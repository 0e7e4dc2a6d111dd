"""HTTP response: record and replay responses byte for byte, and build problem responses."""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import orjson

from onceward.errors import KeyAmbiguous, OncewardError, StoreUnavailable
from onceward.errors.http_status import STATUS_OF_CODE
from onceward.outcomes.claims import ClaimRequest
from onceward.outcomes.http_request import Send
from onceward.outcomes.models import Ambiguous, Claim, Failed, InFlight
from onceward.outcomes.rejections import rejection_error

Headers = Sequence[tuple[bytes, bytes]]

#: Headers of one connection, and cookies, which are secrets of one session.
NOT_STORED: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"set-cookie",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
#: Marks a recorded response among other results.
_MARK: Final = "http"
_JSON: Final = (b"content-type", b"application/json")
_REPLAYED: Final = (b"idempotent-replayed", b"true")
#: Retry-After by HTTP status, in seconds.
_RETRY_SECONDS: Final = {409: 1, 503: 5}
#: Conflicts that a retry with the same key does not resolve.
_FINAL_CONFLICTS: Final = frozenset(
    {"AMBIGUOUS", "JOINED_CONCURRENTLY", "RECORDED_FAILURE", "RESULT_NOT_STORED"}
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Response:
    """One complete response."""

    status: int
    headers: Headers
    body: bytes

    def to_result(self) -> bytes:
        """Return it as JSON, without what belongs to one connection or session."""
        headers = [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in self.headers
            if name.lower() not in NOT_STORED
        ]
        body = base64.b64encode(self.body).decode()
        return orjson.dumps({_MARK: {"status": self.status, "headers": headers, "body": body}})

    @classmethod
    def from_result(cls, result: bytes) -> Self:
        """Return the response to replay; any other result becomes the body of a 200 response."""
        value = orjson.loads(result)
        if not is_response(value):
            length = (b"content-length", b"%d" % len(result))
            return cls(status=200, headers=[_JSON, length, _REPLAYED], body=result)
        parts = value[_MARK]
        headers = [
            (name.encode("latin-1"), kept.encode("latin-1")) for name, kept in parts["headers"]
        ]
        body = base64.b64decode(parts["body"])
        return cls(status=parts["status"], headers=[*headers, _REPLAYED], body=body)

    async def send(self, send: Send) -> None:
        """Send it to the client."""
        head = {"type": "http.response.start", "status": self.status, "headers": [*self.headers]}
        await send(head)
        await send({"type": "http.response.body", "body": self.body})


def is_response(value: object) -> bool:
    """Return whether a result was recorded by the middleware."""
    parts = value.get(_MARK) if isinstance(value, dict) and len(value) == 1 else None
    return isinstance(parts, dict) and parts.keys() == {"status", "headers", "body"}


def result_of(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return the JSON body of a recorded response, for a worker that shares its key.

    Anything else, a response without a JSON body included, is returned unchanged.
    """
    if not is_response(value):
        return value
    try:
        return orjson.loads(base64.b64decode(value[_MARK]["body"]))
    except orjson.JSONDecodeError:
        return value


# --- problem responses: what happened and what to do, without internals ---------------------------


def _retry_seconds(code: str, status: int) -> int:
    """Return the value of Retry-After for an error; 0 for none."""
    return 0 if code in _FINAL_CONFLICTS else _RETRY_SECONDS.get(status, 0)


def problem(error: OncewardError) -> Response:
    """Return an error as `application/problem+json`."""
    status = STATUS_OF_CODE.get(error.code, 500)
    parts = {
        "type": f"urn:onceward:{error.code.lower().replace('_', '-')}",
        "title": _title(error),
        "status": status,
        "detail": error.message,
        "code": error.code,
        "fix": error.fix,
    }
    headers = [(b"content-type", b"application/problem+json"), (b"cache-control", b"no-store")]
    retry_seconds = _retry_seconds(error.code, status)
    if retry_seconds:
        headers.append((b"retry-after", b"%d" % retry_seconds))
    # The standard library's encoder, because it takes every string, lone surrogates included.
    body = json.dumps(parts, separators=(",", ":")).encode()
    headers.append((b"content-length", b"%d" % len(body)))
    return Response(status=status, headers=headers, body=body)


def rejection_response(claim: Claim, wanted: ClaimRequest) -> Response:
    """Return the response when a key is neither granted nor replayed."""
    error = rejection_error(claim, wanted)
    named = " ".join(shlex.quote(name) for name in (wanted.scope, wanted.key))
    if isinstance(claim, Ambiguous):
        decide = f"`onceward outcomes reconcile {named} …`"
        fix = f"find out whether it happened; the operator then decides it with {decide}"
        message = (
            f"{wanted.scope} {wanted.key}: started at {claim.claimed_at}, but never reported a "
            "result; it may have completed"
        )
        error = KeyAmbiguous(message, fix=fix)
    if isinstance(claim, InFlight):
        error.fix = "send it again later, with the same key"
    if not isinstance(claim, Failed):
        return problem(error)
    error.message = (
        f"{wanted.scope} {wanted.key}: failed permanently before; this request did nothing"
    )
    if error.fix == error.default_fix:
        error.fix = f"use a new key to try again; see `onceward outcomes show {named}`"
    answer = problem(error)
    return replace(answer, headers=[*answer.headers, _REPLAYED])


def unavailable() -> OncewardError:
    """Return the error for a store that is down, without its address."""
    return StoreUnavailable(fix="send it again later, with the same key")


def _title(error: OncewardError) -> str:
    return (type(error).__doc__ or "").splitlines()[0]
