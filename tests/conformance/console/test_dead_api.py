"""Dead letters over HTTP, on both engines: lists, one letter, redrive after a preview, drop."""

import base64
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.console import dead_http, dead_views
from onceward.console.audit import page
from onceward.console.dead_http import dead_router
from onceward.retries import DeadLetters, Failure, RetryMessage
from onceward.retries.models import LetterId
from tests.support.console_over_store import asking_at
from tests.support.console_requests import Asking, error_of
from tests.support.dispatcher_parts import Talk

RAW = '{"name": "Ann \N{SNOWMAN}"}'.encode()


def asking_of(ow: Onceward, *, is_read_only: bool = False) -> Asking:
    return asking_at(dead_router, ow, is_read_only=is_read_only)


@pytest.fixture
def asking(ow: Onceward) -> Asking:
    return asking_of(ow)


def bury(  # noqa: PLR0913 - what a letter is made of, all of it named
    ow: Onceward,
    position: str,
    *,
    cursor: str = "leads",
    key: str | None = "k",
    raw: bytes = RAW,
    error: str = "no such customer",
) -> int:
    failure = Failure(type="ValueError", message=error, trace="line 1\nline 2")
    with ow.transaction() as tx:
        made = RetryMessage(cursor=cursor, position=position, raw=raw, key=key)
        return ow.dead.add(tx, made, failure, order="key")


def park(ow: Onceward, position: str, *, key: str = "k") -> None:
    with ow.transaction() as tx:
        made = RetryMessage(cursor="leads", position=position, raw=b"{}", key=key)
        ow.retries.parked.park(tx, made)


def ids(asking: Asking, **query: Any) -> list[int]:
    return [each["id"] for each in asking.body("/api/dead", **query)["items"]]


def after(
    monkeypatch: pytest.MonkeyPatch, name: str, call: Callable[[], object]
) -> Callable[[], list[object]]:
    """Let another thread act right after a check; returns a function that gives its results."""
    real, came = getattr(dead_http, name), list[object]()
    other = threading.Thread(target=lambda: came.append(call()))

    def checked(*args: Any) -> None:
        real(*args)
        other.start()
        other.join(0.3)

    def ended() -> list[object]:
        other.join(60)
        return came

    monkeypatch.setattr(dead_http, name, checked)
    return ended


# --- looking --------------------------------------------------------------------------------------


def test_a_list_shows_what_waits_for_a_person(ow: Onceward, asking: Asking) -> None:
    """The dead ones, newest first, as the command line shows them, with a version each."""
    first, second = bury(ow, "1"), bury(ow, "2", cursor="other", key=None)
    ow.dead.drop(bury(ow, "3"), reason="spam", actor="ann")
    found = asking.body("/api/dead")
    assert found["next"] is None
    assert [(each["id"], each["version"]) for each in found["items"]] == [
        (second, "dead.0"),
        (first, "dead.0"),
    ]
    letter = found["items"][1]
    assert (letter["cursor"], letter["key"], letter["error_type"]) == ("leads", "k", "ValueError")
    assert letter["raw_size"] == len(RAW)
    assert "raw_base64" not in letter


def test_filters_and_pages(ow: Onceward, asking: Asking) -> None:
    """By state, by cursor, by a part of anything people know; page by page, each letter once."""
    letters = [bury(ow, f"p{number}", cursor=f"c{number % 2}") for number in range(6)]
    ow.dead.drop(letters[0], reason="spam", actor="ann")
    odd = bury(ow, "strange", error="Teapot")
    assert ids(asking, state="dropped") == letters[:1]
    assert ids(asking, state="all") == [odd, *reversed(letters)]
    assert ids(asking, cursor="c1") == [letters[5], letters[3], letters[1]]
    assert ids(asking, cursor="c0", state="all") == [letters[4], letters[2], letters[0]]
    for words in ("teapot", "STRANGE", "leads"):
        assert ids(asking, q=words) == [odd]
    assert ids(asking, q="nothing") == []
    seen = [each["id"] for page in asking.pages("/api/dead", limit=2) for each in page]
    assert seen == [odd, *reversed(letters[1:])]


def test_one_letter_with_all_that_was_kept(ow: Onceward, asking: Asking) -> None:
    """Its text if it is text, its bytes anyway, every attempt, and the line it came from."""
    letter = bury(ow, "1")
    park(ow, "2")
    found = asking.body("/api/dead/show", id=letter)
    assert (found["raw_text"], found["raw_is_cut"]) == (RAW.decode(), False)
    assert base64.b64decode(found["raw_base64"]) == RAW
    assert found["error_trace"] == "line 1\nline 2"
    assert [each["error"] for each in found["failures"]] == ["ValueError: no such customer"]
    assert found["line"] == {"cursor": "leads", "key": "k", "letters": 1, "waiting": 1}
    binary = asking.body("/api/dead/show", id=bury(ow, "3", raw=b"\xff\x00"))
    assert (binary["raw_text"], base64.b64decode(binary["raw_base64"])) == (None, b"\xff\x00")


def test_a_huge_message_is_cut_between_characters(
    ow: Onceward, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page shows the beginning, and says that there is more."""
    monkeypatch.setattr(dead_views, "RAW_BYTES_MAX", 4)
    found = asking.body("/api/dead/show", id=bury(ow, "1", raw="ab\N{SNOWMAN}".encode()))
    assert (found["raw_text"], found["raw_is_cut"], found["raw_size"]) == ("ab", True, 5)


def test_bad_questions_name_the_field(asking: Asking) -> None:
    """What cannot be asked for is refused, and says why."""
    cases: list[Any] = [
        ("/api/dead", {"limit": 0}, (400, "INVALID_ARGUMENT", "limit")),
        ("/api/dead", {"after": "-1"}, (400, "INVALID_CURSOR", "after")),
        ("/api/dead", {"state": "lost"}, (400, "INVALID_ARGUMENT", "state")),
        ("/api/dead", {"q": "\0"}, (400, "INVALID_ARGUMENT", "q")),
        ("/api/dead/show", {"id": 0}, (400, "INVALID_ARGUMENT", "id")),
        ("/api/dead/show", {"id": 2**70}, (400, "INVALID_ARGUMENT", "id")),
        ("/api/dead/show", {}, (400, "INVALID_ARGUMENT", "id")),
        ("/api/dead/show", {"id": 999}, (404, "DEAD_LETTER_NOT_FOUND", None)),
    ]
    for path, query, expected in cases:
        assert error_of(asking.get(path, **query)) == expected


# --- redrive --------------------------------------------------------------------------------------


def test_a_preview_says_what_a_redrive_will_do(ow: Onceward, asking: Asking) -> None:
    """How many, of which cursors, after which keys they are queued, and some of them; no more."""
    letters = [bury(ow, str(number), key="a") for number in range(6)]
    letters += [bury(ow, "9", cursor="other", key=None)]
    park(ow, "20", key="a")
    gone = bury(ow, "10", key="b")
    ow.dead.drop(gone, reason="spam", actor="ann")
    plan = asking.done("/api/dead/redrive", None, ids=[*letters, gone], dry_run=True)
    assert (plan["dry_run"], plan["count"], plan["ids"]) == (True, 7, letters)
    assert plan["skipped"] == [gone]
    assert [each["id"] for each in plan["sample"]] == letters[:5]
    assert plan["cursors"] == [{"cursor": "leads", "count": 6}, {"cursor": "other", "count": 1}]
    assert plan["lines"] == [
        {"cursor": "leads", "key": "a", "count": 6, "waiting": 1},
        {"cursor": "other", "key": None, "count": 1, "waiting": 0},
    ]
    assert len(ow.dead.list()) == 7
    assert page(ow.store, before=2**62, limit=10) == []


def test_a_redrive_puts_messages_back_once(ow: Onceward, asking: Asking) -> None:
    """The same key answers the same, another key finds nothing left to do; all is recorded."""
    letters = [bury(ow, str(number)) for number in range(3)]
    seen = {str(letter): "dead.0" for letter in letters}
    first = asking.done("/api/dead/redrive", "one", ids=letters, seen=seen)
    assert (first["count"], first["ids"], first["dry_run"]) == (3, letters, False)
    again = asking.act("/api/dead/redrive", "one", ids=letters, seen=seen)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json()["ids"] == letters
    other = asking.done("/api/dead/redrive", "two", ids=letters)
    assert (other["count"], other["skipped"]) == (0, letters)
    assert ow.retries.parked.waiting("leads").messages == 3
    assert ow.dead.show(letters[0]).changed_by == "ann"
    assert [each.action for each in page(ow.store, before=2**62, limit=9)] == ["dead.redrive"] * 2


def test_a_redrive_of_a_cursor_goes_oldest_first_and_says_when_there_is_more(
    ow: Onceward, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many in one call; the plan and what is done agree."""
    monkeypatch.setattr(dead_views, "REDRIVE_MAX", 2)
    letters = [bury(ow, str(number)) for number in range(3)]
    bury(ow, "1", cursor="other")
    plan = asking.done("/api/dead/redrive", None, cursor="leads", dry_run=True)
    assert (plan["ids"], plan["is_cut"]) == (letters[:2], True)
    assert asking.done("/api/dead/redrive", cursor="leads")["ids"] == letters[:2]
    last = asking.done("/api/dead/redrive", cursor="leads")
    assert (last["ids"], last["is_cut"]) == (letters[2:], False)
    assert asking.done("/api/dead/redrive", cursor="leads")["count"] == 0
    assert asking.done("/api/dead/redrive", cursor="unknown")["count"] == 0
    assert len(ow.dead.list()) == 1


def test_letters_that_changed_since_they_were_seen_are_left_alone(
    ow: Onceward, asking: Asking
) -> None:
    """All or none: nothing is put back, and the answer says which one changed."""
    letters = [bury(ow, str(number)) for number in range(2)]
    ow.dead.redrive(letters[1], actor="bob")
    seen = {str(letter): "dead.0" for letter in letters}
    for is_plan in (True, False):
        response = asking.act("/api/dead/redrive", ids=letters, seen=seen, dry_run=is_plan)
        assert error_of(response)[:2] == (409, "CONFLICT")
        context = response.json()["error"]["context"]
        assert (context["seen"], context["now"]) == ("dead.0", "redriven.1")
    assert ow.dead.show(letters[0]).state == "dead"


def test_bad_redrives_name_the_field(asking: Asking) -> None:
    """What is unclear is not done."""
    cases: list[Any] = [
        ({}, (400, "INVALID_ARGUMENT", "ids")),
        ({"ids": []}, (400, "INVALID_ARGUMENT", "ids")),
        ({"ids": [1], "cursor": "leads"}, (400, "INVALID_ARGUMENT", "ids")),
        ({"ids": ["x"]}, (400, "INVALID_ARGUMENT", "ids[0]")),
        ({"ids": [0]}, (400, "INVALID_ARGUMENT", "ids[0]")),
        ({"ids": [1] * 1001}, (400, "INVALID_ARGUMENT", "ids")),
        ({"cursor": "a\0"}, (400, "INVALID_ARGUMENT", "cursor")),
        ({"cursor": ""}, (400, "INVALID_ARGUMENT", "cursor")),
        ({"ids": [999]}, (404, "DEAD_LETTER_NOT_FOUND", None)),
        ({"ids": [999], "dry_run": True}, (404, "DEAD_LETTER_NOT_FOUND", None)),
    ]
    for body, expected in cases:
        assert error_of(asking.act("/api/dead/redrive", **body)) == expected


# --- drop -----------------------------------------------------------------------------------------


def test_a_drop_gives_a_letter_up_with_a_reason(ow: Onceward, asking: Asking) -> None:
    """After a dry run, once; what is not dead any more cannot be dropped."""
    letter = bury(ow, "1")
    body = {"id": letter, "reason": " a test message ", "seen": "dead.0"}
    assert asking.done("/api/dead/drop", None, **body, dry_run=True)["letter"]["state"] == "dead"
    done = asking.done("/api/dead/drop", "one", **body)
    assert done["letter"]["version"] == "dropped.0"
    assert asking.done("/api/dead/drop", "one", **body)["receipt"]["is_replay"]
    found = ow.dead.show(letter)
    assert (found.state, found.reason, found.changed_by) == ("dropped", "a test message", "ann")
    for seen in ("dead.0", None):
        response = asking.act("/api/dead/drop", **{**body, "seen": seen})
        assert error_of(response)[:2] == (409, "CONFLICT")


def test_a_letter_cannot_change_between_the_check_and_the_drop(
    ow: Onceward, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A concurrent redrive waits, and then finds the letter dropped."""
    letter = bury(ow, "1")
    others = after(monkeypatch, "check_seen", lambda: ow.dead.redrive(letter, actor="bob").ids)
    done = asking.done("/api/dead/drop", id=letter, reason="spam", seen="dead.0")
    assert done["letter"]["version"] == "dropped.0"
    assert others() == [()]
    assert ow.dead.show(letter).state == "dropped"


def test_letters_cannot_change_between_the_check_and_the_redrive(
    ow: Onceward, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A concurrent drop waits, and then has nothing to drop."""
    letters = [bury(ow, "1"), bury(ow, "2", cursor="other")]
    seen = {str(letter): "dead.0" for letter in letters}
    drop = partial(ow.dead.drop, letters[1], reason="spam", actor="bob")
    others = after(monkeypatch, "check_versions", drop)
    assert asking.done("/api/dead/redrive", ids=letters, seen=seen)["ids"] == letters
    assert others() == [False]
    assert ow.dead.show(letters[1]).state == "redriven"


def test_a_drop_that_drops_nothing_is_a_conflict(
    ow: Onceward, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the cause, success is not reported."""
    letter = bury(ow, "1")
    monkeypatch.setattr(DeadLetters, "drop", lambda *_, **__: False)
    response = asking.act("/api/dead/drop", id=letter, reason="spam")
    assert error_of(response)[:2] == (409, "CONFLICT")
    assert [each.outcome for each in page(ow.store, before=2**62, limit=9)] == ["refused"]


def test_a_drop_wants_a_reason(ow: Onceward, asking: Asking) -> None:
    """Losing work is not done without saying why."""
    letter = bury(ow, "1")
    cases: list[Any] = [
        ({"reason": ""}, "reason"),
        ({"reason": " "}, "reason"),
        ({"id": None}, "id"),
    ]
    for changed, field in cases:
        response = asking.act("/api/dead/drop", **{"id": letter, "reason": "x", **changed})
        assert error_of(response) == (400, "INVALID_ARGUMENT", field)
        assert error_of(asking.act("/api/dead/drop", id=999, reason="x"))[0] == 404
        assert ow.dead.show(letter).state == "dead"


def test_a_console_that_only_shows_still_plans(ow: Onceward) -> None:
    """Nothing is put back and nothing dropped, and the preview is the same."""
    asking, letter = asking_of(ow, is_read_only=True), bury(ow, "1")
    assert error_of(asking.act("/api/dead/redrive", ids=[letter]))[:2] == (403, "FORBIDDEN")
    response = asking.act("/api/dead/drop", id=letter, reason="x")
    assert error_of(response)[:2] == (403, "FORBIDDEN")
    assert asking.done("/api/dead/redrive", None, ids=[letter], dry_run=True)["count"] == 1


# --- chat -----------------------------------------------------------------------------------------


@pytest.fixture
def chat_letter(ow: Onceward) -> int:
    """Return the dead letter of two chat messages."""
    talk = Talk(ow)
    talk.group()
    talk.hear("one", "<b>two")
    assert talk.deliveries.failed(talk.begun(), "broke\0off", is_final=True).state == "dead"
    return talk.dead.letters()[0].id


def test_letters_of_workers_and_chat_are_one_list(
    ow: Onceward, asking: Asking, chat_letter: int
) -> None:
    """Filters by source, group, cursor and error choose among them."""
    ours = bury(ow, "1")
    assert ids(asking) == [ours, chat_letter]
    assert ids(asking, source="chat") == ids(asking, group="team") == [chat_letter]
    assert ids(asking, source="worker") == ids(asking, error="SUCH customer") == [ours]
    assert ids(asking, cursor="dispatch/team") == ids(asking, error="agentfailed") == [chat_letter]
    assert ids(asking, group="nope") == []
    for query in ({"source": "x"}, {"group": "team", "cursor": "leads"}):
        assert error_of(asking.get("/api/dead", **query))[0] == 400


def test_a_chat_letter_shows_its_messages(asking: Asking, chat_letter: int) -> None:
    """With the group, the range of arrival numbers, and the error."""
    found = asking.body("/api/dead/show", id=chat_letter)
    assert [each["text"] for each in found["messages"]] == ["one", "<b>two"]
    assert (found["source"], found["group"], found["messages_count"]) == ("chat", "team", 2)
    assert (found["first_seq"], found["last_seq"], found["position"]) == (1, 2, "1")
    assert (found["error_type"], found["attempts"]) == ("AgentFailed", 1)
    assert found["line"] is None


def test_a_redrive_by_group_makes_chat_messages_pending(
    ow: Onceward, asking: Asking, chat_letter: int
) -> None:
    """It is previewed, carried out once, and recorded with its actor and reason."""
    talk = Talk(ow)
    plan = asking.done("/api/dead/redrive", None, group="team", dry_run=True)
    assert (plan["ids"], plan["lines"], talk.pending()) == ([chat_letter], [], 0)
    body = {"group": "team", "reason": "agent fixed", "seen": {str(chat_letter): "dead.0"}}
    assert asking.done("/api/dead/redrive", "k1", **body)["ids"] == [chat_letter]
    again = asking.act("/api/dead/redrive", "k1", **body)
    assert again.headers["idempotent-replayed"] == "true"
    shown = ow.dead.show(LetterId(chat_letter))
    assert (shown.state, shown.reason, bool(shown.changed_by)) == ("redriven", "agent fixed", True)
    talk.arrivals.see()
    assert talk.pending() == 2
    response = asking.act("/api/dead/drop", id=chat_letter, reason="spam")
    assert error_of(response)[:2] == (409, "CONFLICT")


def test_a_chat_letter_is_dropped(ow: Onceward, asking: Asking, chat_letter: int) -> None:
    """Its messages stay readable, and its delivery shows what was decided."""
    asking.done("/api/dead/drop", id=chat_letter, reason="spam")
    talk = Talk(ow)
    assert [each.state for each in talk.operators.deliveries("team")] == ["dropped"]
    assert len(talk.dead.messages(chat_letter)) == 2
    assert talk.begin() is None
