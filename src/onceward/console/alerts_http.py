"""Alerts over HTTP: list firing alerts and their rules, and run the doctor's checks."""

from __future__ import annotations

import threading
from dataclasses import asdict
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Response

from onceward.console.context import ConsoleContext
from onceward.console.responses import PAGE_ITEMS_MAX, Limit, answers, clamped, json_answer, moment
from onceward.doctor import Check, examine_machine, examine_store
from onceward.errors import OncewardError, StoreBusy
from onceward.stores.queries import migrations
from onceward.workers.alert_models import Alert, AlertRule
from onceward.workers.alerts import Alerts

#: Default number of alerts in one response.
ALERTS_SHOWN: Final = 100
#: How long a request waits while another one runs the doctor.
DOCTOR_SECONDS_MAX: Final = 30.0
Deep = Annotated[
    bool, Query(description="Let the database engine check the whole store; may take long.")
]


def alerts_router(context: ConsoleContext) -> APIRouter:
    """Return the routes of alerts and of the doctor."""
    router = APIRouter()
    _add_alerts(router, context)
    _add_doctor(router, context)
    return router


def _add_alerts(router: APIRouter, context: ConsoleContext) -> None:
    @router.get("/api/console/alerts", responses=answers())
    def alerts(limit: Limit = ALERTS_SHOWN) -> Response:
        """List alerts, open ones first, then the newest; and the alert rules."""
        found = Alerts(context.ow()).list(clamped(limit, PAGE_ITEMS_MAX))
        rules = [rule_item(rule, found) for rule in context.rules]
        items = [alert_item(each) for each in found]
        return json_answer({"items": items, "next": None, "rules": rules, "as_of": moment()})


def alert_item(alert: Alert) -> dict[str, Any]:
    """Return an alert as JSON."""
    event = "cleared" if alert.state == "cleared" and alert.fired_at else "fired"
    return {**asdict(alert), "text": alert.text(event)}  # type: ignore[arg-type]  # one of the two


def rule_item(rule: AlertRule, alerts: tuple[Alert, ...]) -> dict[str, Any]:
    """Return a rule as JSON, without its webhook URL, which may contain a secret."""
    shown = asdict(rule)
    del shown["webhook"]
    firing = sum(each.rule == rule.name and each.state == "firing" for each in alerts)
    return {**shown, "has_webhook": rule.webhook is not None, "firing": firing}


def _add_doctor(router: APIRouter, context: ConsoleContext) -> None:
    # The doctor syncs files and may read a whole store: one run at a time.
    doctor_lock = threading.Lock()

    @router.get("/api/console/doctor", responses=answers())
    def doctor(deep: Deep = False) -> Response:  # noqa: FBT002 - a parameter of the query
        """Check the machine, the installation and the store, as `onceward doctor` does."""
        if not doctor_lock.acquire(timeout=DOCTOR_SECONDS_MAX):
            message = "another run of the checks is in progress; this one was not started"
            raise StoreBusy(message, fix="wait until it ends, then call again")
        try:
            return json_answer(_run_doctor(context, is_deep=deep))
        finally:
            doctor_lock.release()


def _run_doctor(context: ConsoleContext, *, is_deep: bool) -> dict[str, Any]:
    checks, store = _store(context, is_deep=is_deep)
    checks = [*checks, *examine_machine(is_serving=True)]
    return {
        "ok": not any(check.status == "fail" for check in checks),
        "checks": [asdict(check) for check in checks],
        "store": store,
        "as_of": moment(),
    }


def _store(context: ConsoleContext, *, is_deep: bool) -> tuple[list[Check], dict[str, Any]]:
    """Check the store; an unreachable store is a finding, not an error of the request."""
    try:
        store = context.ow().store
        applied = sorted(row[0] for row in store.read("list_migrations"))
    except OncewardError as exc:
        failed = Check(name="store", status="fail", detail=exc.message, fix=exc.fix)
        return [failed], {
            "engine": None,
            "url": context.store_url,
            "migrations": None,
            "known": None,
        }
    facts = {
        "engine": store.engine,
        "url": store.url,
        "migrations": applied,
        "known": len(migrations(store.engine)),
    }
    return examine_store(store, is_deep=is_deep), facts
