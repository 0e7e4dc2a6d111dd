"""What people decide about keys over HTTP, on both engines: verdicts and forgetting."""

import hashlib
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.console.audit import page
from onceward.outcomes import OutcomeRecord, Outcomes
from onceward.testing.moving_time import MovingTime
from tests.support.console_outcome_requests import (
    SCOPE,
    WHICH,
    asking,
    asking_of,
    beside,
    granted,
    history_of,
    shown,
    silent,
)
from tests.support.console_requests import Asking, error_of

__all__ = ["asking"]


VERDICT = {**WHICH, "verdict": "not_done", "reason": "no trace of it", "seen": "ambiguous.1"}
FORGET = {**WHICH, "reason": "a test", "seen": "done.1"}


# --- verdicts -------------------------------------------------------------------------------------


def test_a_verdict_is_given_once_and_recorded(
    ow: Onceward, asking: Asking, ow_time: MovingTime
) -> None:
    """After a dry run, with the version seen; pressing twice answers the same."""
    silent(ow, ow_time)
    version = shown(asking)["version"]
    body = {**VERDICT, "verdict": "done", "result": {"id": 7}, "seen": version}
    plan = asking.done("/api/outcomes/reconcile", None, **body, dry_run=True)
    assert plan["dry_run"]
    assert plan["text"] == f"{SCOPE} k: done; every caller gets this result"
    assert shown(asking)["version"] == version
    first = asking.done("/api/outcomes/reconcile", "one", **body)
    assert (first["outcome"]["version"], first["receipt"]["is_replay"]) == ("done.2", False)
    again = asking.act("/api/outcomes/reconcile", "one", **body)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json()["outcome"] == first["outcome"]
    assert shown(asking)["result"] == {"id": 7}
    assert shown(asking)["note"] == {"verdict": "done", "actor": "ann", "reason": VERDICT["reason"]}
    (entry,) = page(ow.store, before=2**62, limit=10)
    assert (entry.action, entry.target, entry.outcome) == (
        "outcome.reconcile",
        f"{SCOPE} k",
        "done",
    )


def test_a_verdict_that_a_crash_kept_from_being_recorded_is_not_a_conflict(
    ow: Onceward, asking: Asking, ow_time: MovingTime
) -> None:
    """It was given, the record of it was lost: giving it again is fine, another one is not."""
    silent(ow, ow_time)
    body = {**VERDICT, "seen": shown(asking)["version"]}
    ow.outcomes.reconcile(SCOPE, "k", not_done=True, actor="ann", reason=str(VERDICT["reason"]))
    assert asking.done("/api/outcomes/reconcile", **body)["outcome"]["state"] == "free"
    other = asking.act("/api/outcomes/reconcile", **{**body, "reason": "another"})
    assert error_of(other)[:2] == (409, "CONFLICT")


@pytest.mark.parametrize("seen", ["ambiguous.1", "1"])
def test_a_verdict_on_what_changed_is_refused(
    ow: Onceward, asking: Asking, ow_time: MovingTime, seen: str
) -> None:
    """It says what was seen and what it is now; nothing is changed, and the refusal is recorded."""
    silent(ow, ow_time, on_crash="rerun")
    silent(ow, ow_time, owner="host/2", on_crash="ambiguous")
    for is_plan in (True, False):
        response = asking.act(
            "/api/outcomes/reconcile", **{**VERDICT, "seen": seen}, dry_run=is_plan
        )
        assert error_of(response)[:2] == (409, "CONFLICT")
        context = response.json()["error"]["context"]
        assert (context["seen"], context["now"]) == (seen, seen.replace("1", "2"))
    assert shown(asking)["version"] == "ambiguous.2"
    assert [each.outcome for each in page(ow.store, before=2**62, limit=10)] == ["refused"]


def test_a_running_call_cannot_be_reconciled(ow: Onceward, asking: Asking) -> None:
    """Neither for real nor in a dry run; an unknown key is a 404."""
    granted(ow)
    body = {**VERDICT, "seen": "running.1"}
    for is_plan in (True, False):
        response = asking.act("/api/outcomes/reconcile", **body, dry_run=is_plan)
        assert error_of(response)[:2] == (409, "NOT_RECONCILABLE")
        assert "is not ambiguous; nothing was changed" in response.json()["error"]["message"]
    response = asking.act("/api/outcomes/reconcile", **{**VERDICT, "key": "other"})
    assert error_of(response)[:2] == (404, "NOT_FOUND")


def test_a_verdict_on_one_step(ow: Onceward, asking: Asking, ow_time: MovingTime) -> None:
    """The step is decided, the work is not; an unknown step is a 404."""

    def pay() -> None:
        raise SystemExit

    def work() -> None:
        ow.effect("pay", pay)

    with pytest.raises(SystemExit):
        ow.once(key="k", scope=SCOPE, fingerprint=None)(work)()
    ow_time.advance(seconds=61)
    before = shown(asking)
    assert [each["state"] for each in before["effects"]] in (["intended"], ["ambiguous"])
    body = {**VERDICT, "effect": "pay", "seen": before["version"]}
    asking.done("/api/outcomes/reconcile", None, **body, dry_run=True)
    for _ in range(2):  # The second one under another key: it was decided so.
        asking.done("/api/outcomes/reconcile", **body)
    (step,) = shown(asking)["effects"]
    assert (step["state"], step["note"]["actor"]) == ("free", "ann")
    missing = asking.act("/api/outcomes/reconcile", **{**body, "effect": "other"})
    assert error_of(missing)[:2] == (404, "NOT_FOUND")


def test_bad_verdicts_name_the_field(ow: Onceward, asking: Asking, ow_time: MovingTime) -> None:
    """Nothing is changed, and the 400 says what to correct."""
    silent(ow, ow_time)
    cases: list[Any] = [
        ({"reason": ""}, "reason"),
        ({"reason": " "}, "reason"),
        ({"reason": None}, "reason"),
        ({"verdict": "maybe"}, "verdict"),
        ({"result": 1}, "result"),
        ({"verdict": "done", "result": 2**60}, None),
        ({"scope": ""}, "scope"),
        ({"key": "a\0b"}, "key"),
        ({"effect": "\0"}, "effect"),
        ({"effect": ""}, "effect"),
        ({"unknown": 1}, "unknown"),
        ({"seen": None}, "seen"),
        ({"seen": "lost"}, "seen"),
    ]
    for changed, field in cases:
        response = asking.act("/api/outcomes/reconcile", **{**VERDICT, **changed})
        status, code, named = error_of(response)
        assert (status, code) == (400, "INVALID_ARGUMENT" if field else "NOT_CANONICAL")
        assert named == field or response.json()["error"]["context"]["path"] == "result"
        assert shown(asking)["state"] == "ambiguous"


def test_an_action_needs_a_key_and_a_console_that_acts(
    ow: Onceward, asking: Asking, ow_time: MovingTime
) -> None:
    """Without a key nothing is done; a console that only shows still plans."""
    silent(ow, ow_time)
    assert error_of(asking.act("/api/outcomes/reconcile", None, **VERDICT))[0] == 400
    only_shows = asking_of(ow, is_read_only=True)
    assert error_of(only_shows.act("/api/outcomes/reconcile", **VERDICT))[:2] == (403, "FORBIDDEN")
    assert only_shows.done("/api/outcomes/reconcile", None, **VERDICT, dry_run=True)["dry_run"]
    assert shown(asking)["state"] == "ambiguous"


def test_a_verdict_is_about_the_claim_that_was_checked(
    ow: Onceward, asking: Asking, ow_time: MovingTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decided by another operator, run again and silent again after the look: a conflict."""
    silent(ow, ow_time)
    real, looks = Outcomes.show, []

    def show(outcomes: Outcomes, scope: str, key: str) -> OutcomeRecord | None:
        record = real(outcomes, scope, key)
        looks.append(record)
        if len(looks) == 1:
            beside(decided_and_silent_again)
        return record

    def decided_and_silent_again() -> None:
        ow.outcomes.reconcile(SCOPE, "k", not_done=True, actor="bob", reason="no trace")
        silent(ow, ow_time, owner="host/2")

    monkeypatch.setattr(Outcomes, "show", show)
    response = asking.act("/api/outcomes/reconcile", **VERDICT)
    assert error_of(response)[:2] == (409, "NOT_RECONCILABLE")
    assert shown(asking)["version"] == "ambiguous.3"


def test_the_audit_holds_no_result(ow: Onceward, asking: Asking, ow_time: MovingTime) -> None:
    """Forgetting a key would not erase it there; what tells two results apart is kept."""
    silent(ow, ow_time)
    body = {**VERDICT, "verdict": "done", "result": {"card": "4111"}}
    asking.done("/api/outcomes/reconcile", "one", **body)
    other = asking.act("/api/outcomes/reconcile", "one", **{**body, "result": {"card": "4112"}})
    assert error_of(other)[:2] == (422, "KEY_REUSED")
    entries = page(ow.store, before=2**62, limit=10)
    assert "411" not in str([(each.details, each.result) for each in entries])
    digest = hashlib.sha256(b'{"card":"4111"}').hexdigest()
    assert entries[-1].details["result"] == {"sha256": digest, "bytes": 15}


# --- forgetting -----------------------------------------------------------------------------------


def test_forgetting_frees_a_key_after_a_dry_run(ow: Onceward, asking: Asking) -> None:
    """Once for each key, idempotent under another, with a note of who and why."""
    ow.outcomes.finish(granted(ow), b"1")
    body = FORGET
    plan = asking.done("/api/outcomes/forget", None, **body, dry_run=True)
    assert plan["text"] == f"{SCOPE} k: was done; the next caller runs it"
    assert shown(asking)["state"] == "done"
    for _ in range(2):
        assert asking.done("/api/outcomes/forget", **body)["outcome"]["version"] == "free.2"
    assert history_of(asking) == ["claimed", "decided"]
    granted(ow, fingerprint="other")


def test_what_is_at_work_or_has_changed_is_not_forgotten(ow: Onceward, asking: Asking) -> None:
    """409 for both, and 404 for an unknown key."""
    fence = granted(ow)
    body = {**FORGET, "seen": "running.1"}
    for is_plan in (True, False):
        response = asking.act("/api/outcomes/forget", **body, dry_run=is_plan)
        assert error_of(response)[:2] == (409, "IN_FLIGHT")
    ow.outcomes.finish(fence, b"1")
    stale = asking.act("/api/outcomes/forget", **body)
    assert error_of(stale)[:2] == (409, "CONFLICT")
    assert shown(asking)["state"] == "done"
    missing = asking.act("/api/outcomes/forget", **{**FORGET, "key": "other"})
    assert error_of(missing)[:2] == (404, "NOT_FOUND")


def test_forgetting_wants_to_know_what_was_seen(ow: Onceward, asking: Asking) -> None:
    """Else a retry could forget what the work came to when it was run again; a plan may ask."""
    ow.outcomes.finish(granted(ow), b"1")
    blind = {**FORGET, "seen": None}
    assert error_of(asking.act("/api/outcomes/forget", **blind)) == (
        400,
        "INVALID_ARGUMENT",
        "seen",
    )
    assert asking.done("/api/outcomes/forget", None, **blind, dry_run=True)["dry_run"]
    assert shown(asking)["version"] == "done.1"


def test_a_retry_forgets_nothing_newer(ow: Onceward, asking: Asking) -> None:
    """Forgotten, its record lost: the retry finds it done, until the work was run again."""
    ow.outcomes.finish(granted(ow), b"1")
    words: dict[str, Any] = {"actor": "ann", "reason": FORGET["reason"]}
    ow.outcomes.forget(SCOPE, "k", **words)
    assert asking.done("/api/outcomes/forget", **FORGET)["outcome"]["version"] == "free.2"
    ow.outcomes.finish(granted(ow), b"2")
    response = asking.act("/api/outcomes/forget", **FORGET)
    assert error_of(response)[:2] == (409, "CONFLICT")
    assert shown(asking)["result"] == 2
    ow.outcomes.forget(SCOPE, "k", **words)  # Not what was asked for: of another run.
    response = asking.act("/api/outcomes/forget", **FORGET)
    assert error_of(response)[:2] == (409, "CONFLICT")
