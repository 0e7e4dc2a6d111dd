"""Rejections: build the error for a caller whose call is neither run nor replayed."""

from __future__ import annotations

from typing import Final

from onceward.errors import (
    KeyAmbiguous,
    KeyExpired,
    KeyInFlight,
    KeyReused,
    OncewardError,
    ResultNotStored,
)
from onceward.outcomes.claims import ClaimRequest
from onceward.outcomes.error_encoding import recorded_failure
from onceward.outcomes.models import (
    Ambiguous,
    Claim,
    Expired,
    Failed,
    InFlight,
    Mismatch,
    NotStored,
)
from onceward.outcomes.request_fingerprint import is_other_caller

_OTHER_CALLER_FIX: Final = (
    "if you sent this key before with other credentials, that request may have been carried out: "
    "find out before you use a new key. For the operator: pass caller= to IdempotencyMiddleware, "
    "so that a principal may change its credentials, or caller_cookies= with the cookies to compare"
)


def rejection_error(claim: Claim, wanted: ClaimRequest) -> OncewardError:  # noqa: PLR0911 - one an answer
    """Return the error for a claim that is neither granted nor replayed."""
    scope, key = wanted.scope, wanted.key
    if isinstance(claim, Failed):
        return recorded_failure(claim.failure)
    if isinstance(claim, NotStored):
        message = (
            f"{scope} {key}: was done before, and does not run again; its result was not stored"
        )
        return ResultNotStored(message, scope=scope, key=key)
    if isinstance(claim, InFlight):
        return KeyInFlight(
            f"{scope} {key}: another caller is running it; nothing was done",
            scope=scope,
            key=key,
            until=claim.until,
            seconds_left=claim.seconds_left,
        )
    if isinstance(claim, Mismatch) and is_other_caller(claim.fingerprint, wanted.fingerprint):
        message = f"{scope} {key}: the key was used before by another caller; nothing was done"
        return KeyReused(message, fix=_OTHER_CALLER_FIX, scope=scope, key=key)
    if isinstance(claim, Mismatch):
        message = f"{scope} {key}: the key was used before, with other arguments; nothing was done"
        fix = "use a new key for new work, or pass the same arguments to get the recorded outcome"
        return KeyReused(message, fix=fix, scope=scope, key=key)
    if isinstance(claim, Expired):
        message = f"{scope} {key}: the recorded outcome expired at {claim.at}; nothing was done"
        return KeyExpired(message, scope=scope, key=key, at=claim.at)
    assert isinstance(claim, Ambiguous), claim
    message = (
        f"{scope} {key}: started by {claim.owner} at {claim.claimed_at}, but never reported a "
        "result; it may have completed"
    )
    return KeyAmbiguous(
        message, scope=scope, key=key, owner=claim.owner, claimed_at=claim.claimed_at
    )
