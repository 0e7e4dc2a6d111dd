"""Outcome models: outcomes of idempotent calls, and the answers to a claim. Knows no store."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NewType

#: The caller that holds a claim: host, process, and a number for each call.
Owner = NewType("Owner", str)
#: State of a running call after a crash: ambiguous until reconciled, or free to run again.
OnCrash = Literal["ambiguous", "rerun"]


class OutcomeState(StrEnum):
    """State of a key, as of now."""

    #: Claimed, and its lease has not expired.
    RUNNING = "running"
    #: Has a result, which every later caller gets.
    DONE = "done"
    #: Failed for good; every later caller gets the same failure.
    FAILED = "failed"
    #: Started but never reported a result; the effect may have happened. To be reconciled.
    AMBIGUOUS = "ambiguous"
    #: Started but never reported a result, and declared idempotent: the next caller runs it.
    ABANDONED = "abandoned"
    #: May run: it failed with a retryable error, was reconciled as not done, or was forgotten.
    FREE = "free"
    #: Its result has expired; the key is rejected until its tombstone is removed.
    EXPIRED = "expired"


class EffectState(StrEnum):
    """State of one step (effect) inside a call."""

    #: About to happen, or it happened unreported: ambiguous when a rerun finds it.
    INTENDED = "intended"
    #: Has a result, which every rerun gets.
    DONE = "done"
    #: Failed for good.
    FAILED = "failed"
    #: The step itself reported that it may or may not have happened.
    AMBIGUOUS = "ambiguous"
    #: Did not happen; a rerun runs it.
    FREE = "free"


@dataclass(frozen=True, kw_only=True, slots=True)
class Fence:
    """The claim's fencing token: settling the key with it fails once another caller was granted."""

    scope: str
    key: str
    fingerprint: str
    #: Grows by one at each grant of the key.
    number: int
    owner: str
    #: When it was granted, which distinguishes a key that was removed and created again; empty in
    #: a transaction, where nothing is granted before it commits.
    granted_at: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredFailure:
    """An error, as it is recorded and replayed."""

    #: The class, such as `ValueError` or `shop.CardDeclined`.
    type: str
    message: str
    #: Data of the error, if it was JSON.
    data: Any = None
    #: Arguments of its class, if `raises` requested them and they are JSON.
    args: list[Any] | None = None


# --- answers to a claim -------------------------------------------------------------------------


class FirstWriteCheck:
    """Whether the first write of a call's transaction must verify that its key is still free."""

    def __init__(self) -> None:
        """Begin enabled."""
        self.is_disabled = False


@dataclass(frozen=True, slots=True)
class Fresh:
    """Granted: run the work, and settle the key with this fence."""

    fence: Fence
    #: Disabled once the function has ended, so that later writes of a joined transaction pass.
    first_write_check: FirstWriteCheck = field(
        default_factory=FirstWriteCheck, repr=False, compare=False
    )


@dataclass(frozen=True, slots=True)
class Replay:
    """Done before; this is the recorded result, byte for byte."""

    result: bytes


@dataclass(frozen=True, slots=True)
class NotStored:
    """Done before, with a result that could not be stored."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Failed for good before."""

    failure: StoredFailure


@dataclass(frozen=True, slots=True)
class InFlight:
    """Another caller runs it now."""

    #: When that claim expires unless it is renewed, as text; empty where that is unknown.
    until: str
    #: Seconds until that expiry.
    seconds_left: float


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The key was used before, with another fingerprint."""

    #: The fingerprint of the first call.
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """Started but never reported a result; it may have completed. Blocked until reconciled."""

    #: The caller that started it, and when, as text.
    owner: str
    claimed_at: str
    #: The claim to reconcile; a decision about it does not apply to later claims.
    fence: int


@dataclass(frozen=True, slots=True)
class Expired:
    """The result has expired, and the key may not be used again yet."""

    #: When the result expired, as text.
    at: str


Claim = Fresh | Replay | NotStored | Failed | InFlight | Mismatch | Ambiguous | Expired


# --- answers of a reconcile hook ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Done:
    """It did happen, and this is the result."""

    result: Any = None


@dataclass(frozen=True, slots=True)
class NotDone:
    """It did not happen; run it."""


#: None: not known yet; the outcome stays ambiguous.
Verdict = Done | NotDone | None


# --- views for operators ------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomeRecord:
    """The stored outcome of one key."""

    scope: str
    key: str
    state: OutcomeState
    fence: int
    owner: str
    #: None when it was forgotten: any call may use the key.
    fingerprint: str | None
    on_crash: OnCrash
    claimed_at: str
    updated_at: str
    #: End of the lease while running, else expiry of the result; None: never expires.
    until: str | None
    result: bytes | None
    failure: StoredFailure | None
    #: JSON with the actor, reason and verdict of the last decision.
    note: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomeListItem:
    """One outcome in a list."""

    #: Sequence number, in the order in which keys were first claimed.
    number: int
    #: Without its result, unless results were requested.
    record: OutcomeRecord
    has_result: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class EffectRecord:
    """The stored state of one step."""

    name: str
    state: EffectState
    fence: int
    updated_at: str
    result: bytes | None
    failure: StoredFailure | None
    note: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PruneCounts:
    """Counts of what pruning erased."""

    #: Expired results that were erased; a tombstone stays.
    expired: int
    #: Tombstones that were removed: those keys are new again.
    removed: int
