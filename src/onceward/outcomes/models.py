"""Models: what can be known of a piece of work, and what a caller who claims it is told.

Plain frozen data. Knows no store.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NewType

#: Who runs the work: host, process, and what makes one call differ from the next.
Owner = NewType("Owner", str)
#: What may be done after a crash: nothing until somebody looked, or simply run it again.
OnCrash = Literal["ambiguous", "rerun"]


class OutcomeState(StrEnum):
    """How far a key has come, as of now."""

    #: Claimed, and the claim is kept alive.
    RUNNING = "running"
    #: Has a result, which every later caller gets.
    DONE = "done"
    #: Failed for good; every later caller gets the same failure.
    FAILED = "failed"
    #: Begun, then silence, so the effect may have happened; a hook or a person decides.
    AMBIGUOUS = "ambiguous"
    #: Begun, then silence, and declared safe to repeat: the next caller runs it.
    ABANDONED = "abandoned"
    #: May be run: it failed in a way that frees the key, was found not done, or was forgotten.
    FREE = "free"
    #: Its result has run out; the key is refused until the tombstone goes.
    EXPIRED = "expired"


class EffectState(StrEnum):
    """How far one step inside a piece of work has come."""

    #: About to happen, or happened without a word: found again, it is in doubt.
    INTENDED = "intended"
    #: Has a result, which every rerun gets.
    DONE = "done"
    #: Failed for good.
    FAILED = "failed"
    #: The step itself said that it does not know.
    AMBIGUOUS = "ambiguous"
    #: Did not happen; a rerun runs it.
    FREE = "free"


@dataclass(frozen=True, kw_only=True, slots=True)
class Fence:
    """The right to say how a piece of work ended; worthless once somebody else was granted it."""

    scope: str
    key: str
    fingerprint: str
    #: Grows by one at each grant of the key.
    number: int
    owner: str
    #: When it was granted, so that a key removed and made anew is told apart; empty in a
    #: transaction, where nothing is granted before it commits.
    granted_at: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """An error, as it is recorded and replayed."""

    #: The class, such as `ValueError` or `shop.CardDeclined`.
    type: str
    message: str
    #: What the error carried, if it was JSON.
    data: Any = None
    #: What its class was called with, where that was asked for and is JSON.
    args: list[Any] | None = None


# --- what a claim is answered -------------------------------------------------------------------


class Watch:
    """Whether a piece of work in a transaction still waits for its first write."""

    def __init__(self) -> None:
        """Watch."""
        self.is_over = False


@dataclass(frozen=True, slots=True)
class Fresh:
    """Yours to run; say how it ended with this fence."""

    fence: Fence
    #: Ends when work in somebody else's transaction is given up before it wrote anything.
    watch: Watch = field(default_factory=Watch, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Replay:
    """Done before; this is the result, byte for byte."""

    result: bytes


@dataclass(frozen=True, slots=True)
class NotStored:
    """Done before, with a result that could not be stored."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Failed for good before."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class InFlight:
    """Somebody runs it now."""

    #: When that claim ends unless it is renewed, for people; empty where nobody knows.
    until: str
    #: The same, from now.
    seconds_left: float


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The key was used before, for other work."""

    #: The fingerprint that came first.
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """Begun, then silence: it may have happened, and is not run again until reconciled."""

    #: Who began it, and when, for people.
    owner: str
    claimed_at: str
    #: The grant that fell silent; a verdict on it says nothing about later ones.
    fence: int


@dataclass(frozen=True, slots=True)
class Expired:
    """The result has run out, and the key may not be used anew yet."""

    #: When the result ran out, for people.
    at: str


Claim = Fresh | Replay | NotStored | Failed | InFlight | Mismatch | Ambiguous | Expired


# --- what a reconcile hook answers --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Done:
    """It did happen, and this is the result."""

    result: Any = None


@dataclass(frozen=True, slots=True)
class NotDone:
    """It did not happen; run it."""


#: None: nobody can tell yet.
Verdict = Done | NotDone | None


# --- what people look at ------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """Everything known of one key."""

    scope: str
    key: str
    state: OutcomeState
    fence: int
    owner: str
    #: None when it was forgotten: any work may take the key.
    fingerprint: str | None
    on_crash: OnCrash
    claimed_at: str
    updated_at: str
    #: End of the lease while running; end of life of a result; None for ever.
    until: str | None
    result: bytes | None
    failure: Failure | None
    #: Who decided what a crash had left open, and why.
    note: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """One key in a list."""

    #: Where it stands in the order in which keys came to be known.
    number: int
    #: Without its result, unless results were asked for.
    record: Record
    has_result: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class EffectRecord:
    """Everything known of one step."""

    name: str
    state: EffectState
    fence: int
    updated_at: str
    result: bytes | None
    failure: Failure | None
    note: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Pruned:
    """What a pruning did."""

    #: Results that had run out and were erased; a tombstone stays.
    expired: int
    #: Tombstones that were removed: those keys are new again.
    removed: int
