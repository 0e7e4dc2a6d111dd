"""Requests and keys over HTTP, on both engines: lists, the story of a key, verdicts, forgetting."""

import hashlib
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.console.asking import Asking, error_of

from onceward.console.acting import Acting
from onceward.console.audit import page
from onceward.console.house import House
from onceward.console.outcomes_http import outcomes_router
from onceward.handle import Onceward
from onceward.outcomes import Fence, Fresh, Outcomes, Record
from onceward.stores import paging
from onceward.testing.moving_time import MovingTime

SCOPE = "shop.charge"
WHICH = {"scope": SCOPE, "key": "k"}
VERDICT = {**WHICH, "verdict": "not_done", "reason": "no trace of it", "seen": "ambiguous.1"}
FORGET = {**WHICH, "reason": "a test", "seen": "done.1"}


def asking_of(ow: Onceward, *, is_read_only: bool = False) -> Asking:
    house = House(
        ow=lambda: ow, store_url=ow.store.url, version="0", actor="ann", is_read_only=is_read_only
    )
    return Asking(outcomes_router(house, Acting(house)))


@pytest.fixture
def asking(ow: Onceward) -> Asking:
    return asking_of(ow)


def granted(ow: Onceward, key: str = "k", scope: str = SCOPE, **changed: Any) -> Fence:
    asked = {"fingerprint": "f", "owner": "host/1", **changed}
    answer = ow.outcomes.claim(scope, key, **asked)
    assert isinstance(answer, Fresh), answer
    return answer.fence


def silent(ow: Onceward, ow_time: MovingTime, key: str = "k", **changed: Any) -> Fence:
    fence = granted(ow, key, **changed)
    ow_time.advance(seconds=61)
    return fence


def beside(call: Callable[[], object]) -> None:
    """Do something as somebody else would, in the middle of what this thread does."""
    other = threading.Thread(target=call)
    other.start()
    other.join(10)
    assert not other.is_alive()


def shown(asking: Asking, key: str = "k") -> Any:
    return asking.body("/api/outcomes/show", scope=SCOPE, key=key)


def told(asking: Asking, key: str = "k") -> list[str]:
    return [each["what"] for each in shown(asking, key)["attempts"]]


def keys(asking: Asking, **query: Any) -> list[str]:
    return [each["key"] for each in asking.body("/api/outcomes", **query)["items"]]


# --- lists ----------------------------------------------------------------------------------------


def test_a_list_shows_how_keys_stand_now(ow: Onceward, asking: Asking, ow_time: MovingTime) -> None:
    """The newest first; silence shows, a result does not; the version is state and fence."""
    granted(ow, "old")
    ow_time.advance(seconds=61)
    ow.outcomes.finish(granted(ow, "done"), b'{"secret": 1}', ttl_seconds=100)
    ow.outcomes.fail(granted(ow, "failed"), ValueError("no"), retryable=False)
    found = asking.body("/api/outcomes")
    assert found["next"] is None
    assert [(each["key"], each["version"]) for each in found["items"]] == [
        ("failed", "failed.1"),
        ("done", "done.1"),
        ("old", "ambiguous.1"),
    ]
    failed, done, _ = found["items"]
    assert failed["failure"] == {"type": "ValueError", "message": "no"}
    assert (done["has_result"], "result" in done, done["note"]) == (True, False, None)
    assert done["until"] > done["updated_at"]


def test_pages_follow_each_other_while_keys_come_in(ow: Onceward, asking: Asking) -> None:
    """What came before the first page is seen once, and in order, whatever comes meanwhile."""
    for number in range(7):
        granted(ow, f"k{number}")
    seen: list[str] = []
    after = ""
    while after is not None:
        found = asking.body("/api/outcomes", limit=2, after=after)
        seen += [each["key"] for each in found["items"]]
        after = found["next"]
        granted(ow, f"new{len(seen)}")
    assert seen == [f"k{number}" for number in reversed(range(7))]


@pytest.mark.parametrize("state", ["running", "done", "failed", "ambiguous", "abandoned", "free"])
def test_filters_narrow(ow: Onceward, asking: Asking, ow_time: MovingTime, state: str) -> None:
    """By how they stand, by scope, by a part of the name, in capitals or not."""
    granted(ow, "ambiguous-1")
    granted(ow, "abandoned-1", on_crash="rerun")
    ow_time.advance(seconds=61)
    ow.outcomes.doubt(granted(ow, "ambiguous-2", scope="other"), ValueError("?"))
    ow.outcomes.finish(granted(ow, "done-1"), b"1")
    ow.outcomes.fail(granted(ow, "failed-1"), ValueError("x"), retryable=False)
    ow.outcomes.fail(granted(ow, "free-1"), ValueError("x"), retryable=True)
    granted(ow, "running-1")
    of_state = [f"{state}-2", f"{state}-1"] if state == "ambiguous" else [f"{state}-1"]
    assert keys(asking, state=state) == of_state
    assert keys(asking, state=state, scope=SCOPE) == [f"{state}-1"]
    assert keys(asking, q=f"{state.upper()}-", state=state, scope=SCOPE) == [f"{state}-1"]
    assert keys(asking, q="OTHER") == ["ambiguous-2"]
    assert keys(asking, state=state, q="nothing") == []


def test_a_page_looks_at_a_bounded_number_of_keys(
    ow: Onceward, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing was found there may be more: the answer says where to go on."""
    monkeypatch.setattr(paging, "SCAN_ROWS_MAX", 3)
    granted(ow, "needle-1")
    for number in range(7):
        granted(ow, f"k{number}")
    pages: list[list[str]] = []
    after = ""
    while after is not None:
        found = asking.body("/api/outcomes", limit=1, after=after, q="needle-")
        pages.append([each["key"] for each in found["items"]])
        after = found["next"]
    assert pages == [[], [], ["needle-1"]]


def test_a_whole_key_is_found_however_old_it_is(
    ow: Onceward, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes first, of every scope that has it, and once."""
    monkeypatch.setattr(paging, "SCAN_ROWS_MAX", 3)
    for scope in (SCOPE, "shop.refund"):
        ow.outcomes.finish(granted(ow, "needle", scope=scope), b"1")
    for number in range(5):
        granted(ow, f"needle{number}")
    first = asking.body("/api/outcomes", q="needle", limit=2)
    assert [each["scope"] for each in first["items"][:2]] == ["shop.refund", SCOPE]
    seen = [each["key"] for each in first["items"]]
    after = first["next"]
    while after is not None:
        found = asking.body("/api/outcomes", q="needle", limit=2, after=after)
        seen += [each["key"] for each in found["items"]]
        after = found["next"]
    assert sorted(seen) == ["needle", "needle", *(f"needle{number}" for number in range(5))]
    assert keys(asking, q="needle", scope=SCOPE, limit=1)[0] == "needle"
    assert keys(asking, q="needle", state="done") == ["needle", "needle"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"after": "x"}, "after"),
        ({"after": "9" * 30}, "after"),
        ({"state": "lost"}, "state"),
        ({"q": "a\0b"}, "q"),
        ({"scope": "\0"}, "scope"),
        ({"scope": "x" * 1025}, "scope"),
    ],
)
def test_bad_filters_name_the_field(asking: Asking, query: dict[str, Any], field: str) -> None:
    """What cannot be asked for is a 400 that says which field it was."""
    status, _, named = error_of(asking.get("/api/outcomes", **query))
    assert (status, named) == (400, field)


# --- one key --------------------------------------------------------------------------------------


def test_a_key_tells_its_story(ow: Onceward, asking: Asking, ow_time: MovingTime) -> None:
    """Claimed, its steps, silence, and who decided what and why, in order."""

    def work() -> None:
        ow.effect("pay", lambda: {"id": 7})
        raise SystemExit  # As if it were killed: nobody says how it ended.

    with pytest.raises(SystemExit):
        ow.once(key="k", scope=SCOPE, fingerprint=None)(work)()
    assert told(asking)[:2] == ["claimed", "step done"]
    fence = granted(ow, "j")
    assert told(asking, "j") == ["claimed", "running"]
    ow_time.advance(seconds=61)
    assert told(asking, "j") == ["claimed", "silent"]
    ow.outcomes.reconcile(SCOPE, "j", done={"id": 7}, actor="ann", reason="asked the bank")
    story = shown(asking, "j")["attempts"]
    assert [each["what"] for each in story] == ["claimed", "decided"]
    assert story[1]["detail"] == "ann decided: done (asked the bank)"
    assert story[0]["detail"].startswith(f"by {fence.owner}")
    assert shown(asking, "j")["result"] == {"id": 7}


def test_a_note_of_before_does_not_follow_a_later_claim(
    ow: Onceward, asking: Asking, ow_time: MovingTime
) -> None:
    """Found not done, run again, done: the verdict stands before the claim, without a time."""
    silent(ow, ow_time)
    ow.outcomes.reconcile(SCOPE, "k", not_done=True, actor="ann", reason="no trace")
    assert told(asking) == ["claimed", "decided"]
    ow.outcomes.finish(granted(ow, owner="host/2"), b"1")
    story = shown(asking)["attempts"]
    assert [each["what"] for each in story] == ["decided", "claimed", "done"]
    assert story[0]["at"] is None
    assert "host/2" in story[1]["detail"]


def test_work_in_one_commit_says_so(ow: Onceward, asking: Asking, ow_time: MovingTime) -> None:
    """Effects and result were committed together; after its life the key has expired."""

    def work(tx: Any) -> str:
        tx.execute("select 1")
        return "fine"

    decorate: Any = ow.once(key="k", scope=SCOPE, fingerprint=None, ttl=100)
    assert decorate(work)() == "fine"
    found = shown(asking)
    assert "in one commit" in found["attempts"][0]["detail"]
    assert (found["result"], found["result_size"]) == ("fine", 6)
    ow_time.advance(seconds=101)
    assert told(asking)[-1] == "expired"


def test_a_huge_result_is_not_sent_to_a_page(ow: Onceward, asking: Asking) -> None:
    """Its size is told; nothing else of it."""
    ow.outcomes.finish(granted(ow), b'"' + b"x" * 300_000 + b'"')
    found = shown(asking)
    assert (found["result"], found["result_is_cut"], found["result_size"]) == (None, True, 300_002)


def test_a_result_nested_as_deeply_as_it_was_stored_is_shown(ow: Onceward, asking: Asking) -> None:
    """What a key was finished with can be looked at."""
    ow.outcomes.finish(granted(ow), b"[" * 900 + b"]" * 900)
    assert shown(asking)["has_result"]


def test_unknown_and_impossible_names(asking: Asking) -> None:
    """A key nobody knows is a 404, one that no store holds a 400."""
    response = asking.get("/api/outcomes/show", scope=SCOPE, key="nobody's")
    assert error_of(response)[:2] == (404, "NOT_FOUND")
    response = asking.get("/api/outcomes/show", scope=SCOPE, key="\0")
    assert error_of(response) == (400, "INVALID_ARGUMENT", "key")
    assert error_of(asking.get("/api/outcomes/show", scope=SCOPE))[2] == "key"


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


def test_nobody_decides_about_work_in_progress(ow: Onceward, asking: Asking) -> None:
    """Neither in earnest nor in a dry run; a key nobody knows is a 404."""
    granted(ow)
    body = {**VERDICT, "seen": "running.1"}
    for is_plan in (True, False):
        response = asking.act("/api/outcomes/reconcile", **body, dry_run=is_plan)
        assert error_of(response)[:2] == (409, "CONFLICT")
        assert "nothing to decide" in response.json()["error"]["message"]
    response = asking.act("/api/outcomes/reconcile", **{**VERDICT, "key": "other"})
    assert error_of(response)[:2] == (404, "NOT_FOUND")


def test_a_verdict_on_one_step(ow: Onceward, asking: Asking, ow_time: MovingTime) -> None:
    """The step is decided, the work is not; a step nobody knows is a 404."""

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


@pytest.mark.parametrize(
    ("changed", "field"),
    [
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
    ],
)
def test_bad_verdicts_name_the_field(
    ow: Onceward, asking: Asking, ow_time: MovingTime, changed: dict[str, Any], field: str | None
) -> None:
    """Nothing is changed, and the 400 says what to correct."""
    silent(ow, ow_time)
    response = asking.act("/api/outcomes/reconcile", **{**VERDICT, **changed})
    status, code, named = error_of(response)
    assert (status, code) == (400, "INVALID_ARGUMENT")
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
    """Decided by somebody else, run again and silent again right after the look: not this one."""
    silent(ow, ow_time)
    real, looks = Outcomes.show, []

    def show(outcomes: Outcomes, scope: str, key: str) -> Record | None:
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
    assert error_of(response)[:2] == (409, "CONFLICT")
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
    """Once for each key, harmless to repeat under another, with a note of who and why."""
    ow.outcomes.finish(granted(ow), b"1")
    body = FORGET
    plan = asking.done("/api/outcomes/forget", None, **body, dry_run=True)
    assert plan["text"] == f"{SCOPE} k: was done; the next caller runs it"
    assert shown(asking)["state"] == "done"
    for _ in range(2):
        assert asking.done("/api/outcomes/forget", **body)["outcome"]["version"] == "free.2"
    assert told(asking) == ["claimed", "decided"]
    granted(ow, fingerprint="other")


def test_what_is_at_work_or_has_changed_is_not_forgotten(ow: Onceward, asking: Asking) -> None:
    """409 for both, and for a key nobody knows 404."""
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
