"""What people do to cursors over HTTP, on both engines: pauses, seeks with dry run and undo."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.console.audit import page
from onceward.workers import App
from tests.support.console_cursor_requests import asking, asking_of, made, shown
from tests.support.console_requests import Asking, error_of
from tests.support.list_source import ListSource, StrictSource

__all__ = ["asking"]


# --- pauses --------------------------------------------------------------------------------------


def test_a_pause_is_kept_in_the_history_and_the_audit(ow: Onceward, asking: Asking) -> None:
    """The actor and the reason; the response is the cursor as it is now."""
    made(ow, "c")
    seen = shown(asking)["version"]
    answer = asking.done("/api/cursors/pause", name="c", reason="billing is down", seen=seen)
    assert answer["cursor"]["state"] == "paused"
    assert answer["cursor"]["blocked_because"] == 'paused by ann ("billing is down")'
    assert answer["receipt"]["action"] == "cursor.pause"
    (entry,) = ow.cursors.history("c")
    assert (entry.kind, entry.actor, entry.reason) == ("pause", "ann", "billing is down")
    (audited,) = page(ow.store, before=2**62, limit=10)
    assert (audited.action, audited.target, audited.outcome) == ("cursor.pause", "c", "done")
    answer = asking.done("/api/cursors/resume", name="c", seen=answer["cursor"]["version"])
    assert answer["cursor"]["state"] == "free"


def test_who_saw_something_else_is_refused(ow: Onceward, asking: Asking) -> None:
    """Another operator was quicker: nothing is changed, and both versions are reported."""
    made(ow, "c")
    seen = shown(asking)["version"]
    ow.cursors.pause("c", "", "bob")
    for path, body in (
        ("pause", {}),
        ("resume", {}),
        ("seek", {"position": "1", "reason": "r"}),
        ("undo", {}),
    ):
        response = asking.act(f"/api/cursors/{path}", name="c", seen=seen, **body)
        assert error_of(response)[:2] == (409, "CONFLICT")
        context = response.json()["error"]["context"]
        assert (context["seen"], context["now"]) == (seen, shown(asking)["version"])
    assert len(ow.cursors.history("c")) == 1


def test_of_two_operators_who_press_at_once_one_gets_a_conflict(
    ow: Onceward, asking: Asking
) -> None:
    """Both saw the same version; one succeeds, the other gets a conflict."""
    made(ow, "c", position="3")
    seen = shown(asking)["version"]

    def press(body: dict[str, Any]) -> int:
        path = "/api/cursors/seek" if "position" in body else "/api/cursors/pause"
        return asking.act(path, name="c", reason="r", seen=seen, **body).status_code

    with ThreadPoolExecutor(4) as pool:
        statuses = list(pool.map(press, [{"position": "1"}, {}, {"position": "2"}, {}]))
    assert sorted(statuses) == [200, 409, 409, 409]
    assert len(ow.cursors.history("c")) == 1


@pytest.mark.parametrize("ow_url", ["postgres"], indirect=True)
def test_a_pause_waits_for_no_handler(ow: Onceward, asking: Asking) -> None:
    """A guarded transaction is open; it may finish, and so may the pause."""
    lease = ow.cursors.acquire("c", "w")
    assert lease is not None
    with ow.transaction() as tx:
        lease.guard(tx)
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(asking.done, "/api/cursors/pause", name="c").result(60)
        assert answer["cursor"]["state"] == "paused"
        lease.checkpoint("1", tx)
    assert ow.cursors.show("c").position == "1"


def test_a_body_that_makes_no_sense_is_refused(asking: Asking) -> None:
    """Nothing of it reaches the store."""
    bodies: list[dict[str, Any]] = [
        {},
        {"name": ""},
        {"name": "c" * 201},
        {"name": "c\x00"},
        {"name": "c", "reason": "r" * 2_001},
        {"name": "c", "else": 1},
    ]
    for body in bodies:
        response = asking.act("/api/cursors/pause", **body)
        assert error_of(response)[:2] == (400, "INVALID_ARGUMENT"), body


# --- moves ---------------------------------------------------------------------------------------


@pytest.fixture
def counting(ow: Onceward) -> Asking:
    """A console that knows the app, with a cursor at 7 of 10."""
    app = App(ow)
    app.consumer("c", source=ListSource(*({"n": n} for n in range(1, 11))))(lambda _: None)
    made(ow, "c", position="7")
    return asking_of(ow, app)


def test_a_seek_is_thought_through_first(ow: Onceward, counting: Asking) -> None:
    """How many are repeated and some of them, how many are skipped; nothing is changed."""
    before = shown(counting)
    assert before["can_count"]
    back = counting.done("/api/cursors/seek", None, name="c", position="4", dry_run=True)
    assert (back["dry_run"], back["receipt"]) == (True, None)
    move = back["move"]
    assert (move["from_position"], move["to_position"]) == ("7", "4")
    assert (move["repeated"], move["skipped"], move["epoch"]) == (3, 0, None)
    assert back["sample"] == ['{"n":5}', '{"n":6}', '{"n":7}']
    on = counting.done("/api/cursors/seek", None, name="c", position="9", dry_run=True)
    assert (on["move"]["repeated"], on["move"]["skipped"], on["sample"]) == (0, 2, [])
    start = counting.done("/api/cursors/seek", None, name="c", position=None, dry_run=True)
    assert (start["move"]["to_position"], start["move"]["repeated"]) == (None, 7)
    assert start["sample"] == [f'{{"n":{n}}}' for n in range(1, 6)]
    assert shown(counting)["version"] == before["version"]
    assert page(ow.store, before=2**62, limit=10) == []


def test_a_seek_to_where_the_source_never_was_is_refused(ow: Onceward) -> None:
    """Workers would stand there; who is there already can go back."""
    app = App(ow)
    source = StrictSource(*range(10))
    app.consumer("c", source=source)(lambda _: None)
    made(ow, "c", position="7")
    asking = asking_of(ow, app)
    before = shown(asking)["version"]
    for body in ({"dry_run": True}, {"seen": before, "reason": "r"}):
        response = asking.act("/api/cursors/seek", name="c", position="11", **body)
        assert error_of(response)[:2] == (400, "INVALID_CURSOR")
    assert shown(asking)["version"] == before
    assert asking.done("/api/cursors/seek", None, name="c", position="10", dry_run=True)["move"]
    body = {"name": "c", "position": "9", "reason": "r", "seen": before}
    first = asking.act("/api/cursors/seek", "k1", **body)
    del source.values[5:]
    again = asking.act("/api/cursors/seek", "k1", **body).json()
    assert (again["move"], again["receipt"]["is_replay"]) == (first.json()["move"], True)
    ow.cursors.undo("c", "ana")
    ow.cursors.seek("c", "11", "by an operator without the app", "ana")
    asking.done("/api/cursors/undo", name="c", reason="", seen=shown(asking)["version"])
    assert ow.cursors.show("c").position == "7"


def test_a_seek_is_done_and_undone(ow: Onceward, counting: Asking) -> None:
    """The holder's lease ends; the undo is offered until it is used."""
    holder = ow.cursors.acquire("c", "w1")
    assert holder is not None
    seen = shown(counting)["version"]
    answer = counting.done("/api/cursors/seek", name="c", position="4", reason="r", seen=seen)
    move = answer["move"]
    assert (move["to_position"], move["repeated"], move["interrupts"]) == ("4", 3, "w1")
    assert (answer["dry_run"], move["epoch"]) == (False, holder.epoch + 1)
    found = shown(counting)
    assert (found["position"], found["grants"][0]["ending"]) == ("4", "moved")
    undoable = found["undoable"]
    assert (undoable["from_position"], undoable["to_position"]) == ("7", "4")
    plan = counting.done("/api/cursors/undo", None, name="c", dry_run=True)
    assert (plan["move"]["to_position"], plan["move"]["skipped"]) == ("7", 3)
    answer = counting.done("/api/cursors/undo", name="c", reason="", seen=found["version"])
    assert answer["move"]["to_position"] == "7"
    found = shown(counting)
    assert (found["position"], found["undoable"]) == ("7", None)
    assert [each["kind"] for each in found["history"]] == ["undo", "seek"]
    response = counting.act("/api/cursors/undo", name="c")
    assert error_of(response)[:2] == (409, "NOTHING_TO_UNDO")


def test_pressing_twice_moves_once(ow: Onceward, counting: Asking) -> None:
    """The second press gets the first answer, though the cursor has changed since."""
    seen, body = shown(counting)["version"], {"name": "c", "position": "4", "reason": "r"}
    first = counting.act("/api/cursors/seek", "k1", **body, seen=seen)
    second = counting.act("/api/cursors/seek", "k1", **body, seen=seen)
    assert first.status_code == second.status_code == 200
    assert second.headers["idempotent-replayed"] == "true"
    assert first.json()["move"] == second.json()["move"]
    assert len(ow.cursors.history("c")) == 1
    other = counting.act("/api/cursors/seek", "k1", **{**body, "position": "5"}, seen=seen)
    assert error_of(other)[:2] == (422, "KEY_REUSED")


def test_a_seek_needs_a_reason_and_a_key(ow: Onceward, counting: Asking) -> None:
    """It is kept in the history, so a blank is none; without a key nothing is done."""
    blank = counting.act("/api/cursors/seek", name="c", position="4", reason=" ")
    assert error_of(blank) == (400, "INVALID_ARGUMENT", "reason")
    keyless = counting.act("/api/cursors/seek", None, name="c", position="4", reason="r")
    assert error_of(keyless)[0] == 400
    missing = counting.act("/api/cursors/seek", name="c", reason="r")
    assert error_of(missing) == (400, "INVALID_ARGUMENT", "position")
    assert ow.cursors.show("c").position == "7"


def test_a_console_that_only_shows_still_thinks(ow: Onceward) -> None:
    """A dry run changes nothing, so it is answered; the rest is refused."""
    made(ow, "c", position="7")
    asking = asking_of(ow, is_read_only=True)
    plan = asking.done("/api/cursors/seek", None, name="c", position="4", dry_run=True)
    assert (plan["move"]["repeated"], plan["sample"]) == (None, [])
    for path in ("pause", "resume", "undo"):
        response = asking.act(f"/api/cursors/{path}", name="c")
        assert error_of(response)[:2] == (403, "FORBIDDEN")
    assert ow.cursors.history("c") == ()


class Broken(ListSource):
    """A source whose reads fail."""

    def read(self, after: str | None, limit: int) -> Any:
        raise RuntimeError(after, limit)

    def count(self, after: str | None, up_to: str | None) -> int:
        raise RuntimeError(after, up_to)


def test_a_source_that_cannot_count_is_an_error_with_advice(ow: Onceward) -> None:
    """The console does not fail with it, and moves no cursor without a count."""
    app = App(ow)
    app.consumer("c", source=Broken(1))(lambda _: None)
    made(ow, "c", position="7")
    asking = asking_of(ow, app)
    for body in ({"dry_run": True}, {}):
        response = asking.act("/api/cursors/seek", name="c", position="4", reason="r", **body)
        assert error_of(response)[:2] == (503, "SOURCE_UNAVAILABLE")
    assert ow.cursors.show("c").position == "7"
