"""Call execution: run one idempotent call, from its claim to its recorded outcome.

A generator of steps, so that it is the same for `def` and `async def`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

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
from onceward.outcomes.claims import (
    CONCURRENT_RETRY_SECONDS,
    ClaimRequest,
    KeyAlreadySettled,
    find_key_already_settled,
)
from onceward.outcomes.error_encoding import Raises, failure_of, is_replayed_error, replayed_error
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
from onceward.outcomes.rejections import rejection_error
from onceward.outcomes.result_encoding import ResultEncoder, encode_result
from onceward.outcomes.running_call import CURRENT_CALL, RunningCall, restore_current_call
from onceward.outcomes.step_drivers import (
    BlockingStep,
    CallResult,
    SleepStep,
    Step,
    Steps,
    TransactionSlotStep,
    UserCallStep,
)
from onceward.stores import Transaction
from onceward.system import Clock
from onceward.system.crash_points import crash_point

#: Polling interval while a concurrent caller runs the key; it doubles up to the maximum.
POLL_SECONDS_MIN: Final = 0.005
POLL_SECONDS_MAX: Final = 0.25
#: How long recording a result is retried while the store is unavailable.
RECORD_SECONDS_MAX: Final = 30.0
_UNRECORDED_FIX: Final = (
    "run `onceward outcomes show`; once it says ambiguous, find out whether it happened, "
    'then run `onceward outcomes reconcile`; with on_crash="rerun" call again instead'
)
#: Misuse of the API: nothing happened, so the key may run once the program is corrected.
_MISUSE_ERRORS: Final = (JoinedConcurrently, WriterHeld)
StepGenerator = Generator[Step, Any, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class CallOptions:
    """The options of the decorator."""

    scope: str
    on_crash: OnCrash
    lease_seconds: float
    #: How long an outcome is kept; None: never expires.
    ttl_seconds: float | None
    #: How long to wait for a concurrent caller with the same key.
    wait_seconds: float
    #: Errors that free the key.
    retry_on: tuple[type[BaseException], ...]
    #: Decides an ambiguous outcome, from the same arguments.
    reconcile: Callable[..., Verdict] | None
    #: Classes that a replayed failure is raised as, instead of RecordedFailure.
    raises: Raises
    #: Encodes and decodes what the function returns.
    results: ResultEncoder


def function_returned() -> None:
    """Mark the moment between the end of the function and recording its result."""
    crash_point("outcome.run.after_effect")


class _RollBackCall(Exception):
    """Rolls back a joined call, and is caught right outside of it. Its cause is the reason."""


class CallExecution:
    """One idempotent call."""

    def __init__(  # noqa: PLR0913 - made in one place
        self,
        outcomes: Outcomes,
        options: CallOptions,
        request: ClaimRequest,
        *,
        run: Callable[[Transaction | None], Any],
        decide: Callable[[], Verdict] | None,
        clock: Clock,
    ) -> None:
        """Call `run` if the key is granted, and `decide` if its outcome is ambiguous."""
        self._outcomes = outcomes
        self._options = options
        self._request = request
        #: Calls the user's function.
        self.call = run
        self._decide = decide
        self._clock = clock

    def steps(self, known: Claim | None, *, in_transaction: bool) -> Steps:
        """Continue from the answer that was found first, until there is an outcome."""
        deadline = self._clock.monotonic() + self._options.wait_seconds
        pause = POLL_SECONDS_MIN
        while True:
            if known is None:
                run = self._run_with_tx() if in_transaction else self._run_without_tx()
                answer: Claim | CallResult | None = yield from run
                if isinstance(answer, CallResult):
                    return answer
                known = answer
            if isinstance(known, Replay):
                return CallResult(value=self._options.results.read(known.result))
            if isinstance(known, InFlight):
                left = deadline - self._clock.monotonic()
                if left <= 0 or self._waits_for_itself():
                    return self._rejection(known)
                yield SleepStep(min(pause, left))
                pause = min(2 * pause, POLL_SECONDS_MAX)
            elif isinstance(known, Ambiguous) and self._decide is not None:
                ended: CallResult | None = yield from self._reconcile(known, self._decide)
                if ended is not None:
                    return ended
            elif known is not None:
                return self._rejection(known)
            known = yield BlockingStep(partial(self._outcomes.find, self._request))

    def _rejection(self, claim: Claim) -> CallResult:
        if isinstance(claim, Failed):
            return CallResult(error=replayed_error(claim.failure, self._options.raises))
        return CallResult(error=rejection_error(claim, self._request))

    def running_call(self, fence: Fence | None) -> RunningCall:
        """Return what `effect()` inside of the function needs."""
        return RunningCall(
            outcomes=self._outcomes,
            request=self._request,
            fence=fence,
            retry_on=self._options.retry_on,
            clock=self._clock,
        )

    def _waits_for_itself(self) -> bool:
        """Return whether this call is inside the call that it would wait for."""
        call = CURRENT_CALL.get()
        return call is not None and call.request[:2] == self._request[:2]

    def _reconcile(self, found: Ambiguous, decide: Callable[[], Verdict]) -> StepGenerator:
        """Call the hook; return a result only if the outcome stays ambiguous."""
        ended: CallResult = yield UserCallStep(decide)
        if ended.error is not None:
            return ended
        verdict = ended.value
        if not isinstance(verdict, (Done, NotDone)):
            return self._rejection(found)
        try:
            decision = (
                {"done": self._as_stored(verdict)}
                if isinstance(verdict, Done)
                else {"not_done": True}
            )
            yield BlockingStep(
                partial(
                    self._outcomes.reconcile,
                    *self._request[:2],
                    **decision,
                    actor="reconcile hook",
                    reason="called at the next call",
                    fence=found.fence,
                    ttl_seconds=self._options.ttl_seconds,
                )
            )
        except NotReconcilable:
            pass  # Another caller or operator has decided: find the outcome again.
        except NotCanonical as exc:
            return CallResult(error=exc)
        return None

    def _as_stored(self, verdict: Done) -> object:
        """Return a hook's result as the function's own would be stored."""
        return json.loads(self._options.results.write(verdict.result))

    # --- a commit for the claim, and another for its end ----------------------------------------

    def _run_without_tx(self) -> StepGenerator:
        """Claim and run; return the result, or another caller's claim, or None to find again."""
        outcomes, options = self._outcomes, self._options
        if outcomes.is_writer():
            raise WriterHeld
        grant = partial(outcomes.grant, self._request, options.lease_seconds, options.on_crash)
        try:
            fresh: Fresh | None = yield BlockingStep(grant)
        except OutcomeUnknown:  # Granted or not, the same owner may claim again.
            fresh = yield BlockingStep(grant)
        if fresh is None:
            # Nothing is stored while a concurrent caller works in a transaction.
            found = yield BlockingStep(partial(outcomes.find, self._request))
            return found or InFlight("", CONCURRENT_RETRY_SECONDS)
        fence = fresh.fence
        call, outer = self.running_call(fence), CURRENT_CALL.get()
        CURRENT_CALL.set(call)
        try:
            with outcomes.heartbeat.keep_alive(outcomes, fence, options.lease_seconds):
                ended: CallResult = yield UserCallStep(partial(self.call, None))
                function_returned()
                return (yield from self.record_end(fence, ended))
        finally:
            restore_current_call(call, outer)

    def record_end(self, fence: Fence, ended: CallResult) -> StepGenerator:
        """Record the result or error, and return what this and every later caller gets."""
        outcomes, ttl = self._outcomes, self._options.ttl_seconds
        error = ended.error
        if error is None:
            result, stored = self.encode(ended.value)
            yield from self.record_with_retries(partial(outcomes.record, fence, result, ttl))
            return stored
        if isinstance(error, (OutcomeUnknown, KeyAmbiguous)):
            record = partial(outcomes.mark_ambiguous, fence, error)
        else:
            is_open = isinstance(error, (Retryable, *_MISUSE_ERRORS, *self._options.retry_on))
            frees = is_open and not is_replayed_error(error)
            failure = failure_of(error, raises=self._options.raises)
            record = partial(outcomes.fail, fence, failure, retryable=frees, ttl_seconds=ttl)
        try:
            yield from self.record_with_retries(record)
        except (FenceLost, OutcomeUnknown) as exc:
            exc.__cause__ = error
            return CallResult(error=exc)
        return CallResult(error=error)

    def record_with_retries(self, record: Callable[[], None]) -> StepGenerator:
        """Record the end of the call, and retry: without a record its outcome is ambiguous."""
        seconds = min(self._options.lease_seconds, RECORD_SECONDS_MAX)
        deadline = self._clock.monotonic() + seconds
        while True:
            try:
                yield BlockingStep(record)
            except (StoreUnavailable, StoreBusy, OutcomeUnknown) as exc:
                if self._clock.monotonic() >= deadline:
                    message = (
                        f"{' '.join(self._request[:2])}: the call ended, but the store did not "
                        f"confirm its record within {seconds:g} s; its effects may have happened"
                    )
                    raise OutcomeUnknown(message, fix=_UNRECORDED_FIX) from exc
            else:
                return
            yield SleepStep(POLL_SECONDS_MAX)

    # --- one commit for claim, effects and end --------------------------------------------------

    def _run_with_tx(self) -> StepGenerator:
        """Claim, run and record in one commit; return a result, a claim, or None to find again."""
        joined = self._outcomes.store.current()
        if joined is not None:
            return (yield from self._run_joined(joined))
        has_slot: bool = yield TransactionSlotStep(begin=True)
        try:
            answer = yield from self._run_in_own_transaction(has_slot=has_slot)
        except (KeyAlreadySettled, BaseExceptionGroup) as exc:
            if find_key_already_settled(exc) is None:
                raise
            answer = None
        yield TransactionSlotStep(begin=False)
        return answer

    def _run_joined(self, tx: Transaction) -> StepGenerator:
        """Claim, run and record inside a savepoint of the caller's transaction.

        A failure rolls back to the savepoint, whatever the caller does with the error.
        """
        ended = CallResult()
        claim: Claim | None = None
        try:
            with tx.nested():
                claim = self.claim_in(tx)
                if not isinstance(claim, Fresh):
                    return claim
                ended = yield from self._call_function(tx, claim)
                if ended.error is not None:
                    raise _RollBackCall from ended.error  # noqa: TRY301 - leaves the savepoint
                result, ended = self.encode(ended.value)
                # FenceLost ends the caller's transaction, of which this is a part.
                self._finish_in(tx, claim, result)
        except (KeyAlreadySettled, BaseExceptionGroup) as exc:
            settled = find_key_already_settled(exc)
            if settled is None or not isinstance(claim, Fresh) or settled.fence != claim.fence:
                raise  # The key of a surrounding call was settled before this call's first write.
            return None
        except _RollBackCall:
            pass  # The key stays free: the caller may commit, or roll back, or retry.
        return ended

    def _run_in_own_transaction(self, *, has_slot: bool) -> StepGenerator:
        """Claim, run and record in a transaction that this call opens and ends."""
        own = OwnTransaction(self._outcomes.store, has_slot=has_slot)
        claim: Claim = yield own.open_step(self.claim_in)
        if not isinstance(claim, Fresh):
            return claim
        try:
            with self._outcomes.store.joined(own.tx):
                ended: CallResult = yield from self._call_function(own.tx, claim)
                if ended.error is None:
                    result, ended = self.encode(ended.value)
                    yield own.commit_step(
                        partial(self.finish_in_own_transaction, own.tx, claim, result)
                    )
                    return ended
        except GeneratorExit:  # A destroyed task cannot wait for a thread.
            own.roll_back()
            raise
        except BaseException:
            yield own.rollback_step()
            raise
        yield own.rollback_step()
        try:
            yield from self.record_rolled_back(claim.fence, ended.error)
        except FenceLost:
            return None  # A concurrent call with the same key was quicker: return its outcome.
        return ended

    def claim_in(self, tx: Transaction) -> Claim:
        """Claim the key inside a transaction."""
        scope, key, fingerprint, owner = self._request
        return self._outcomes.claim_in(tx, scope, key, fingerprint=fingerprint, owner=owner)

    def _call_function(self, tx: Transaction, fresh: Fresh) -> StepGenerator:
        """Call the function with the transaction."""
        call, outer = self.running_call(None), CURRENT_CALL.get()
        CURRENT_CALL.set(call)
        try:
            return (yield UserCallStep(partial(self.call, tx)))
        finally:
            restore_current_call(call, outer)
            fresh.first_write_check.is_disabled = True

    def _finish_in(self, tx: Transaction, fresh: Fresh, result: bytes | None) -> None:
        fresh.first_write_check.is_disabled = False  # A function without writes: ours is the first.
        ttl = self._options.ttl_seconds
        self._outcomes.finish_in(tx, fresh.fence, result, ttl_seconds=ttl)

    def finish_in_own_transaction(
        self, tx: Transaction, fresh: Fresh, result: bytes | None
    ) -> None:
        """Record the result in the transaction that this call opened."""
        try:
            self._finish_in(tx, fresh, result)
        except FenceLost:
            raise KeyAlreadySettled(fresh.fence) from None

    def record_rolled_back(self, fence: Fence, error: Exception) -> StepGenerator:
        """Record a failure whose transaction was rolled back, unless it is retryable."""
        is_open = isinstance(error, (Retryable, OutcomeUnknown, KeyAmbiguous, *_MISUSE_ERRORS))
        if not is_replayed_error(error) and (
            is_open
            or isinstance(error, self._options.retry_on)
            or (isinstance(error, OncewardError) and error.retryable)
        ):
            return
        ttl, failure = self._options.ttl_seconds, failure_of(error, raises=self._options.raises)
        yield BlockingStep(partial(self._outcomes.fail_after, fence, failure, ttl_seconds=ttl))

    def encode(self, value: object) -> tuple[bytes | None, CallResult]:
        """Return a result as it is stored, and what the caller gets."""
        return encode_result(self._options.results, value, " ".join(self._request[:2]))
