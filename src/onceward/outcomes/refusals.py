"""Refusals: what the caller of a function is told when it is not run."""

from __future__ import annotations

from onceward.errors import KeyAmbiguous, KeyExpired, KeyInFlight, KeyReused, OncewardError
from onceward.outcomes.claims import Wanted
from onceward.outcomes.failures import recorded
from onceward.outcomes.models import Ambiguous, Claim, Expired, Failed, InFlight, Mismatch


def refusal(claim: Claim, wanted: Wanted) -> OncewardError:
    """Return the error for an answer that is neither a grant nor a result."""
    scope, key = wanted.scope, wanted.key
    if isinstance(claim, Failed):
        return recorded(claim.failure)
    if isinstance(claim, InFlight):
        return KeyInFlight(
            f"{scope} {key}: somebody is at it",
            scope=scope,
            key=key,
            until=claim.until,
            seconds_left=claim.seconds_left,
        )
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
