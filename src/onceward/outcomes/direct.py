"""Direct: the common case of a synchronous call, as a straight line.

A call whose key is new claims it, runs the function and records the result. Whatever else may be
found or go wrong is left to `running`, which also serves `async def`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from onceward.errors import FenceLost, OutcomeUnknown, StoreBusy, StoreUnavailable
from onceward.outcomes.claims import Overtaken, Wanted, overtaken_in
from onceward.outcomes.models import Claim, Fence, Fresh
from onceward.outcomes.outcomes import Outcomes
from onceward.outcomes.running import CURRENT, Rules, Running, effect_happened, leave
from onceward.outcomes.steps import Ended, drive
from onceward.seams import Clock
from onceward.stores import Transaction


class _Undo(Exception):
    """Rolls a transaction back because its function failed, and goes no further."""

    def __init__(self, fence: Fence, error: Exception) -> None:
        """Say whose claim it was, and what the function raised."""
        super().__init__(fence, error)
        self.fence = fence
        self.error = error


class Direct:
    """The calls of one function that run in the thread of their caller."""

    def __init__(self, outcomes: Outcomes, rules: Rules, clock: Clock) -> None:
        """Keep what does not change from call to call."""
        self._outcomes = outcomes
        self._rules = rules
        self._clock = clock

    def granted(self, wanted: Wanted) -> Fence | None:
        """Claim a key that was not found; None when `running` must look again."""
        if self._outcomes.is_writer():
            return None
        try:
            fresh = self._outcomes.grant(wanted, self._rules.lease_seconds, self._rules.on_crash)
        except OutcomeUnknown:  # Granted or not, the same owner may ask again.
            return None
        return None if fresh is None else fresh.fence

    def run(self, running: Running, fence: Fence) -> Any:  # noqa: ANN401 - the function's own result
        """Run the function under its claim and record how it ended."""
        outcomes, rules = self._outcomes, self._rules
        work, outer = running.work(fence), CURRENT.get()
        CURRENT.set(work)
        try:
            with outcomes.heart.keep(outcomes, fence, rules.lease_seconds):
                error: Exception | None = None
                try:
                    value = running.call(None)
                except Exception as exc:  # noqa: BLE001 - recorded
                    error = exc
                effect_happened()
                if error is not None:
                    return drive(running.end(fence, Ended(error=error)), self._clock).outcome()
                result, ended = running.stored(value)
                record = partial(outcomes.record, fence, result, rules.ttl_seconds)
                try:
                    record()
                except (StoreUnavailable, StoreBusy, OutcomeUnknown):
                    drive(running.recorded(record), self._clock)
                return ended.outcome()
        finally:
            leave(work, outer)

    def run_in_transaction(self, running: Running) -> Ended | Claim | None:
        """Claim, run and finish in one commit; an end, or what was found, or None to look."""
        try:
            with self._outcomes.store.transaction() as tx:
                claim = running.claim_in(tx)
                return _run_in(tx, running, claim) if isinstance(claim, Fresh) else claim
        except _Undo as undo:
            fence, error = undo.fence, undo.error
        except (Overtaken, BaseExceptionGroup) as exc:
            if overtaken_in(exc) is None:
                raise
            return None
        try:
            drive(running.record(fence, error), self._clock)
        except FenceLost:
            return None  # A concurrent call with the same key was quicker: return its outcome.
        return Ended(error=error)


def _run_in(tx: Transaction, running: Running, fresh: Fresh) -> Ended:
    work, outer = running.work(None), CURRENT.get()
    CURRENT.set(work)
    try:
        value = running.call(tx)
    except Exception as exc:
        raise _Undo(fresh.fence, exc) from exc
    finally:
        leave(work, outer)
        fresh.watch.is_over = True
    result, ended = running.stored(value)
    running.finish_alone(tx, fresh, result)
    return ended
