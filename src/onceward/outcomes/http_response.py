"""Response: an answer as it is recorded and replayed, byte for byte, and answers of our own."""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import orjson

from onceward.errors import KeyAmbiguous, OncewardError, StoreUnavailable
from onceward.outcomes.claims import Wanted
from onceward.outcomes.http_request import Send
from onceward.outcomes.models import Ambiguous, Claim, Failed
from onceward.outcomes.refusals import refusal
from onceward.statuses import STATUS_OF_CODE

Headers = Sequence[tuple[bytes, bytes]]

#: Belong to one connection, not to the answer; and cookies, which are secrets of one session.
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
#: Tells a recorded answer from any other result.
_MARK: Final = "http"
_JSON: Final = (b"content-type", b"application/json")
_REPLAYED: Final = (b"idempotent-replayed", b"true")
#: When to come back: a twin is at it, or the store is down.
_RETRY_SECONDS: Final = {"CONFLICT": 1, "IN_FLIGHT": 1, "OUTCOME_UNKNOWN": 5, "UNAVAILABLE": 5}


@dataclass(frozen=True, kw_only=True, slots=True)
class Response:
    """One complete answer."""

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
        """Return the answer to replay; a result that is not one is the body of an answer."""
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
        """Answer with it."""
        head = {"type": "http.response.start", "status": self.status, "headers": [*self.headers]}
        await send(head)
        await send({"type": "http.response.body", "body": self.body})


def is_response(value: object) -> bool:
    """Say whether a result was recorded by the middleware."""
    parts = value.get(_MARK) if isinstance(value, dict) and len(value) == 1 else None
    return isinstance(parts, dict) and parts.keys() == {"status", "headers", "body"}


def result_of(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return what a worker wants of a shared key's result: of a recorded answer its JSON body.

    Anything else, an answer without a JSON body included, comes back as it is.
    """
    if not is_response(value):
        return value
    try:
        return orjson.loads(base64.b64decode(value[_MARK]["body"]))
    except orjson.JSONDecodeError:
        return value


# --- answers of our own: what happened and what to do, but nothing of the inside -----------------


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
    if error.code in _RETRY_SECONDS:
        headers.append((b"retry-after", b"%d" % _RETRY_SECONDS[error.code]))
    # The standard library's encoder, because it takes every string, lone surrogates included.
    body = json.dumps(parts, separators=(",", ":")).encode()
    headers.append((b"content-length", b"%d" % len(body)))
    return Response(status=status, headers=headers, body=body)


def known(claim: Claim, wanted: Wanted) -> Response:
    """Return the answer when a key is neither granted nor replayed."""
    error = refusal(claim, wanted)
    named = " ".join(shlex.quote(name) for name in (wanted.scope, wanted.key))
    if isinstance(claim, Ambiguous):
        fix = f"find out whether it happened, then run `onceward outcomes reconcile {named} …`"
        message = f"{wanted.scope} {wanted.key}: begun at {claim.claimed_at}, then silence"
        error = KeyAmbiguous(message, fix=fix)
    if not isinstance(claim, Failed):
        return problem(error)
    error.message = f"{wanted.scope} {wanted.key}: failed before, for good"
    if error.fix == error.default_fix:
        error.fix = f"use a new key to try anew; see `onceward outcomes show {named}`"
    answer = problem(error)
    return replace(answer, headers=[*answer.headers, _REPLAYED])


def unavailable() -> OncewardError:
    """Return the error for a store that is down; where it is concerns nobody outside."""
    return StoreUnavailable(fix="send it again later, with the same key")


def _title(error: OncewardError) -> str:
    return (type(error).__doc__ or "").splitlines()[0]
