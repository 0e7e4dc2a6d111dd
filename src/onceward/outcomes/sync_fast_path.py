"""Sync fast path: run a plain synchronous idempotent call without the general call machinery.

A call with a new key claims it, runs the function and records the result. Every other case is
left to `call_execution`, which also serves `async def`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from onceward.errors import FenceLost, OutcomeUnknown, StoreBusy, StoreUnavailable
from onceward.outcomes.call_execution import (
    CallExecution,
    CallOptions,
    function_returned,
)
from onceward.outcomes.claims import ClaimRequest, KeyAlreadySettled, find_key_already_settled
from onceward.outcomes.models import Claim, Fence, Fresh
from onceward.outcomes.outcomes import Outcomes
from onceward.outcomes.running_call import CURRENT_CALL, restore_current_call
from onceward.outcomes.step_drivers import CallResult, drive
from onceward.stores import Transaction
from onceward.system import Clock


class _FunctionFailed(Exception):
    """Rolls a transaction back because its function failed; caught right outside of it."""

    def __init__(self, fence: Fence, error: Exception) -> None:
        """Name the claim and what the function raised."""
        super().__init__(fence, error)
        self.fence = fence
        self.error = error


class SyncFastPath:
    """Runs the calls of one synchronous function."""

    def __init__(self, outcomes: Outcomes, options: CallOptions, clock: Clock) -> None:
        """Keep what all calls share."""
        self._outcomes = outcomes
        self._options = options
        self._clock = clock

    def try_claim(self, request: ClaimRequest) -> Fence | None:
        """Claim a key that was not found; None when `call_execution` must handle it."""
        if self._outcomes.is_writer():
            return None
        try:
            fresh = self._outcomes.grant(
                request, self._options.lease_seconds, self._options.on_crash
            )
        except OutcomeUnknown:  # Granted or not, the same owner may ask again.
            return None
        return None if fresh is None else fresh.fence

    def run(self, execution: CallExecution, fence: Fence) -> Any:  # noqa: ANN401 - the function's own result
        """Run the function under its claim and record how it ended."""
        outcomes, options = self._outcomes, self._options
        call, outer = execution.running_call(fence), CURRENT_CALL.get()
        CURRENT_CALL.set(call)
        try:
            with outcomes.heartbeat.keep_alive(outcomes, fence, options.lease_seconds):
                error: Exception | None = None
                try:
                    value = execution.call(None)
                except Exception as exc:  # noqa: BLE001 - recorded
                    error = exc
                function_returned()
                if error is not None:
                    return drive(
                        execution.record_end(fence, CallResult(error=error)), self._clock
                    ).outcome()
                result, ended = execution.encode(value)
                record = partial(outcomes.record, fence, result, options.ttl_seconds)
                try:
                    record()
                except (StoreUnavailable, StoreBusy, OutcomeUnknown):
                    drive(execution.record_with_retries(record), self._clock)
                return ended.outcome()
        finally:
            restore_current_call(call, outer)

    def run_in_transaction(self, execution: CallExecution) -> CallResult | Claim | None:
        """Claim, run and record in one commit; None when the key must be looked up again."""
        try:
            with self._outcomes.store.transaction() as tx:
                claim = execution.claim_in(tx)
                return _run_in(tx, execution, claim) if isinstance(claim, Fresh) else claim
        except _FunctionFailed as undo:
            fence, error = undo.fence, undo.error
        except (KeyAlreadySettled, BaseExceptionGroup) as exc:
            if find_key_already_settled(exc) is None:
                raise
            return None
        try:
            drive(execution.record_rolled_back(fence, error), self._clock)
        except FenceLost:
            return None  # A concurrent call with the same key was quicker: return its outcome.
        return CallResult(error=error)


def _run_in(tx: Transaction, execution: CallExecution, fresh: Fresh) -> CallResult:
    call, outer = execution.running_call(None), CURRENT_CALL.get()
    CURRENT_CALL.set(call)
    try:
        value = execution.call(tx)
    except Exception as exc:
        raise _FunctionFailed(fresh.fence, exc) from exc
    finally:
        restore_current_call(call, outer)
        fresh.first_write_check.is_disabled = True
    result, ended = execution.encode(value)
    execution.finish_in_own_transaction(tx, fresh, result)
    return ended
