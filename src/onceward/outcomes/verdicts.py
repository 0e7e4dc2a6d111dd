"""Verdicts: what a person can decide about a key, for the command line and the console.

Owns whether there is something to decide, whether it was decided so before, and how it is told.
The decisions themselves are the outcomes' own.
"""

from __future__ import annotations

from typing import Any

import orjson

from onceward.errors import KeyInFlight, NotFound, NotReconcilable
from onceward.keys import compact_json
from onceward.outcomes.models import EffectRecord, EffectState, OutcomeState, Record
from onceward.outcomes.outcomes import Outcomes

_UNDECIDED = (OutcomeState.AMBIGUOUS, OutcomeState.ABANDONED)


def found(outcomes: Outcomes, scope: str, key: str) -> Record:
    """Return everything known of a key; NotFound when that is nothing."""
    record = outcomes.show(scope, key)
    if record is None:
        message = f"nothing is known of {scope} {key}"
        raise NotFound(message, fix="look with `onceward outcomes list`", scope=scope, key=key)
    return record


def found_step(outcomes: Outcomes, scope: str, key: str, effect: str) -> EffectRecord:
    """Return everything known of a step; NotFound when that is nothing."""
    for step in outcomes.effects(scope, key):
        if step.name == effect:
            return step
    message = f"{scope} {key} has no step {effect}"
    raise NotFound(message, fix="look with `onceward outcomes show`", scope=scope, key=key)


def check_open(outcomes: Outcomes, scope: str, key: str, effect: str | None) -> None:
    """Raise what reconciling would raise."""
    record = found(outcomes, scope, key)
    if effect is None:
        open_fence(record)
        return
    steps = {step.name: step for step in outcomes.effects(scope, key)}
    if effect not in steps:
        raise _nothing(record, effect)
    open_fence(record, steps[effect])


def open_fence(record: Record, step: EffectRecord | None = None) -> int:
    """Return the fence of the claim to decide about; NotReconcilable when nothing is open."""
    if step is None:
        is_open, fence = record.state in _UNDECIDED, record.fence
    else:
        is_open, fence = _is_open(step, record), step.fence
    if not is_open:
        raise _nothing(record, None if step is None else step.name)
    return fence


def _nothing(record: Record, effect: str | None) -> NotReconcilable:
    message = f"{record.scope} {record.key}: there is nothing to decide"
    return NotReconcilable(message, scope=record.scope, key=record.key, effect=effect)


def _is_open(step: EffectRecord, record: Record) -> bool:
    is_live = record.state is OutcomeState.RUNNING and step.fence == record.fence
    return step.state is EffectState.AMBIGUOUS or (
        step.state is EffectState.INTENDED and not is_live
    )


def check_idle(record: Record) -> None:
    """Raise what forgetting would raise."""
    if record.state is OutcomeState.RUNNING:
        message = f"{record.scope} {record.key}: somebody is at it"
        raise KeyInFlight(message, fix="wait until they are done")


def is_decided_so(
    known: Record | EffectRecord,
    *,
    verdict: str,
    actor: str,
    reason: str,
    result: Any = None,  # noqa: ANN401 - any JSON value
) -> bool:
    """Say whether this person decided this before, so that saying it again changes nothing."""
    note = {"verdict": verdict, "actor": actor, "reason": reason}
    if known.note is None or orjson.loads(known.note) != note:
        return False
    if verdict == "done":
        said = compact_json(result, root="result")
        return known.state.value in ("done", "expired") and known.result in (said, None)
    return known.state.value == "free" and known.failure is None


def told(scope: str, key: str, effect: str | None, *, is_done: bool) -> str:
    """Return in one sentence what a verdict means for whoever calls next."""
    what = f"the step {effect} of {scope} {key}" if effect else f"{scope} {key}"
    then = "every caller gets this result" if is_done else "the next caller runs it"
    return f"{what}: {'done' if is_done else 'not done'}; {then}"
