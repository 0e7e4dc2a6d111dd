"""Alerts and the doctor over HTTP, on both engines."""

from collections.abc import Callable

import pytest

from onceward import doctor
from onceward.client import Onceward
from onceward.console.alerts_http import alerts_router
from onceward.console.context import ConsoleContext
from onceward.errors import StoreUnavailable
from onceward.retries import Failure, RetryMessage
from onceward.testing.moving_time import MovingTime
from onceward.workers.alert_models import DEFAULT_RULES, AlertRule
from onceward.workers.alerts import AlertEvaluator
from tests.support.console_requests import Asking, error_of

SECRET = "https://hooks.example/secret-token"
RULE = AlertRule(
    name="letters",
    kind="dead",
    cursor="*",
    threshold=0.0,
    for_seconds=0.0,
    clear=0.0,
    window_seconds=3600.0,
    webhook=SECRET,
)


def asking_of(ow: Callable[[], Onceward]) -> Asking:
    rules = (RULE, *DEFAULT_RULES[:1])
    context = ConsoleContext(ow=ow, store_url="sqlite:///x", version="0", actor="ann", rules=rules)
    return Asking(alerts_router(context))


@pytest.fixture
def asking(ow: Onceward) -> Asking:
    return asking_of(lambda: ow)


def bury(ow: Onceward) -> None:
    with ow.transaction() as tx:
        made = RetryMessage(cursor="leads", position="1", raw=b"{}")
        ow.dead.add(tx, made, Failure(type="ValueError", message="no"))


def test_alerts_come_with_their_rules_and_no_secrets(
    ow: Onceward, asking: Asking, ow_time: MovingTime
) -> None:
    """A firing alert is described in a sentence; where it is sent is not shown."""
    evaluator = AlertEvaluator(ow, [RULE])
    assert asking.body("/api/console/alerts")["items"] == []
    bury(ow)
    evaluator.evaluate()
    response = asking.get("/api/console/alerts")
    assert "secret-token" not in response.text
    (alert,), rules = response.json()["items"], response.json()["rules"]
    assert (alert["state"], alert["rule"], alert["cursor"]) == ("firing", "letters", "leads")
    assert alert["text"] == "letters: leads has 1 new dead letters, more than 0"
    assert [(each["name"], each["firing"], each["has_webhook"]) for each in rules] == [
        ("letters", 1, True),
        (DEFAULT_RULES[0].name, 0, False),
    ]
    ow_time.advance(seconds=3_700)
    evaluator.evaluate()
    (alert,) = asking.body("/api/console/alerts")["items"]
    assert (alert["state"], alert["text"]) == ("cleared", "letters: leads has recovered")
    assert error_of(asking.get("/api/console/alerts", limit=0)) == (
        400,
        "INVALID_ARGUMENT",
        "limit",
    )


def test_the_doctor_looks_at_store_and_machine(ow: Onceward, asking: Asking) -> None:
    """The store's engine, schema and clock, then Python, disk and so on; not the port we are on."""
    found = asking.body("/api/console/doctor")
    names = [each["name"] for each in found["checks"]]
    assert names[:3] == ["store", "schema", "store clock"]
    assert {"python", "sqlite", "disk", "fsync", "permissions", "clock"} <= set(names)
    assert {"port", "integrity"}.isdisjoint(names)
    assert found["store"]["engine"] == ow.store.engine
    assert found["store"]["url"] == ow.store.url
    assert len(found["store"]["migrations"]) == found["store"]["known"]
    assert found["ok"] is all(each["status"] != "fail" for each in found["checks"])
    deep = asking.body("/api/console/doctor", deep=1)
    (integrity,) = [each for each in deep["checks"] if each["name"] == "integrity"]
    assert integrity["status"] == ("ok" if ow.store.engine == "sqlite" else "note")
    assert error_of(asking.get("/api/console/doctor", deep="perhaps"))[2] == "deep"


def test_what_is_wrong_with_a_store_is_a_finding_with_a_fix(
    ow: Onceward, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damage found by the engine, and a schema of another version, are reported with a fix."""
    monkeypatch.setattr(ow.store, "problems", lambda: ["row 1 missing from index"])
    monkeypatch.setattr(
        doctor.store_checks, "migrations", lambda _: ((1, "time", ""), (99, "later", ""))
    )
    found = asking.body("/api/console/doctor", deep=1)
    assert not found["ok"]
    broken = {each["name"]: each for each in found["checks"] if each["status"] == "fail"}
    assert broken["integrity"]["detail"] == "row 1 missing from index"
    assert "db migrate" in broken["schema"]["fix"]


def test_a_store_that_cannot_be_reached_is_a_finding() -> None:
    """The doctor answers when nothing else does."""

    def unreachable() -> Onceward:
        raise StoreUnavailable

    asking = asking_of(unreachable)
    found = asking.body("/api/console/doctor")
    assert not found["ok"]
    store = found["checks"][0]
    assert (store["name"], store["status"]) == ("store", "fail")
    assert "database" in store["fix"]
    assert found["store"]["engine"] is None
    assert error_of(asking.get("/api/console/alerts"))[:2] == (503, "UNAVAILABLE")
