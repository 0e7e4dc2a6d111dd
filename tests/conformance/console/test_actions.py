"""What people do through the console: once for each key, recorded, refused where it must be."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi import Response

from onceward.client import Onceward
from onceward.console import audit
from onceward.console.actions import SCOPE, ActionExecutor, OperatorAction, check_seen
from onceward.console.audit import page
from onceward.console.responses import ActionResult
from onceward.errors import (
    Conflict,
    CursorMissing,
    InvalidArgument,
    KeyReused,
    OutcomeUnknown,
    RequestRefused,
    StoreBusy,
)
from onceward.stores import Transaction
from tests.support.console_over_store import context_of


def actions_of(ow: Onceward, *, is_read_only: bool = False) -> ActionExecutor:
    return ActionExecutor(context_of(ow, is_read_only=is_read_only))


def pause(ow: Onceward, calls: list[int]) -> Any:
    def work(_: Transaction) -> dict[str, Any]:
        calls.append(1)
        return {"is_paused": ow.cursors.pause("c", "why", "ann").is_paused}

    return work


def action(
    key: str | None = "k", body: dict[str, Any] | None = None, **more: Any
) -> OperatorAction:
    return OperatorAction(
        name="cursor.pause", target="c", key=key, body=body or {"name": "c"}, **more
    )


def entries(ow: Onceward) -> list[tuple[str, str]]:
    return [(each.action, each.outcome) for each in page(ow.store, before=2**62, limit=100)]


def body_of(response: Response) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(bytes(response.body))
    return body


@pytest.fixture
def cursor(ow: Onceward) -> str:
    ow.cursors.acquire("c", "w")
    return "c"


@pytest.mark.usefixtures("cursor")
@pytest.mark.parametrize("is_atomic", [True, False])
def test_pressing_twice_acts_once_and_answers_the_same(ow: Onceward, is_atomic: bool) -> None:
    """The same key runs the work once; the second answer says that it is a repeat."""
    calls: list[int] = []
    actions = actions_of(ow)
    first = actions.execute(action(is_atomic=is_atomic), pause(ow, calls))
    second = actions.execute(action(is_atomic=is_atomic), pause(ow, calls))
    assert calls == [1]
    assert body_of(first)["is_paused"] is body_of(second)["is_paused"] is True
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert entries(ow) == [("cursor.pause", "done")]


@pytest.mark.usefixtures("cursor")
def test_many_presses_at_once_act_once(ow: Onceward) -> None:
    """Requests that arrive while the first one runs get its response."""
    calls: list[int] = []
    actions = actions_of(ow)
    with ThreadPoolExecutor(8) as pool:
        pressed = [pool.submit(actions.execute, action(), pause(ow, calls)) for _ in range(8)]
        assert {each.result().status_code for each in pressed} == {200}
    assert len(ow.cursors.history("c")) == 1
    assert entries(ow) == [("cursor.pause", "done")]


@pytest.mark.usefixtures("cursor")
def test_a_key_that_was_used_for_something_else_is_refused(ow: Onceward) -> None:
    """Another body under the same key is a mistake, and changes nothing."""
    actions = actions_of(ow)
    actions.execute(action(), pause(ow, []))
    with pytest.raises(KeyReused):
        actions.execute(action(body={"name": "other"}), pause(ow, []))
    assert entries(ow) == [("cursor.pause", "refused"), ("cursor.pause", "done")]


def test_what_fails_is_recorded_and_may_be_tried_again(ow: Onceward) -> None:
    """A refusal does not use the key up: once the cause is gone, the same press acts."""
    actions = actions_of(ow)
    with pytest.raises(CursorMissing):
        actions.execute(action(), pause(ow, []))
    ow.cursors.acquire("c", "w")
    actions.execute(action(), pause(ow, []))
    assert entries(ow) == [("cursor.pause", "done"), ("cursor.pause", "refused")]


@pytest.mark.usefixtures("cursor")
def test_nothing_stays_of_an_action_that_fails_halfway(ow: Onceward) -> None:
    """What it had done before it failed is rolled back with it."""

    def half(_: Transaction) -> ActionResult:
        ow.cursors.pause("c", "why", "ann")
        raise Conflict

    with pytest.raises(Conflict):
        actions_of(ow).execute(action(), half)
    assert not ow.cursors.show("c").is_paused
    assert entries(ow) == [("cursor.pause", "refused")]


@pytest.mark.usefixtures("cursor")
def test_a_read_only_console_changes_nothing(ow: Onceward) -> None:
    """It says so, and how to change that; thinking through is allowed."""
    actions = actions_of(ow, is_read_only=True)
    with pytest.raises(RequestRefused, match="read-only"):
        actions.execute(action(), pause(ow, []))
    assert not ow.cursors.show("c").is_paused
    assert body_of(actions.preview(ActionResult))["dry_run"] is True


@pytest.mark.usefixtures("cursor")
def test_an_action_needs_a_key(ow: Onceward) -> None:
    """Without one a second press would act a second time."""
    with pytest.raises(InvalidArgument, match="Idempotency-Key"):
        actions_of(ow).execute(action(key=None), pause(ow, []))


def test_what_changed_since_it_was_looked_at_is_not_acted_upon() -> None:
    """The refusal says what was seen and what is there now."""
    check_seen("c", None, "2")
    check_seen("c", "2", "2")
    with pytest.raises(Conflict) as refused:
        check_seen("c", "1", "2")
    assert refused.value.context["seen"] == "1"
    assert refused.value.context["now"] == "2"


@pytest.mark.usefixtures("cursor")
def test_a_huge_or_hostile_body_is_kept_in_part(ow: Onceward) -> None:
    """The record holds the beginning of it, and both engines can store it."""
    body = {"name": "c", "reason": "x" * 100_000 + "\x00"}
    actions_of(ow).execute(action(body=body), pause(ow, []))
    (entry,) = page(ow.store, before=2**62, limit=1)
    assert entry.details["bytes"] > 100_000
    body = {"name": "c", "reason": "\x00 \N{SNOWMAN}"}
    actions_of(ow).execute(action(key="k2", body=body), pause(ow, []))
    (entry,) = page(ow.store, before=2**62, limit=1)
    assert entry.details["reason"] == "\N{REPLACEMENT CHARACTER} \N{SNOWMAN}"


@pytest.mark.usefixtures("cursor")
@pytest.mark.parametrize("is_atomic", [True, False])
def test_what_may_have_happened_is_not_called_refused(
    ow: Onceward, is_atomic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the record fails once, the next press completes it: done once, recorded once."""
    actions, calls, add = actions_of(ow), list[int](), audit.add
    failures = [StoreBusy("a moment"), None]

    def fail_once(tx: Transaction, **columns: Any) -> None:
        if columns["outcome"] == "done" and (error := failures.pop(0)) is not None:
            raise error
        add(tx, **columns)

    monkeypatch.setattr(audit, "add", fail_once)
    with pytest.raises(StoreBusy):
        actions.execute(action(is_atomic=is_atomic), pause(ow, calls))
    assert ow.cursors.show("c").is_paused is not is_atomic
    failures[:] = [None]
    actions.execute(action(is_atomic=is_atomic), pause(ow, calls))
    assert len(ow.cursors.history("c")) == 1
    assert [each for each in entries(ow) if each[1] == "done"] == [("cursor.pause", "done")]
    assert (("cursor.pause", "refused") in entries(ow)) is is_atomic


@pytest.mark.usefixtures("cursor")
def test_a_commit_without_an_answer_is_not_called_refused(ow: Onceward) -> None:
    """The outcome is unknown, and the record must not say otherwise."""

    def lost(_: Transaction) -> ActionResult:
        raise OutcomeUnknown

    with pytest.raises(OutcomeUnknown):
        actions_of(ow).execute(action(), lost)
    assert entries(ow) == []


@pytest.mark.usefixtures("cursor")
def test_secrets_are_not_kept(ow: Onceward) -> None:
    """What looks like a secret is redacted before it is recorded."""
    body = {"name": "c", "api_key": "sk-live-0123456789abcdef0123456789abcdef"}
    actions_of(ow).execute(action(body=body), pause(ow, []))
    (entry,) = page(ow.store, before=2**62, limit=1)
    assert "0123456789abcdef" not in str(entry.details)


@pytest.mark.usefixtures("cursor")
def test_a_key_that_was_freed_by_hand_acts_and_is_recorded_again(ow: Onceward) -> None:
    """Whatever is done is in the record, also under a key that was used before."""
    actions = actions_of(ow)
    actions.execute(action(), pause(ow, []))
    ow.cursors.resume("c")
    assert ow.outcomes.forget(SCOPE, "k", actor="bob", reason="again")
    actions.execute(action(), pause(ow, []))
    assert entries(ow) == [("cursor.pause", "done")] * 2
