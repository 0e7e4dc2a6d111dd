"""Requests and keys over HTTP, on both engines: lists, and the story of a key."""

from typing import Any

import pytest

from onceward.client import Onceward
from onceward.stores import paging
from onceward.testing.moving_time import MovingTime
from tests.support.console_outcome_requests import (
    SCOPE,
    asking,
    granted,
    history_of,
    keys,
    shown,
    silent,
)
from tests.support.console_requests import Asking, error_of

__all__ = ["asking"]


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
    for page in asking.pages("/api/outcomes", limit=2):
        seen += [each["key"] for each in page]
        granted(ow, f"new{len(seen)}")
    assert seen == [f"k{number}" for number in reversed(range(7))]


def test_filters_narrow(ow: Onceward, asking: Asking, ow_time: MovingTime) -> None:
    """By how they stand, by scope, by a part of the name, in capitals or not."""
    granted(ow, "ambiguous-1")
    granted(ow, "abandoned-1", on_crash="rerun")
    ow_time.advance(seconds=61)
    ow.outcomes.mark_ambiguous(granted(ow, "ambiguous-2", scope="other"), ValueError("?"))
    ow.outcomes.finish(granted(ow, "done-1"), b"1")
    ow.outcomes.fail(granted(ow, "failed-1"), ValueError("x"), retryable=False)
    ow.outcomes.fail(granted(ow, "free-1"), ValueError("x"), retryable=True)
    for state in ["running", "done", "failed", "ambiguous", "abandoned", "free"]:
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
    pages = asking.pages("/api/outcomes", limit=1, q="needle-")
    assert [[each["key"] for each in page] for page in pages] == [[], [], ["needle-1"]]


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
    for page in asking.pages("/api/outcomes", first["next"], q="needle", limit=2):
        seen += [each["key"] for each in page]
    assert sorted(seen) == ["needle", "needle", *(f"needle{number}" for number in range(5))]
    assert keys(asking, q="needle", scope=SCOPE, limit=1)[0] == "needle"
    assert keys(asking, q="needle", state="done") == ["needle", "needle"]


def test_bad_filters_name_the_field(asking: Asking) -> None:
    """What cannot be asked for is a 400 that says which field it was."""
    cases: list[Any] = [
        ({"limit": 0}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"after": "x"}, "after"),
        ({"after": "9" * 30}, "after"),
        ({"state": "lost"}, "state"),
        ({"q": "a\0b"}, "q"),
        ({"scope": "\0"}, "scope"),
        ({"scope": "x" * 1025}, "scope"),
    ]
    for query, field in cases:
        status, _, named = error_of(asking.get("/api/outcomes", **query))
        assert (status, named) == (400, field)


# --- one key --------------------------------------------------------------------------------------


def test_the_history_of_a_key_is_shown_in_order(
    ow: Onceward, asking: Asking, ow_time: MovingTime
) -> None:
    """Claimed, its steps, silence, and who decided what and why, in order."""

    def work() -> None:
        ow.effect("pay", lambda: {"id": 7})
        raise SystemExit  # As if it were killed: its end is not reported.

    with pytest.raises(SystemExit):
        ow.once(key="k", scope=SCOPE, fingerprint=None)(work)()
    assert history_of(asking)[:2] == ["claimed", "step done"]
    fence = granted(ow, "j")
    assert history_of(asking, "j") == ["claimed", "running"]
    ow_time.advance(seconds=61)
    assert history_of(asking, "j") == ["claimed", "silent"]
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
    assert history_of(asking) == ["claimed", "decided"]
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
    assert history_of(asking)[-1] == "expired"


def test_a_huge_result_is_not_sent_to_a_page(ow: Onceward, asking: Asking) -> None:
    """Its size is shown, and nothing else of it."""
    ow.outcomes.finish(granted(ow), b'"' + b"x" * 300_000 + b'"')
    found = shown(asking)
    assert (found["result"], found["result_is_cut"], found["result_size"]) == (None, True, 300_002)


def test_a_result_nested_as_deeply_as_it_was_stored_is_shown(ow: Onceward, asking: Asking) -> None:
    """What a key was finished with can be looked at."""
    ow.outcomes.finish(granted(ow), b"[" * 900 + b"]" * 900)
    assert shown(asking)["has_result"]


def test_unknown_and_impossible_names(asking: Asking) -> None:
    """An unknown key is a 404, one that no store can hold a 400."""
    response = asking.get("/api/outcomes/show", scope=SCOPE, key="unknown's")
    assert error_of(response)[:2] == (404, "NOT_FOUND")
    response = asking.get("/api/outcomes/show", scope=SCOPE, key="\0")
    assert error_of(response) == (400, "INVALID_ARGUMENT", "key")
    assert error_of(asking.get("/api/outcomes/show", scope=SCOPE))[2] == "key"
