"""Outcome views: keys, their steps and the timeline of each as JSON for the API.

The store keeps the number of earlier claims, but not their owners.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import orjson

from onceward.console.responses import ActionResult, extended, moment
from onceward.keys.encoding import read_json
from onceward.outcomes.models import (
    EffectRecord,
    EffectState,
    OnCrash,
    OutcomeListItem,
    OutcomeRecord,
    OutcomeState,
    StoredFailure,
)
from onceward.outcomes.outcomes import KEY_MATCHES_MAX, Outcomes
from onceward.stores.paging import NEWEST, QueryPage

#: A longer result is left out, and only its size is sent.
RESULT_BYTES_MAX: Final = 256 * 1024
_SETTLED: Final = {
    OutcomeState.DONE: "the result is recorded; every later caller gets it",
    OutcomeState.FAILED: "failed for good; every later caller gets the same failure",
    OutcomeState.AMBIGUOUS: "ambiguous; not even its owner knows whether it happened",
    OutcomeState.FREE: "failed with a retryable error; the key is free, the next caller runs it",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureSummary:
    """The error of a key in a list."""

    type: str
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureDetail(FailureSummary):
    """The error of a key with its data."""

    data: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomeItem:
    """A key in a list; see `OutcomeRecord`."""

    scope: str
    key: str
    state: OutcomeState
    fence: int
    owner: str
    fingerprint: str | None
    on_crash: OnCrash
    claimed_at: str
    updated_at: str
    until: str | None
    has_result: bool
    failure: FailureSummary | None
    #: Actor, reason and verdict of the last decision.
    note: dict[str, str] | None
    #: Pass it as `seen` of an action.
    version: str


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomeChange(ActionResult):
    """A key and what a decision did with it, or would do."""

    outcome: OutcomeItem
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class EffectItem:
    """A step of a key."""

    name: str
    state: EffectState
    fence: int
    updated_at: str
    result: Any
    failure: StoredFailure | None
    note: dict[str, str] | None
    has_result: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class TimelineEvent:
    """A known event of a key; `at` is None when the store keeps no time for it."""

    at: str | None
    what: str
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomeDetail(OutcomeItem):
    """A key with its result, its steps and its timeline."""

    result: Any
    result_size: int
    #: Whether the result is too large to show.
    result_is_cut: bool
    failure: FailureDetail | None
    effects: list[EffectItem]
    attempts: list[TimelineEvent]
    as_of: str


def version_of(record: OutcomeRecord) -> str:
    """Return a key's version; an action that saw another version is rejected."""
    return f"{record.state}.{record.fence}"


def item_of(record: OutcomeRecord, *, has_result: bool) -> OutcomeItem:
    """Return a key for a list."""
    failure = record.failure
    return extended(
        OutcomeItem,
        record,
        has_result=has_result,
        failure=None if failure is None else extended(FailureSummary, failure),
        note=_note(record),
        version=version_of(record),
    )


def detail_of(record: OutcomeRecord, steps: list[EffectRecord]) -> OutcomeDetail:
    """Return a key with its steps and its timeline."""
    size = len(record.result or b"")
    is_cut = size > RESULT_BYTES_MAX
    parsed = None if record.result is None or is_cut else read_json(record.result)
    return extended(
        OutcomeDetail,
        item_of(record, has_result=record.result is not None),
        result=parsed,
        result_size=size,
        result_is_cut=is_cut,
        failure=None if record.failure is None else extended(FailureDetail, record.failure),
        effects=[_effect_item(step) for step in steps],
        attempts=timeline_of(record, steps),
        as_of=moment(),
    )


def _effect_item(step: EffectRecord) -> EffectItem:
    has_result = step.result is not None
    result = None if step.result is None else read_json(step.result)
    return extended(EffectItem, step, result=result, note=_note(step), has_result=has_result)


def page_of(  # noqa: PLR0913 - which ones, all of it named
    outcomes: Outcomes,
    *,
    state: OutcomeState | None,
    scope: str | None,
    words: str | None,
    before: int,
    limit: int,
) -> QueryPage[OutcomeListItem]:
    """Return a page, newest first; exact matches of the key come before all others.

    Exact matches are found by the index, at any age; later pages leave them out.
    """
    if words is None:
        return outcomes.page(state=state, scope=scope, before=before, limit=limit)
    named = outcomes.numbers_of_key(words, scope)
    first: list[OutcomeListItem] = []
    if before == NEWEST:
        for number in sorted(named, reverse=True):
            (each,) = outcomes.page(before=number + 1, limit=1).items or (None,)
            if each is not None and each.number == number and state in (None, each.record.state):
                first.append(each)
    # Exact matches are added to the page's limit: a page without room would never advance.
    assert len(first) <= KEY_MATCHES_MAX, first
    rest = outcomes.page(state=state, scope=scope, words=words, before=before, limit=limit)
    others = (each for each in rest.items if each.number not in named)
    return QueryPage(items=(*first, *others), next=rest.next)


# --- the timeline
# ------------------------------------------------------------------------------------


def timeline_of(record: OutcomeRecord, steps: list[EffectRecord]) -> list[TimelineEvent]:
    """Return the known events of a key, in order."""
    items: list[TimelineEvent] = []
    note = _note(record)
    is_latest = note is not None and _is_latest(record, note["verdict"])
    if note is not None and not is_latest:
        items.append(_line(None, "decided", f"before this claim: {_decision(note)}"))
    elif record.fence > (2 if is_latest else 1):
        again = f"claimed, decided or forgotten {record.fence} times in total; this is the latest"
        items.append(_line(None, "earlier", again))
    items.append(_claim(record))
    for step in steps:
        items += _step(step)
    items += _end(record, is_decided=is_latest)
    if note is not None and is_latest:
        items.append(_line(record.updated_at, "decided", _decision(note)))
    if record.state is OutcomeState.EXPIRED:
        over = "its lifetime is over; the key is rejected until its tombstone is pruned"
        items.append(_line(record.until, "expired", over))
    return items


def _claim(record: OutcomeRecord) -> TimelineEvent:
    who = f"{record.owner}, claim {record.fence}"
    if _is_one_commit(record):
        return _line(record.claimed_at, "claimed", f"by {who}, in one commit with its effects")
    return _line(record.claimed_at, "claimed", f"by {who}")


def _is_one_commit(record: OutcomeRecord) -> bool:
    is_whole = record.claimed_at == record.updated_at and record.on_crash == "rerun"
    return is_whole and record.state in (OutcomeState.DONE, OutcomeState.FAILED)


def _step(step: EffectRecord) -> list[TimelineEvent]:
    words = {
        "intended": "intent recorded; no result reported since",
        "done": "done",
        "failed": f"failed: {_error_line(step.failure)}",
        "ambiguous": "it may or may not have happened",
        "free": "did not happen; a rerun runs it",
    }
    lines = [_line(step.updated_at, f"step {step.state}", f"{step.name}: {words[step.state]}")]
    note = _note(step)
    if note is not None:
        lines.append(_line(step.updated_at, "decided", f"{step.name}: {_decision(note)}"))
    return lines


def _end(record: OutcomeRecord, *, is_decided: bool) -> list[TimelineEvent]:
    """Return the result that the key's owner reported, if any."""
    state = record.state
    if state is OutcomeState.RUNNING:
        return [_line(None, "running", f"running; its lease expires at {record.until}")]
    if is_decided or state is OutcomeState.EXPIRED:
        return []
    if state is OutcomeState.ABANDONED or (
        state is OutcomeState.AMBIGUOUS and record.failure is None
    ):
        then = (
            "the next caller runs it" if state is OutcomeState.ABANDONED else "it may have happened"
        )
        return [_line(record.until, "silent", f"its lease expired without a result: {then}")]
    words = _SETTLED[state]
    if state is OutcomeState.DONE and record.result is None:
        words = "done; its result could not be stored"
    if record.failure is not None:
        words = f"{words}: {_error_line(record.failure)}"
    return [_line(record.updated_at, str(state), words)]


def _is_latest(record: OutcomeRecord, verdict: str) -> bool:
    """Return whether the note is about the current state; a later claim keeps an old note."""
    if verdict == "done":
        return record.state in (OutcomeState.DONE, OutcomeState.EXPIRED)
    return record.state is OutcomeState.FREE and record.failure is None


def _decision(note: dict[str, str]) -> str:
    return f"{note['actor']} decided: {note['verdict']} ({note['reason']})"


def _note(known: OutcomeRecord | EffectRecord) -> dict[str, str] | None:
    if known.note is None:
        return None
    note: dict[str, str] = orjson.loads(known.note)
    return note


def _error_line(failure: StoredFailure | None) -> str:
    return "" if failure is None else f"{failure.type}: {failure.message}"


def _line(at: str | None, what: str, detail: str) -> TimelineEvent:
    return TimelineEvent(at=at, what=what, detail=detail)
