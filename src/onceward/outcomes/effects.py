"""Effects: run steps of an idempotent call, each recorded before and after it happens.

A step is durably intended, then happens, then is done. When the call runs again, steps that are
done are replayed, and steps that are only intended are ambiguous.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Any

from onceward.errors import (
    InvalidArgument,
    KeyAmbiguous,
    NotReconcilable,
    OutcomeUnknown,
    ResultNotStored,
    Retryable,
)
from onceward.outcomes.claims import check_name, fence_lost, fence_params
from onceward.outcomes.error_encoding import (
    failure_of,
    is_replayed_error,
    read_failure,
    recorded_failure,
    write_failure,
)
from onceward.outcomes.models import Done, Fence, NotDone, Verdict
from onceward.outcomes.result_encoding import ResultEncoder, encode_result
from onceward.outcomes.running_call import CURRENT_CALL, RunningCall
from onceward.outcomes.step_drivers import (
    BlockingStep,
    CallResult,
    Step,
    Steps,
    UserCallStep,
    drive,
    drive_async,
)
from onceward.stores import Row, Store
from onceward.system.crash_points import crash_point


def effect(
    name: str,
    function: Callable[..., Any],
    *args: Any,  # noqa: ANN401 - the function's own
    reconcile: Callable[..., Verdict] | None = None,
    **kwargs: Any,  # noqa: ANN401 - the function's own
) -> Any:  # noqa: ANN401 - what the function returns, or an awaitable of it
    """Run one step of an idempotent call, so that a rerun of the call does not repeat the step.

    The name is unique within one call. When an earlier run started the step but never reported a
    result, `reconcile`, called with the same arguments, answers `Done(result)` or `NotDone()`;
    otherwise KeyAmbiguous is raised. Await it when `function` is `async def`.
    """
    call = CURRENT_CALL.get()
    if call is None:
        message = (
            "effect: was called outside of a function with @once, or in another thread than it; "
            "the step was not run"
        )
        fix = "call it inside the decorated function, in the same thread or via asyncio.to_thread"
        raise InvalidArgument(message, fix=fix, field="effect")
    if call.fence is None:
        message = (
            "effect: this call runs in one transaction, since its function takes `tx`, and has no "
            "steps of its own; the step was not run"
        )
        fix = "write with `tx` instead; for effects elsewhere, remove the parameter `tx`"
        raise InvalidArgument(message, fix=fix, field="effect")
    check_name("name", name)
    if name in call.steps:
        message = f"name: this call has a step {name!r} already; the step was not run again"
        raise InvalidArgument(message, fix="give each step a unique name", field="name")
    call.steps.add(name)
    decide = partial(reconcile, *args, **kwargs) if reconcile is not None else None
    steps = _EffectExecution(call, call.fence, name, ResultEncoder(function)).steps(
        partial(function, *args, **kwargs), decide
    )
    if inspect.iscoroutinefunction(function):
        return _run_async(steps, call.outcomes.store)
    return drive(steps, call.clock).outcome()


async def _run_async(steps: Steps, store: Store) -> Any:  # noqa: ANN401 - what the function returns
    return (await drive_async(steps, store)).outcome()


class _EffectExecution:
    """One run of one step."""

    def __init__(self, call: RunningCall, fence: Fence, name: str, results: ResultEncoder) -> None:
        self._results = results
        self._outcomes = call.outcomes
        self._store = call.outcomes.store
        self._retry_on = call.retry_on
        self._fence = fence
        self._place = {"scope": fence.scope, "key": fence.key, "name": name}
        self._name = f"{fence.scope} {fence.key}: the step {name}"

    def steps(self, run: Callable[[], Any], decide: Callable[[], Verdict] | None) -> Steps:
        """Replay the step, run it, or fail because it is ambiguous."""
        while True:
            rows = yield BlockingStep(partial(self._store.read, "effect_find", **self._place))
            state, text, fence = rows[0] if rows else ("free", "", 0)
            if state == "done":
                return self._replayed(text)
            if state == "failed":
                return CallResult(error=recorded_failure(read_failure(text)))
            if state == "free":
                return (yield from self._run(run))
            ended = yield from self._reconcile(decide, fence)
            if ended is not None:
                return ended

    def _replayed(self, text: str | None) -> CallResult:
        if text is not None:
            return CallResult(value=self._results.read(text.encode()))
        message = (
            f"{self._name}: was done before, and does not run again; its result was not stored"
        )
        return CallResult(error=ResultNotStored(message, **self._place))

    def _run(self, run: Callable[[], Any]) -> Steps:
        if not (
            yield BlockingStep(partial(self._write, "effect_intend", **fence_params(self._fence)))
        ):
            return CallResult(error=fence_lost(self._fence))
        crash_point("effect.intend.after_commit")
        ended: CallResult = yield UserCallStep(run)
        crash_point("effect.run.after_effect")
        ended, state, result, failure = self._classify(ended)
        settle = {"state": state, "result": result, "failure": failure}
        number = self._fence.number
        if not (yield BlockingStep(partial(self._write, "effect_settle", fence=number, **settle))):
            return CallResult(error=fence_lost(self._fence))
        crash_point("effect.settle.after_commit")
        return ended

    def _classify(self, ended: CallResult) -> tuple[CallResult, str, str | None, str | None]:
        """Return the result for the caller, and the state, result and failure to record."""
        error = ended.error
        if error is None:
            result, stored = encode_result(self._results, ended.value, self._name)
            return stored, "done", None if result is None else result.decode(), None
        state = "failed"
        if isinstance(error, (OutcomeUnknown, KeyAmbiguous)):
            state = "ambiguous"
        elif isinstance(error, (Retryable, *self._retry_on)) and not is_replayed_error(error):
            state = "free"
        return CallResult(error=error), state, None, write_failure(failure_of(error))

    def _reconcile(
        self, decide: Callable[[], Verdict] | None, fence: int
    ) -> Generator[Step, Any, CallResult | None]:
        place = self._place
        ended: CallResult = (yield UserCallStep(decide)) if decide is not None else CallResult()
        if ended.error is not None:
            return ended
        verdict = ended.value
        if not isinstance(verdict, (Done, NotDone)):
            message = (
                f"{self._name} was started, but never reported a result; it may have happened, and "
                "was not run again"
            )
            fix = (
                "find out whether it happened, then run `onceward outcomes reconcile` with "
                "--effect, or pass reconcile= to effect()"
            )
            error = KeyAmbiguous(message, fix=fix, **place, effect=place["name"])
            return CallResult(error=error)
        decision: dict[str, Any] = {"not_done": True}
        if isinstance(verdict, Done):
            decision = {"done": json.loads(self._results.write(verdict.result))}
        reconcile = partial(
            self._outcomes.reconcile,
            place["scope"],
            place["key"],
            **decision,
            effect=place["name"],
            fence=fence,
            actor="reconcile hook",
            reason="asked at the next run",
        )
        with suppress(NotReconcilable):  # Another caller or operator has decided.
            yield BlockingStep(reconcile)
        return None

    def _write(self, name: str, **params: object) -> list[Row]:
        every = {**self._place, **params}
        return self._store.run_in_own_transaction(lambda tx: tx.query(name, **every))
