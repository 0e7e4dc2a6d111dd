"""Outcomes over HTTP: look at keys, decide what a crash left open, forget."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from onceward.console.actions import ActionExecutor, OperatorAction, check_seen
from onceward.console.context import ConsoleContext
from onceward.console.outcome_views import detail_of, item_of, page_of, version_of
from onceward.console.responses import (
    ACTION_ANSWERS,
    PAGE_ITEMS,
    After,
    Limit,
    MaybeKey,
    answers,
    clamped,
    json_answer,
    moment,
    number_after,
    page_answer,
)
from onceward.errors import InvalidArgument
from onceward.keys import compact_json
from onceward.outcomes import EffectRecord, OutcomeRecord, Outcomes, OutcomeState
from onceward.outcomes.claims import NAME_CHARS_MAX, check_names
from onceward.outcomes.reconcile import (
    check_forgettable,
    describe_decision,
    get_effect,
    get_record,
    is_same_decision,
    reconcilable_fence,
)
from onceward.retries.models import check_text
from onceward.stores.paging import NEWEST

REASON_CHARS_MAX: Final = 2_000
#: A version, or a fence alone.
_SEEN: Final = r"^(?:[a-z]{1,20}\.)?[0-9]{1,18}$"

StateFilter = Annotated[OutcomeState | None, Query(description="Only those that stand so now.")]
ScopeFilter = Annotated[
    str | None, Query(max_length=NAME_CHARS_MAX, description="Only those of this scope.")
]
Words = Annotated[
    str | None,
    Query(max_length=NAME_CHARS_MAX, description="A part of the key or of the scope."),
]
Scope = Annotated[str, Query(min_length=1, max_length=NAME_CHARS_MAX)]
Key = Annotated[str, Query(min_length=1, max_length=NAME_CHARS_MAX)]


class _About(BaseModel):
    """The key to decide about, and the reason."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    scope: str = Field(min_length=1, max_length=NAME_CHARS_MAX)
    key: str = Field(min_length=1, max_length=NAME_CHARS_MAX)
    reason: str = Field(min_length=1, max_length=REASON_CHARS_MAX)
    #: `version` of the key as it was looked at, or its fence; refused if it is not so any more.
    #: Only a dry run goes without: a retry must not decide about another claim than the first try.
    seen: str | None = Field(default=None, pattern=_SEEN)
    dry_run: bool = False

    def check(self) -> None:
        """Refuse what no store can hold, by name."""
        check_names(self.scope, self.key)
        check_text("reason", self.reason.strip())
        if self.seen is None and not self.dry_run:
            message = "seen: say which state of the key you looked at"
            raise InvalidArgument(message, fix="send the `version` it has", field="seen")

    def check_seen(self, record: OutcomeRecord) -> None:
        """Refuse to decide about another state than the one that was seen."""
        is_fence = self.seen is not None and self.seen.isdecimal()
        now = str(record.fence) if is_fence else version_of(record)
        check_seen(f"{record.scope} {record.key}", self.seen, now)

    def is_next(self, record: OutcomeRecord) -> bool:
        """Say whether a key has changed once since it was seen: a decision is a new fence."""
        fence = (self.seen or "").rpartition(".")[2]
        return fence.isdecimal() and record.fence == int(fence) + 1


class Forgetting(_About):
    """Erase what is known of a key, so that the next caller runs the work again."""


class Deciding(_About):
    """Say of work that was begun and fell silent whether it happened."""

    #: One step inside the work; without it, the work itself.
    effect: str | None = Field(default=None, min_length=1, max_length=NAME_CHARS_MAX)
    verdict: Literal["done", "not_done"]
    #: With `done`: what every later caller gets.
    result: Any = None

    def check(self) -> None:
        """Refuse what no store can hold, and a result of what was not done."""
        super().check()
        if self.effect is not None:
            check_text("effect", self.effect)
        if not self.is_done and "result" in self.model_fields_set:
            message = "result: goes with the verdict `done`"
            raise InvalidArgument(message, fix="leave it out, or say done", field="result")
        compact_json(self.result, root="result")

    @property
    def is_done(self) -> bool:
        """Say whether it happened."""
        return self.verdict == "done"

    def as_asked(self) -> dict[str, Any]:
        """Return all of it, as the audit may keep it: of a result, what tells it from others."""
        kept = None
        if self.is_done:
            result = compact_json(self.result, root="result")
            kept = {"sha256": hashlib.sha256(result).hexdigest(), "bytes": len(result)}
        return {**self.model_dump(exclude={"result"}), "result": kept}


def outcomes_router(context: ConsoleContext, actions: ActionExecutor) -> APIRouter:
    """Return the routes of outcomes."""
    router = APIRouter()
    _add_looking(router, context)
    _add_deciding(router, context, actions)
    return router


def _add_looking(router: APIRouter, context: ConsoleContext) -> None:
    @router.get("/api/outcomes", responses=answers())
    def list_outcomes(
        limit: Limit = PAGE_ITEMS,
        after: After = None,
        state: StateFilter = None,
        scope: ScopeFilter = None,
        q: Words = None,
    ) -> Response:
        """List keys as they stand now, the newest first.

        A page looks at a bounded number of keys: with `next` and no items, ask again.
        """
        for field, text in (("scope", scope), ("q", q)):
            check_text(field, text or "-")
        page = page_of(
            context.ow().outcomes,
            state=state,
            scope=scope or None,
            words=q or None,
            before=number_after(after, NEWEST),
            limit=clamped(limit),
        )
        items = [item_of(each.record, has_result=each.has_result) for each in page.items]
        return page_answer(items, None if page.next is None else str(page.next))

    @router.get("/api/outcomes/show", responses=answers(404))
    def show(scope: Scope, key: Key) -> Response:
        """Tell everything known of a key: its result, its steps, its story."""
        outcomes = context.ow().outcomes
        return json_answer({**_detail(outcomes, scope, key), "as_of": moment()})


def _add_deciding(router: APIRouter, context: ConsoleContext, actions: ActionExecutor) -> None:
    @router.post("/api/outcomes/reconcile", responses=ACTION_ANSWERS)
    def reconcile(body: Deciding, key: MaybeKey = None) -> Response:
        """Decide about work that was begun and then fell silent: it was done, or it was not."""
        body.check()
        outcomes = context.ow().outcomes
        if body.dry_run:
            return actions.preview(lambda: _plan(outcomes, body))
        action = OperatorAction(
            name="outcome.reconcile",
            target=f"{body.scope} {body.key}",
            key=key,
            body=body.as_asked(),
            is_atomic=False,
        )
        return actions.execute(action, lambda _: _decide(outcomes, body, context.actor))

    @router.post("/api/outcomes/forget", responses=ACTION_ANSWERS)
    def forget(body: Forgetting, key: MaybeKey = None) -> Response:
        """Erase an outcome, so that the next caller runs the work again, whatever happened."""
        body.check()
        outcomes = context.ow().outcomes
        if body.dry_run:
            return actions.preview(lambda: _plan_forgetting(outcomes, body))
        action = OperatorAction(
            name="outcome.forget",
            target=f"{body.scope} {body.key}",
            key=key,
            body=body.model_dump(),
            is_atomic=False,
        )
        return actions.execute(action, lambda _: _forget(outcomes, body, context.actor))


def _detail(outcomes: Outcomes, scope: str, key: str) -> dict[str, Any]:
    with outcomes.store.snapshot():
        record = get_record(outcomes, scope, key)
        return detail_of(record, outcomes.effects(scope, key))


def _item(outcomes: Outcomes, body: _About, text: str) -> dict[str, Any]:
    record = get_record(outcomes, body.scope, body.key)
    return {"outcome": item_of(record, has_result=record.result is not None), "text": text}


def _looked(outcomes: Outcomes, body: Deciding) -> tuple[OutcomeRecord, EffectRecord | None]:
    """Return the key and the step as they are at one moment."""
    with outcomes.store.snapshot():
        record = get_record(outcomes, body.scope, body.key)
        if body.effect is None:
            return record, None
        return record, get_effect(outcomes, body.scope, body.key, body.effect)


def _plan(outcomes: Outcomes, body: Deciding) -> dict[str, Any]:
    record, step = _looked(outcomes, body)
    body.check_seen(record)
    reconcilable_fence(record, step)
    return _item(
        outcomes, body, describe_decision(body.scope, body.key, body.effect, is_done=body.is_done)
    )


def _decide(outcomes: Outcomes, body: Deciding, actor: str) -> dict[str, Any]:
    """Decide, unless a life before this one has, just so."""
    record, step = _looked(outcomes, body)
    said = {"verdict": "done" if body.is_done else "not done", "actor": actor}
    is_before = is_same_decision(step or record, **said, reason=body.reason, result=body.result)
    if not (is_before and (step is not None or body.is_next(record))):
        body.check_seen(record)
        verdict: dict[str, Any] = {"done": body.result} if body.is_done else {"not_done": True}
        outcomes.reconcile(
            body.scope,
            body.key,
            **verdict,
            effect=body.effect,
            actor=actor,
            reason=body.reason,
            fence=reconcilable_fence(record, step),
        )
    return _item(
        outcomes, body, describe_decision(body.scope, body.key, body.effect, is_done=body.is_done)
    )


def _plan_forgetting(outcomes: Outcomes, body: Forgetting) -> dict[str, Any]:
    record = get_record(outcomes, body.scope, body.key)
    body.check_seen(record)
    check_forgettable(record)
    return _item(outcomes, body, _forgotten(record))


def _forget(outcomes: Outcomes, body: Forgetting, actor: str) -> dict[str, Any]:
    """Forget what was seen, unless a life before this one has; never what came of it later."""
    record = get_record(outcomes, body.scope, body.key)
    text = _forgotten(record)
    is_before = is_same_decision(record, verdict="forgotten", actor=actor, reason=body.reason)
    if not (is_before and body.is_next(record)):
        body.check_seen(record)
        outcomes.forget(body.scope, body.key, actor=actor, reason=body.reason, seen=record)
    return _item(outcomes, body, text)


def _forgotten(record: OutcomeRecord) -> str:
    return f"{record.scope} {record.key}: was {record.state}; the next caller runs it"
