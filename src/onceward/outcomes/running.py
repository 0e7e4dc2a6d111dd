"""Running: one call of a function that has one outcome, from its claim to its end.

A generator of steps, so that it is the same for `def` and `async def`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from onceward.crash import crash_point
from onceward.errors import (
    FenceLost,
    JoinedConcurrently,
    KeyAmbiguous,
    NotCanonical,
    NotReconcilable,
    OncewardError,
    OutcomeUnknown,
    Retryable,
    StoreBusy,
    StoreUnavailable,
    WriterHeld,
)
from onceward.outcomes.claims import TWIN_SECONDS, Overtaken, Wanted, overtaken_in
from onceward.outcomes.failures import Raises, failure_of, is_replayed, replayed
from onceward.outcomes.models import (
    Ambiguous,
    Claim,
    Done,
    Failed,
    Fence,
    Fresh,
    InFlight,
    NotDone,
    OnCrash,
    Replay,
    Verdict,
)
from onceward.outcomes.outcomes import Outcomes
from onceward.outcomes.own_transaction import OwnTransaction
from onceward.outcomes.refusals import refusal
from onceward.outcomes.results import Results, stored
from onceward.outcomes.steps import Ask, Call, Ended, Sleep, Step, Steps, Turn
from onceward.seams import Clock
from onceward.stores import Transaction

#: While waiting for a twin: look soon, then ever later, up to this.
POLL_SECONDS_MIN: Final = 0.005
POLL_SECONDS_MAX: Final = 0.25
#: How long the end of some work is tried to be recorded while the store is away.
RECORD_SECONDS_MAX: Final = 30.0
#: Calls at a wrong place: nothing happened, and once the program is corrected the key may run.
_MISTAKES: Final = (JoinedConcurrently, WriterHeld)
Asking = Generator[Step, Any, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """What the decorator was told."""

    scope: str
    on_crash: OnCrash
    lease_seconds: float
    #: How long an outcome is kept; None for ever.
    ttl_seconds: float | None
    #: How long to wait for a twin.
    wait_seconds: float
    #: Errors that free the key.
    retry_on: tuple[type[BaseException], ...]
    #: Tells what became of ambiguous work, from the same arguments.
    reconcile: Callable[..., Verdict] | None
    #: Classes that are raised again themselves when a recorded failure is replayed.
    raises: Raises
    #: How what the function returns is stored, and read again.
    results: Results


@dataclass(kw_only=True, slots=True)
class Work:
    """A call that is being run, as seen from inside it."""

    outcomes: Outcomes
    wanted: Wanted
    #: None inside a transaction.
    fence: Fence | None
    retry_on: tuple[type[BaseException], ...]
    clock: Clock
    #: Names of the steps it has taken so far.
    steps: set[str] = field(default_factory=set)


#: The innermost function with one outcome that runs in this context.
CURRENT: Final[ContextVar[Work | None]] = ContextVar("work", default=None)


def effect_happened() -> None:
    """Mark the moment between the end of the function and the record of it."""
    crash_point("outcome.run.after_effect")


def leave(work: Work, outer: Work | None) -> None:
    """End what `CURRENT.set(work)` began."""
    # Not by a token: a task that is destroyed ends in the context of another, which is left alone.
    if CURRENT.get() is work:
        CURRENT.set(outer)


class _Undo(Exception):
    """Rolls a transaction or a joined call back, and goes no further. Its cause says why."""


class Running:
    """One call."""

    def __init__(  # noqa: PLR0913 - made in one place
        self,
        outcomes: Outcomes,
        rules: Rules,
        wanted: Wanted,
        *,
        run: Callable[[Transaction | None], Any],
        decide: Callable[[], Verdict] | None,
        clock: Clock,
    ) -> None:
        """Run `run` when it may be run; ask `decide` about what a crash left open."""
        self._outcomes = outcomes
        self._rules = rules
        self._wanted = wanted
        #: Calls the user's function.
        self.call = run
        self._decide = decide
        self._clock = clock

    def steps(self, known: Claim | None, *, in_transaction: bool) -> Steps:
        """Go on from what a first look has found, until there is an outcome."""
        deadline = self._clock.monotonic() + self._rules.wait_seconds
        pause = POLL_SECONDS_MIN
        while True:
            if known is None:
                asked = self._in_transaction() if in_transaction else self._apart()
                answer: Claim | Ended | None = yield from asked
                if isinstance(answer, Ended):
                    return answer
                known = answer
            if isinstance(known, Replay):
                return Ended(value=self._rules.results.read(known.result))
            if isinstance(known, InFlight):
                left = deadline - self._clock.monotonic()
                if left <= 0 or self._waits_for_itself():
                    return self._refused(known)
                yield Sleep(min(pause, left))
                pause = min(2 * pause, POLL_SECONDS_MAX)
            elif isinstance(known, Ambiguous) and self._decide is not None:
                ended: Ended | None = yield from self._reconcile(known, self._decide)
                if ended is not None:
                    return ended
            elif known is not None:
                return self._refused(known)
            known = yield Ask(partial(self._outcomes.look, self._wanted))

    def _refused(self, claim: Claim) -> Ended:
        if isinstance(claim, Failed):
            return Ended(error=replayed(claim.failure, self._rules.raises))
        return Ended(error=refusal(claim, self._wanted))

    def work(self, fence: Fence | None) -> Work:
        """Return this call as seen from inside of it."""
        return Work(
            outcomes=self._outcomes,
            wanted=self._wanted,
            fence=fence,
            retry_on=self._rules.retry_on,
            clock=self._clock,
        )

    def _waits_for_itself(self) -> bool:
        """Say whether we are inside the very work that we would wait for."""
        work = CURRENT.get()
        return work is not None and work.wanted[:2] == self._wanted[:2]

    def _reconcile(self, found: Ambiguous, decide: Callable[[], Verdict]) -> Asking:
        """Ask the hook; an end when it could not tell."""
        ended: Ended = yield Call(decide)
        if ended.error is not None:
            return ended
        verdict = ended.value
        if not isinstance(verdict, (Done, NotDone)):
            return self._refused(found)
        try:
            said = (
                {"done": self._plain(verdict)} if isinstance(verdict, Done) else {"not_done": True}
            )
            yield Ask(
                partial(
                    self._outcomes.reconcile,
                    *self._wanted[:2],
                    **said,
                    actor="reconcile hook",
                    reason="asked at the next call",
                    fence=found.fence,
                    ttl_seconds=self._rules.ttl_seconds,
                )
            )
        except NotReconcilable:
            pass  # Somebody else has decided; look again.
        except NotCanonical as exc:
            return Ended(error=exc)
        return None

    def _plain(self, verdict: Done) -> object:
        """Return the result that a hook found, as the function's own would be stored."""
        return json.loads(self._rules.results.write(verdict.result))

    # --- a commit for the claim, and another for its end ----------------------------------------

    def _apart(self) -> Asking:
        """Claim and run; an end, or what somebody else's claim has come to, or None to look."""
        outcomes, rules = self._outcomes, self._rules
        if outcomes.is_writer():
            raise WriterHeld
        grant = partial(outcomes.grant, self._wanted, rules.lease_seconds, rules.on_crash)
        try:
            fresh: Fresh | None = yield Ask(grant)
        except OutcomeUnknown:  # Granted or not, the same owner may ask again.
            fresh = yield Ask(grant)
        if fresh is None:
            # Unless a look finds more: a twin that works in a transaction.
            seen = yield Ask(partial(outcomes.look, self._wanted))
            return seen or InFlight("", TWIN_SECONDS)
        fence = fresh.fence
        work, outer = self.work(fence), CURRENT.get()
        CURRENT.set(work)
        try:
            with outcomes.heart.keep(outcomes, fence, rules.lease_seconds):
                ended: Ended = yield Call(partial(self.call, None))
                effect_happened()
                return (yield from self.end(fence, ended))
        finally:
            leave(work, outer)

    def end(self, fence: Fence, ended: Ended) -> Asking:
        """Record how it ended; what the caller gets is what every later caller will get."""
        outcomes, ttl = self._outcomes, self._rules.ttl_seconds
        error = ended.error
        if error is None:
            result, stored = self.stored(ended.value)
            yield from self.recorded(partial(outcomes.record, fence, result, ttl))
            return stored
        if isinstance(error, (OutcomeUnknown, KeyAmbiguous)):
            record = partial(outcomes.doubt, fence, error)
        else:
            is_open = isinstance(error, (Retryable, *_MISTAKES, *self._rules.retry_on))
            frees = is_open and not is_replayed(error)
            failure = failure_of(error, raises=self._rules.raises)
            record = partial(outcomes.fail, fence, failure, retryable=frees, ttl_seconds=ttl)
        try:
            yield from self.recorded(record)
        except (FenceLost, OutcomeUnknown) as exc:
            exc.__cause__ = error
            return Ended(error=exc)
        return Ended(error=error)

    def recorded(self, record: Callable[[], None]) -> Asking:
        """Record it, and insist: the work is over, and without this nobody will know how."""
        seconds = min(self._rules.lease_seconds, RECORD_SECONDS_MAX)
        deadline = self._clock.monotonic() + seconds
        while True:
            try:
                yield Ask(record)
            except (StoreUnavailable, StoreBusy, OutcomeUnknown) as exc:
                if self._clock.monotonic() >= deadline:
                    message = f"{' '.join(self._wanted[:2])}: ran, and could not be recorded"
                    raise OutcomeUnknown(message, fix=KeyAmbiguous.default_fix) from exc
            else:
                return
            yield Sleep(POLL_SECONDS_MAX)

    # --- one commit for claim, effects and end --------------------------------------------------

    def _in_transaction(self) -> Asking:
        """Claim, run and finish in one commit; an end, or what was found, or None to look."""
        joined = self._outcomes.store.current()
        if joined is not None:
            return (yield from self._within(joined))
        has_place: bool = yield Turn(begin=True)
        try:
            answer = yield from self._alone(has_place=has_place)
        except (Overtaken, BaseExceptionGroup) as exc:
            if overtaken_in(exc) is None:
                raise
            answer = None
        yield Turn(begin=False)
        return answer

    def _within(self, tx: Transaction) -> Asking:
        """Claim, run and finish as a part of the caller's transaction.

        When it fails it is undone alone, whatever the caller does with the error.
        """
        ended = Ended()
        claim: Claim | None = None
        try:
            with tx.nested():
                claim = self.claim_in(tx)
                if not isinstance(claim, Fresh):
                    return claim
                ended = yield from self._called(tx, claim)
                if ended.error is not None:
                    raise _Undo from ended.error  # noqa: TRY301 - this is how it is left
                result, ended = self.stored(ended.value)
                # FenceLost ends the caller's transaction, of which this is a part.
                self._finish_in(tx, claim, result)
        except (Overtaken, BaseExceptionGroup) as exc:
            overtaken = overtaken_in(exc)
            if overtaken is None or not isinstance(claim, Fresh) or overtaken.fence != claim.fence:
                raise  # A call around this one was overtaken, at the first write of this one.
            return None
        except _Undo:
            pass  # The key stays free: the caller may commit, or roll back, or retry.
        return ended

    def _alone(self, *, has_place: bool) -> Asking:
        """Claim, run and finish in a transaction of this call's own."""
        own = OwnTransaction(self._outcomes.store, has_place=has_place)
        claim: Claim = yield own.opening(self.claim_in)
        if not isinstance(claim, Fresh):
            return claim
        try:
            with self._outcomes.store.joined(own.tx):
                ended: Ended = yield from self._called(own.tx, claim)
                if ended.error is None:
                    result, ended = self.stored(ended.value)
                    yield own.committing(partial(self.finish_alone, own.tx, claim, result))
                    return ended
        except GeneratorExit:  # The task is destroyed: it cannot wait for a thread any more.
            own.roll_back()
            raise
        except BaseException:
            yield own.undoing()
            raise
        yield own.undoing()
        try:
            yield from self.record(claim.fence, ended.error)
        except FenceLost:
            return None  # A concurrent call with the same key was quicker: return its outcome.
        return ended

    def claim_in(self, tx: Transaction) -> Claim:
        """Claim the key inside a transaction."""
        scope, key, fingerprint, owner = self._wanted
        return self._outcomes.claim_in(tx, scope, key, fingerprint=fingerprint, owner=owner)

    def _called(self, tx: Transaction, fresh: Fresh) -> Asking:
        """Call the function."""
        work, outer = self.work(None), CURRENT.get()
        CURRENT.set(work)
        try:
            return (yield Call(partial(self.call, tx)))
        finally:
            leave(work, outer)
            fresh.watch.is_over = True

    def _finish_in(self, tx: Transaction, fresh: Fresh, result: bytes | None) -> None:
        fresh.watch.is_over = False  # Without a write of its own, the first one is ours.
        ttl = self._rules.ttl_seconds
        self._outcomes.finish_in(tx, fresh.fence, result, ttl_seconds=ttl)

    def finish_alone(self, tx: Transaction, fresh: Fresh, result: bytes | None) -> None:
        """Record the result in the transaction of this call's own."""
        try:
            self._finish_in(tx, fresh, result)
        except FenceLost:
            raise Overtaken(fresh.fence) from None

    def record(self, fence: Fence, error: Exception) -> Asking:
        """Keep a failure whose effects are undone, unless a retry may help."""
        is_open = isinstance(error, (Retryable, OutcomeUnknown, KeyAmbiguous, *_MISTAKES))
        if not is_replayed(error) and (
            is_open
            or isinstance(error, self._rules.retry_on)
            or (isinstance(error, OncewardError) and error.retryable)
        ):
            return
        ttl, failure = self._rules.ttl_seconds, failure_of(error, raises=self._rules.raises)
        yield Ask(partial(self._outcomes.fail_after, fence, failure, ttl_seconds=ttl))

    def stored(self, value: object) -> tuple[bytes | None, Ended]:
        """Return what is stored of a result, and how the call ends for its caller."""
        return stored(self._rules.results, value, " ".join(self._wanted[:2]))
