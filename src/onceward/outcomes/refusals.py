"""Refusals: what the caller of a function is told when it is not run."""

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
from onceward.outcomes.claims import Wanted
from onceward.outcomes.failures import recorded
from onceward.outcomes.fingerprints import is_other_caller
from onceward.outcomes.models import (
    Ambiguous,
    Claim,
    Expired,
    Failed,
    InFlight,
    Mismatch,
    NotStored,
)

_OTHER_CALLER_FIX: Final = (
    "if you sent this key before with other credentials, that request may have been carried out: "
    "find out before you use a new key. For the operator: pass caller= to IdempotencyMiddleware, "
    "so that a principal may change its credentials, or caller_cookies= with the cookies that count"
)


def refusal(claim: Claim, wanted: Wanted) -> OncewardError:  # noqa: PLR0911 - one an answer
    """Return the error for an answer that is neither a grant nor a result."""
    scope, key = wanted.scope, wanted.key
    if isinstance(claim, Failed):
        return recorded(claim.failure)
    if isinstance(claim, NotStored):
        message = f"{scope} {key}: was done, and its result could not be stored"
        return ResultNotStored(message, scope=scope, key=key)
    if isinstance(claim, InFlight):
        return KeyInFlight(
            f"{scope} {key}: somebody is at it",
            scope=scope,
            key=key,
            until=claim.until,
            seconds_left=claim.seconds_left,
        )
    if isinstance(claim, Mismatch) and is_other_caller(claim.fingerprint, wanted.fingerprint):
        message = f"{scope} {key}: the key was used before by another caller; nothing was done"
        return KeyReused(message, fix=_OTHER_CALLER_FIX, scope=scope, key=key)
    if isinstance(claim, Mismatch):
        message = f"{scope} {key}: the key was used before, with other arguments"
        return KeyReused(message, scope=scope, key=key)
    if isinstance(claim, Expired):
        message = f"{scope} {key}: the result ran out at {claim.at}"
        return KeyExpired(message, scope=scope, key=key, at=claim.at)
    assert isinstance(claim, Ambiguous), claim
    message = f"{scope} {key}: begun by {claim.owner} at {claim.claimed_at}, then silence"
    return KeyAmbiguous(
        message, scope=scope, key=key, owner=claim.owner, claimed_at=claim.claimed_at
    )
