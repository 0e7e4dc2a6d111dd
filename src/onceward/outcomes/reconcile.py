"""Reconcile: checks and texts for deciding ambiguous outcomes; for command line and console.

`Outcomes.reconcile` and `Outcomes.forget` make the decisions themselves.
"""

from __future__ import annotations

from typing import Any

import orjson

from onceward.errors import KeyInFlight, NotFound, NotReconcilable
from onceward.keys import compact_json
from onceward.outcomes.models import EffectRecord, EffectState, OutcomeRecord, OutcomeState
from onceward.outcomes.outcomes import RUNNING_FIX, Outcomes

_RECONCILABLE_STATES = (OutcomeState.AMBIGUOUS, OutcomeState.ABANDONED)


def get_record(outcomes: Outcomes, scope: str, key: str) -> OutcomeRecord:
    """Return the outcome of a key, or raise NotFound."""
    record = outcomes.show(scope, key)
    if record is None:
        message = f"there is no outcome for {scope} {key}"
        raise NotFound(
            message, fix="list the keys with `onceward outcomes list`", scope=scope, key=key
        )
    return record


def get_effect(outcomes: Outcomes, scope: str, key: str, effect: str) -> EffectRecord:
    """Return a step of a call, or raise NotFound."""
    for step in outcomes.effects(scope, key):
        if step.name == effect:
            return step
    message = f"{scope} {key} has no step {effect}; nothing was decided"
    raise NotFound(
        message, fix="list its steps with `onceward outcomes show SCOPE KEY`", scope=scope, key=key
    )


def check_reconcilable(outcomes: Outcomes, scope: str, key: str, effect: str | None) -> None:
    """Raise the error that reconciling would raise."""
    record = get_record(outcomes, scope, key)
    if effect is None:
        reconcilable_fence(record)
        return
    steps = {step.name: step for step in outcomes.effects(scope, key)}
    if effect not in steps:
        raise _not_reconcilable(record, effect)
    reconcilable_fence(record, steps[effect])


def reconcilable_fence(record: OutcomeRecord, step: EffectRecord | None = None) -> int:
    """Return the fence of the claim to reconcile; NotReconcilable when it is not ambiguous."""
    if step is None:
        is_reconcilable, fence = record.state in _RECONCILABLE_STATES, record.fence
    else:
        is_reconcilable, fence = _is_reconcilable(step, record), step.fence
    if not is_reconcilable:
        raise _not_reconcilable(record, None if step is None else step.name)
    return fence


def _not_reconcilable(record: OutcomeRecord, effect: str | None) -> NotReconcilable:
    what = (
        f"the step {effect} of {record.scope} {record.key}"
        if effect
        else f"{record.scope} {record.key}"
    )
    message = f"{what} is not ambiguous; nothing was changed"
    return NotReconcilable(message, scope=record.scope, key=record.key, effect=effect)


def _is_reconcilable(step: EffectRecord, record: OutcomeRecord) -> bool:
    is_live = record.state is OutcomeState.RUNNING and step.fence == record.fence
    return step.state is EffectState.AMBIGUOUS or (
        step.state is EffectState.INTENDED and not is_live
    )


def check_forgettable(record: OutcomeRecord) -> None:
    """Raise the error that forgetting would raise."""
    if record.state is OutcomeState.RUNNING:
        message = f"{record.scope} {record.key} is running; nothing was forgotten"
        raise KeyInFlight(message, fix=RUNNING_FIX)


def is_same_decision(
    known: OutcomeRecord | EffectRecord,
    *,
    verdict: str,
    actor: str,
    reason: str,
    result: Any = None,  # noqa: ANN401 - any JSON value
) -> bool:
    """Return whether this actor made this decision before, so that repeating it changes nothing."""
    note = {"verdict": verdict, "actor": actor, "reason": reason}
    if known.note is None or orjson.loads(known.note) != note:
        return False
    if verdict == "done":
        said = compact_json(result, root="result")
        return known.state.value in ("done", "expired") and known.result in (said, None)
    return known.state.value == "free" and known.failure is None


def describe_decision(scope: str, key: str, effect: str | None, *, is_done: bool) -> str:
    """Return in one sentence what a decision means for the next caller."""
    what = f"the step {effect} of {scope} {key}" if effect else f"{scope} {key}"
    then = "every caller gets this result" if is_done else "the next caller runs it"
    return f"{what}: {'done' if is_done else 'not done'}; {then}"
