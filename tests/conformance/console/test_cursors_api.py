"""Cursors over HTTP, on both engines: lists, one cursor, and why it does not go on."""

from __future__ import annotations

from datetime import timedelta
from itertools import chain

import pytest

from onceward.client import Onceward
from onceward.console import cursor_paging
from onceward.errors import LeaseLost
from onceward.testing.moving_time import MovingTime
from onceward.workers import Lag
from tests.conformance.test_cursors import stolen
from tests.conformance.workers.test_lag_records import Behind, Bench, bench
from tests.support.console_cursor_requests import asking, asking_of, made, names, paged, shown
from tests.support.console_requests import Asking, error_of

__all__ = ["asking", "bench"]


# --- lists ---------------------------------------------------------------------------------------


def test_a_list_says_who_has_each_cursor(ow: Onceward, asking: Asking, ow_time: MovingTime) -> None:
    """Held, free, expired or paused; ours, which begin with ~, are not there."""
    assert ow.cursors.acquire("expired", "w", 1) is not None
    ow_time.advance(seconds=5)
    assert ow.cursors.acquire("held", "w") is not None
    assert ow.cursors.acquire("~ours", "w") is not None
    made(ow, "free", "paused")
    ow.cursors.pause("paused", "why", "me")
    found = asking.body("/api/cursors")["items"]
    assert [(each["name"], each["state"]) for each in found] == [
        ("expired", "expired"),
        ("free", "free"),
        ("held", "held"),
        ("paused", "paused"),
    ]
    assert [each["version"].partition(".")[2] for each in found] == [
        *("running", "running", "running"),
        "paused",
    ]
    assert all(each["rules_version"] == 1 and each["measure"] is None for each in found)
    assert names(asking, q="~") == ["~ours"]


def test_a_list_is_read_a_page_at_a_time(ow: Onceward, asking: Asking) -> None:
    """Every cursor once, whatever its name; each page knows where the next begins."""
    every = ["a", "a b", "a/b", "a:b", "n:", "w:1.5:x", "ä", "日本"]
    made(ow, *every)
    pages = paged(asking, limit=3)
    assert [len(each) for each in pages] == [3, 3, 2]
    assert sorted(chain(*pages)) == sorted(every)


SEARCHES: list[tuple[dict[str, str], list[str]]] = [
    ({"q": "lead"}, ["Lead_c", "lead_a", "lead_b", "mis_lead"]),
    ({"q": "lead_*"}, ["Lead_c", "lead_a", "lead_b"]),
    ({"q": "lead_?", "state": "paused"}, ["lead_b"]),
    ({"q": "state:paused"}, ["lead_b"]),
    ({"q": "state:paused mis"}, []),
    ({"q": "mis state:free"}, ["mis_lead"]),
    ({"q": "100%"}, ["100%"]),
    ({"q": "%"}, ["100%"]),
    ({"q": "state:nonsense"}, []),
]


def test_a_list_is_searched_by_name_and_state(ow: Onceward, asking: Asking) -> None:
    """A part of the name or a pattern, in any case; what means something to SQL means itself."""
    made(ow, "lead_a", "lead_b", "Lead_c", "mis_lead", "100%", "1000")
    ow.cursors.pause("lead_b")
    for query, expected in SEARCHES:
        assert sorted(names(asking, **query)) == sorted(expected), query
        assert sorted(names(asking, **query, sort="lag")) == sorted(expected), query


def test_a_search_looks_at_so_many_and_no_more(
    ow: Onceward, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is found late comes with a later page; a page may be empty and still have a next."""
    monkeypatch.setattr(cursor_paging, "SCAN_ROWS_MAX", 5)
    made(ow, *(f"c{number:02}" for number in range(12)), "z")
    pages = paged(asking, q="z", limit=2)
    assert list(chain(*pages)) == ["z"]
    assert len(pages) == 3


def test_a_question_that_makes_no_sense_is_refused(asking: Asking) -> None:
    """It is the asker's fault, and the answer names the place; a place must be one of ours."""
    for query in ({"limit": 0}, {"sort": "size"}, {"state": "odd"}, {"q": "\x00"}):
        assert error_of(asking.get("/api/cursors", **query))[:2] == (400, "INVALID_ARGUMENT")
    for after in ("x", "w:nan:c", "n", "w:1e5:c"):
        response = asking.get("/api/cursors", after=after, sort="name")
        assert error_of(response) == (400, "INVALID_CURSOR", "after")
    response = asking.get("/api/cursors", after="w:1:\x00", sort="lag")
    assert error_of(response) == (400, "INVALID_ARGUMENT", "after")


def test_whose_messages_wait_longest_comes_first(ow: Onceward, bench: Bench) -> None:
    """By time, not by count; a cursor that is no longer measured is still listed."""
    lags = {"short": 10, "long": 1000, "longer": 2000}
    for name in ("done", "unknown", *lags):
        bench.cursor(name, "1")
        if name in lags:
            oldest = bench.now() - timedelta(seconds=lags[name])
            many = 9 if name == "short" else 1
            answer = Lag(messages=many, oldest_at=oldest)
            bench.measuring.add(name, Behind(answer), is_partition=False)
    bench.measuring.add("done", Behind(Lag(messages=0)), is_partition=False)
    bench.measured()
    asking = asking_of(ow)
    assert names(asking, sort="lag") == ["longer", "long", "short", "done", "unknown"]
    assert paged(asking, sort="lag", limit=2) == [
        ["longer", "long"],
        ["short", "done"],
        ["unknown"],
    ]
    assert paged(asking, sort="lag", limit=3)[0] == ["longer", "long", "short"]
    assert names(asking, sort="lag", q="long") == ["longer", "long"]
    measure = asking.body("/api/cursors", sort="lag")["items"][0]["measure"]
    assert measure["lag_seconds"] == pytest.approx(2012, abs=5)


def test_a_list_draws_the_lag_history_of_each_cursor(ow: Onceward, bench: Bench) -> None:
    """A small line of what was left, the oldest first, and its shape in a word."""
    source = Behind(Lag(messages=0))
    bench.cursor(position="1")
    bench.measuring.add("c", source, is_partition=False)
    for left in (0, 10, 20, 30, 40, 50):
        source.answer = Lag(messages=left)
        bench.cursor(position=str(left))
        bench.measured()
    (found,) = asking_of(ow).body("/api/cursors")["items"]
    assert found["spark"] == [0, 10, 20, 30, 40, 50]
    assert found["shape"] == "climb"


def test_a_long_list_counts_and_draws_less(
    ow: Onceward, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten thousand cursors come in one page, without lines."""
    monkeypatch.setattr("onceward.console.cursor_views.SPARK_CURSORS_MAX", 2)
    made(ow, "a", "b", "c")
    found = asking.body("/api/cursors", limit=20_000)["items"]
    assert [(each["name"], each["spark"], each["shape"]) for each in found] == [
        ("a", [], "unknown"),
        ("b", [], "unknown"),
        ("c", [], "unknown"),
    ]


# --- why it does not go on -----------------------------------------------------------------------


def because(asking: Asking) -> str | None:
    (found,) = asking.body("/api/cursors")["items"]
    why: str | None = found["blocked_because"]
    return why


def test_a_cursor_that_works_waits_for_nothing(ow: Onceward, asking: Asking) -> None:
    """There is no sentence where nothing is in the way."""
    assert ow.cursors.acquire("c", "w") is not None
    assert because(asking) is None


def test_a_pause_says_whose_it_is(ow: Onceward, asking: Asking) -> None:
    """The last operator who paused it, and the reason."""
    made(ow, "c")
    ow.cursors.pause("c", "first", "ann")
    ow.cursors.resume("c", "", "ann")
    ow.cursors.pause("c", "billing is down", "bob")
    assert because(asking) == 'paused by bob ("billing is down")'
    ow.cursors.resume("c", "", "ann")
    ow.cursors.pause("c", "", "bob")
    assert because(asking) == "paused by bob"


def test_an_expired_lease_names_its_holder(
    ow: Onceward, asking: Asking, ow_time: MovingTime
) -> None:
    """No worker took over; how long ago the lease expired is shown."""
    assert ow.cursors.acquire("c", "w1") is not None
    ow_time.advance(seconds=660)
    assert because(asking) == "the lease of w1 expired 10 min ago, and no worker took over"


def test_a_message_that_fails_is_named(ow: Onceward, asking: Asking, ow_time: MovingTime) -> None:
    """Which attempt failed, when the next is due, and what it said."""
    made(ow, "c", position="1")
    with ow.transaction() as tx:
        noted = {"sequence": 1, "attempt": 1, "delay": 600.0, "kept": 5}
        tx.query("attempt_write", cursor="c", position="2", error="no such customer", **noted)
    failed = "a failing message blocks it: attempt 1 failed, the next one is due"
    assert because(asking) == f"{failed} in 10 min"
    ow_time.advance(seconds=601)
    assert because(asking) == f"{failed} now"
    (attempt,) = shown(asking)["attempts"]
    assert (attempt["position"], attempt["attempt"]) == ("2", 1)
    assert "no such customer" in attempt["error"]
    assert attempt["due_at"] > attempt["first_failed_at"]


def test_a_source_that_is_held_back_says_by_whom(ow: Onceward, bench: Bench) -> None:
    """Something outside keeps it from giving more."""
    bench.cursor(position="1")
    answer = Lag(messages=3, held_back_by="transaction 99")
    bench.measuring.add("c", Behind(answer), is_partition=False)
    bench.measured()
    assert because(asking_of(ow)) == "its source is held back by transaction 99"


def test_messages_without_a_worker_are_reported(
    ow: Onceward, bench: Bench, ow_time: MovingTime
) -> None:
    """A free cursor whose worker is gone: no lease expired, but messages wait."""
    bench.cursor(position="1")
    oldest = bench.now() - timedelta(seconds=5)
    bench.measuring.add("c", Behind(Lag(messages=3, oldest_at=oldest)), is_partition=False)
    bench.measured()
    lease = ow.cursors.acquire("c", "w")
    assert lease is not None
    lease.release()
    asking = asking_of(ow)
    assert because(asking) is None
    ow_time.advance(seconds=600)
    assert because(asking) == "no worker has polled for 10 min, and messages wait"


# --- one cursor ----------------------------------------------------------------------------------


def test_one_cursor_is_shown_with_its_past(ow: Onceward, bench: Bench, ow_time: MovingTime) -> None:
    """Its history, its grants, who was refused, and where it was, each with its own order."""
    late, holder = stolen(ow, ow_time)
    with pytest.raises(LeaseLost):
        late.checkpoint("1")
    holder.checkpoint("7")
    bench.measuring.add("c", Behind(Lag(messages=2)), is_partition=False)
    for _ in range(3):
        bench.measured()
    ow.cursors.fence_log.flush(10.0)
    found = shown(asking_of(ow))
    assert [(each["kind"], each["epoch"]) for each in found["history"]] == [("steal", 2)]
    assert [(each["epoch"], each["worker"], each["ending"]) for each in found["grants"]] == [
        (2, "w2", None),
        (1, "w1", "stolen"),
    ]
    (refusal,) = found["refusals"]
    assert (refusal["what"], refusal["epoch"], refusal["current_owner"]) == ("checkpoint", 1, "w2")
    taken = [each["taken_at"] for each in found["samples"]]
    assert taken == sorted(taken)
    assert [each["position"] for each in found["samples"]] == ["7", "7", "7"]
    assert (found["attempts"], found["can_count"], found["undoable"]) == ([], False, None)
    assert (found["parked"], found["dead"], found["position"]) == (0, 0, "7")


def test_many_samples_are_thinned(
    ow: Onceward, asking: Asking, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day of measures fits into an answer; the newest is there, whatever is left out."""
    monkeypatch.setattr("onceward.console.cursor_views.SAMPLES_MAX", 4)
    bench.measuring.add("c", Behind(Lag(messages=2)), is_partition=False)
    for number in range(10):
        bench.cursor(position=str(number))
        bench.measured()
    found = shown(asking)["samples"]
    assert [each["position"] for each in found] == ["0", "3", "6", "9"]
    assert len(ow.store.read("sample_list", name="c", seconds=1e6, limit=100)) == 10


def test_a_name_may_hold_anything(ow: Onceward, asking: Asking) -> None:
    """Names are asked for in the query, where no character means anything."""
    for name in ("a/b c?d=e&f", "100%", "ü 日本", "~ours"):
        made(ow, name)
        assert shown(asking, name)["name"] == name
        assert asking.done("/api/cursors/pause", name=name)["cursor"]["state"] == "paused"


def test_a_cursor_that_is_not_there_is_not_found(asking: Asking) -> None:
    """Whatever is asked of it."""
    asked = [
        asking.get("/api/cursors/show", name="no"),
        asking.act("/api/cursors/pause", name="no"),
        asking.act("/api/cursors/seek", name="no", position="1", reason="r"),
        asking.act("/api/cursors/seek", None, name="no", position="1", dry_run=True),
        asking.act("/api/cursors/undo", name="no"),
    ]
    assert {error_of(each)[:2] for each in asked} == {(404, "CURSOR_NOT_FOUND")}
