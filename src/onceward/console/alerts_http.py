"""Alerts over HTTP: list firing alerts and their rules, and run the doctor's checks."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Query, Response

from onceward.console.context import ConsoleContext
from onceward.console.responses import (
    PAGE_ITEMS_MAX,
    Limit,
    answers,
    clamped,
    extended,
    json_answer,
    moment,
)
from onceward.doctor import Check, examine_machine, examine_store
from onceward.errors import OncewardError, StoreBusy
from onceward.stores.queries import migrations
from onceward.workers.alert_models import Alert, AlertRule, AlertState, EventKind, Kind
from onceward.workers.alerts import Alerts

#: Default number of alerts in one response.
ALERTS_SHOWN: Final = 100
#: How long a request waits while another one runs the doctor.
DOCTOR_SECONDS_MAX: Final = 30.0
Deep = Annotated[
    bool, Query(description="Let the database engine check the whole store; may take long.")
]


@dataclass(frozen=True, kw_only=True, slots=True)
class AlertItem:
    """An alert with a line of text about it; see `Alert`."""

    id: str
    rule: str
    kind: Kind
    cursor: str
    state: AlertState
    value: float
    threshold: float
    pending_at: str
    fired_at: str | None
    fired_sent_at: str | None
    cleared_at: str | None
    cleared_sent_at: str | None
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleItem:
    """A rule, without its webhook's URL, which may hold a secret; see `AlertRule`."""

    name: str
    kind: Kind
    cursor: str
    threshold: float
    for_seconds: float
    clear: float
    window_seconds: float
    has_webhook: bool
    #: How many of its alerts fire.
    firing: int


@dataclass(frozen=True, kw_only=True, slots=True)
class AlertList:
    """Alerts, open ones first, and the rules."""

    items: list[AlertItem]
    #: There are no further pages.
    next: None
    rules: list[RuleItem]
    as_of: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreFacts:
    """The store as the doctor found it; what is None could not be read."""

    engine: str | None
    url: str
    #: Numbers of the migrations that were applied, and how many there are.
    migrations: list[int] | None
    known: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """What the doctor found."""

    ok: bool
    checks: list[Check]
    store: StoreFacts
    as_of: str


def alerts_router(context: ConsoleContext) -> APIRouter:
    """Return the routes of alerts and of the doctor."""
    router = APIRouter()
    _add_alerts(router, context)
    _add_doctor(router, context)
    return router


def _add_alerts(router: APIRouter, context: ConsoleContext) -> None:
    @router.get("/api/console/alerts", responses=answers(AlertList))
    def alerts(limit: Limit = ALERTS_SHOWN) -> Response:
        """List alerts, open ones first, then the newest; and the alert rules."""
        found = Alerts(context.ow()).list(clamped(limit, PAGE_ITEMS_MAX))
        rules = [_rule_item(rule, found) for rule in context.rules]
        items = [_alert_item(each) for each in found]
        return json_answer(AlertList(items=items, next=None, rules=rules, as_of=moment()))


def _alert_item(alert: Alert) -> AlertItem:
    is_cleared = alert.state == "cleared" and alert.fired_at
    event: EventKind = "cleared" if is_cleared else "fired"
    return extended(AlertItem, alert, text=alert.text(event))


def _rule_item(rule: AlertRule, alerts: tuple[Alert, ...]) -> RuleItem:
    firing = sum(each.rule == rule.name and each.state == "firing" for each in alerts)
    return extended(RuleItem, rule, has_webhook=rule.webhook is not None, firing=firing)


def _add_doctor(router: APIRouter, context: ConsoleContext) -> None:
    # The doctor syncs files and may read a whole store: one run at a time.
    doctor_lock = threading.Lock()

    @router.get("/api/console/doctor", responses=answers(Diagnosis))
    def doctor(deep: Deep = False) -> Response:  # noqa: FBT002 - a parameter of the query
        """Check the machine, the installation and the store, as `onceward doctor` does."""
        if not doctor_lock.acquire(timeout=DOCTOR_SECONDS_MAX):
            message = "another run of the checks is in progress; this one was not started"
            raise StoreBusy(message, fix="wait until it ends, then call again")
        try:
            return json_answer(_run_doctor(context, is_deep=deep))
        finally:
            doctor_lock.release()


def _run_doctor(context: ConsoleContext, *, is_deep: bool) -> Diagnosis:
    checks, store = _store(context, is_deep=is_deep)
    checks = [*checks, *examine_machine(is_serving=True)]
    return Diagnosis(
        ok=not any(check.status == "fail" for check in checks),
        checks=checks,
        store=store,
        as_of=moment(),
    )


def _store(context: ConsoleContext, *, is_deep: bool) -> tuple[list[Check], StoreFacts]:
    """Check the store; an unreachable store is a finding, not an error of the request."""
    try:
        store = context.ow().store
        applied = sorted(row[0] for row in store.read("list_migrations"))
    except OncewardError as exc:
        failed = Check(name="store", status="fail", detail=exc.message, fix=exc.fix)
        url = context.store_url
        return [failed], StoreFacts(engine=None, url=url, migrations=None, known=None)
    facts = StoreFacts(
        engine=store.engine,
        url=store.url,
        migrations=applied,
        known=len(migrations(store.engine)),
    )
    return examine_store(store, is_deep=is_deep), facts
