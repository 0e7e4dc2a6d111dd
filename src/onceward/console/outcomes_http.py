"""Outcomes over HTTP: list and show keys, reconcile ambiguous ones, and forget outcomes."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from onceward.console.actions import ActionExecutor, OperatorAction, check_seen
from onceward.console.context import ConsoleContext
from onceward.console.outcome_views import (
    OutcomeChange,
    OutcomeDetail,
    OutcomeItem,
    detail_of,
    item_of,
    page_of,
    version_of,
)
from onceward.console.responses import (
    PAGE_ITEMS,
    After,
    Limit,
    MaybeKey,
    Page,
    action_answers,
    answers,
    clamped,
    json_answer,
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
#: A version, or only a fencing token.
_SEEN: Final = r"^(?:[a-z]{1,20}\.)?[0-9]{1,18}$"

StateFilter = Annotated[OutcomeState | None, Query(description="Only those in this state.")]
ScopeFilter = Annotated[
    str | None, Query(max_length=NAME_CHARS_MAX, description="Only those of this scope.")
]
Words = Annotated[
    str | None,
    Query(max_length=NAME_CHARS_MAX, description="A part of the key or of the scope."),
]
Scope = Annotated[str, Query(min_length=1, max_length=NAME_CHARS_MAX)]
Key = Annotated[str, Query(min_length=1, max_length=NAME_CHARS_MAX)]


class _KeyBody(BaseModel):
    """The key, and the reason of the decision."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    scope: str = Field(min_length=1, max_length=NAME_CHARS_MAX)
    key: str = Field(min_length=1, max_length=NAME_CHARS_MAX)
    reason: str = Field(min_length=1, max_length=REASON_CHARS_MAX)
    #: The `version` of the key that the operator saw, or its fence; rejected if the key has
    #: changed. Optional for a dry run only: a retry must not decide about a later claim.
    seen: str | None = Field(default=None, pattern=_SEEN)
    dry_run: bool = False

    def check(self) -> None:
        """Reject values that no store can hold, naming the field."""
        check_names(self.scope, self.key)
        check_text("reason", self.reason.strip())
        if self.seen is None and not self.dry_run:
            message = "seen: is required, so that you decide about the state you saw"
            fix = "send the `version` of the key as you loaded it"
            raise InvalidArgument(message, fix=fix, field="seen")

    def check_seen(self, record: OutcomeRecord) -> None:
        """Raise Conflict if the key changed since the operator saw it."""
        is_fence = self.seen is not None and self.seen.isdecimal()
        now = str(record.fence) if is_fence else version_of(record)
        check_seen(f"{record.scope} {record.key}", self.seen, now)

    def is_next(self, record: OutcomeRecord) -> bool:
        """Return whether the key changed exactly once since it was seen, as by this decision."""
        fence = (self.seen or "").rpartition(".")[2]
        return fence.isdecimal() and record.fence == int(fence) + 1


class ForgetRequest(_KeyBody):
    """Forget an outcome, so that the next caller runs the work again."""


class ReconcileRequest(_KeyBody):
    """Reconcile an ambiguous key: decide whether its work happened."""

    #: A step of the work; None for the work itself.
    effect: str | None = Field(default=None, min_length=1, max_length=NAME_CHARS_MAX)
    verdict: Literal["done", "not_done"]
    #: With `done`: the result that later callers get.
    result: Any = None

    def check(self) -> None:
        """Reject values that no store can hold, and a result without the verdict `done`."""
        super().check()
        if self.effect is not None:
            check_text("effect", self.effect)
        if not self.is_done and "result" in self.model_fields_set:
            message = "result: is allowed with the verdict `done` only"
            raise InvalidArgument(
                message, fix="remove it, or send the verdict `done`", field="result"
            )
        compact_json(self.result, root="result")

    @property
    def is_done(self) -> bool:
        """Return whether the verdict is `done`."""
        return self.verdict == "done"

    def for_audit(self) -> dict[str, Any]:
        """Return the request for the audit log, with a digest in place of the result."""
        kept = None
        if self.is_done:
            result = compact_json(self.result, root="result")
            kept = {"sha256": hashlib.sha256(result).hexdigest(), "bytes": len(result)}
        return {**self.model_dump(exclude={"result"}), "result": kept}


def outcomes_router(context: ConsoleContext, actions: ActionExecutor) -> APIRouter:
    """Return the routes of outcomes."""
    router = APIRouter()
    _add_reads(router, context)
    _add_deciding(router, context, actions)
    return router


def _add_reads(router: APIRouter, context: ConsoleContext) -> None:
    @router.get("/api/outcomes", responses=answers(Page[OutcomeItem]))
    def list_outcomes(
        limit: Limit = PAGE_ITEMS,
        after: After = None,
        state: StateFilter = None,
        scope: ScopeFilter = None,
        q: Words = None,
    ) -> Response:
        """List keys with their current state, newest first.

        A page reads a bounded number of keys: with `next` and no items, request the next page.
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

    @router.get("/api/outcomes/show", responses=answers(OutcomeDetail, 404))
    def show(scope: Scope, key: Key) -> Response:
        """Show a key: its result, its steps and its timeline."""
        outcomes = context.ow().outcomes
        return json_answer(_detail(outcomes, scope, key))


def _add_deciding(router: APIRouter, context: ConsoleContext, actions: ActionExecutor) -> None:
    @router.post("/api/outcomes/reconcile", responses=action_answers(OutcomeChange))
    def reconcile(body: ReconcileRequest, key: MaybeKey = None) -> Response:
        """Reconcile an ambiguous key: its work was done, or it was not."""
        body.check()
        outcomes = context.ow().outcomes
        if body.dry_run:
            return actions.preview(lambda: _plan(outcomes, body))
        action = OperatorAction(
            name="outcome.reconcile",
            target=f"{body.scope} {body.key}",
            key=key,
            body=body.for_audit(),
            is_atomic=False,
        )
        return actions.execute(action, lambda _: _decide(outcomes, body, context.actor))

    @router.post("/api/outcomes/forget", responses=action_answers(OutcomeChange))
    def forget(body: ForgetRequest, key: MaybeKey = None) -> Response:
        """Forget an outcome, so that the next caller runs the work again, even if it happened."""
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


def _detail(outcomes: Outcomes, scope: str, key: str) -> OutcomeDetail:
    with outcomes.store.snapshot():
        record = get_record(outcomes, scope, key)
        return detail_of(record, outcomes.effects(scope, key))


def _item(outcomes: Outcomes, body: _KeyBody, text: str) -> OutcomeChange:
    record = get_record(outcomes, body.scope, body.key)
    item = item_of(record, has_result=record.result is not None)
    return OutcomeChange(outcome=item, text=text)


def _load(outcomes: Outcomes, body: ReconcileRequest) -> tuple[OutcomeRecord, EffectRecord | None]:
    """Return the key and the step from one snapshot."""
    with outcomes.store.snapshot():
        record = get_record(outcomes, body.scope, body.key)
        if body.effect is None:
            return record, None
        return record, get_effect(outcomes, body.scope, body.key, body.effect)


def _plan(outcomes: Outcomes, body: ReconcileRequest) -> OutcomeChange:
    record, step = _load(outcomes, body)
    body.check_seen(record)
    reconcilable_fence(record, step)
    return _item(
        outcomes, body, describe_decision(body.scope, body.key, body.effect, is_done=body.is_done)
    )


def _decide(outcomes: Outcomes, body: ReconcileRequest, actor: str) -> OutcomeChange:
    """Decide, unless this request already did so before a crash."""
    record, step = _load(outcomes, body)
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


def _plan_forgetting(outcomes: Outcomes, body: ForgetRequest) -> OutcomeChange:
    record = get_record(outcomes, body.scope, body.key)
    body.check_seen(record)
    check_forgettable(record)
    return _item(outcomes, body, _forgotten(record))


def _forget(outcomes: Outcomes, body: ForgetRequest, actor: str) -> OutcomeChange:
    """Forget the claim that was seen, unless already forgotten; never a later claim."""
    record = get_record(outcomes, body.scope, body.key)
    text = _forgotten(record)
    is_before = is_same_decision(record, verdict="forgotten", actor=actor, reason=body.reason)
    if not (is_before and body.is_next(record)):
        body.check_seen(record)
        outcomes.forget(body.scope, body.key, actor=actor, reason=body.reason, seen=record)
    return _item(outcomes, body, text)


def _forgotten(record: OutcomeRecord) -> str:
    return f"{record.scope} {record.key}: was {record.state}; the next caller runs it"
