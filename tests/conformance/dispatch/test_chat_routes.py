"""The routes of conversations on both engines: what they take, refuse and answer."""

from __future__ import annotations

from typing import Any

from onceward.dispatch import response_models
from onceward.dispatch.models import TEXT_BYTES_MAX, DeliveryState, Group
from tests.support.chat_http_client import (
    JSON,
    MESSAGES,
    TOKEN,
    Site,
    body_of,
    site,
)
from tests.support.console_requests import error_of

__all__ = ["site"]


HOSTILE = "<script>alert(1)</script> %s _ & \0 \u202e 👩‍👩‍👧 \\ ' \" \n end"


# --- what is said ---------------------------------------------------------------------------------


def test_a_conversation_has_messages_and_replies_in_order(site: Site) -> None:
    """Both have their place in one row of numbers, and one cursor reads them."""
    site.say("hello", timestamp="2026-01-01T00:00:00Z")
    site.answered("hi", "what is it?")
    site.say("nothing")
    page = body_of(site.get(MESSAGES), response_models.Conversation)
    assert [(each["type"], each["text"], each["seq"]) for each in page["items"]] == [
        ("message", "hello", 1),
        ("reply", "hi", 2),
        ("reply", "what is it?", 3),
        ("message", "nothing", 4),
    ]
    first = page["items"][0]
    assert (first["id"], first["sender"]) == ("hello", "ann")
    assert first["timestamp"] == "2026-01-01T00:00:00Z"
    assert page["nextCursor"] == "4"
    rest = body_of(site.get(MESSAGES, since="3"), response_models.Conversation)
    assert [each["text"] for each in rest["items"]] == ["nothing"]
    two = body_of(site.get(MESSAGES, limit=2), response_models.Conversation)
    assert (len(two["items"]), two["nextCursor"]) == (2, "2")


def test_h45_a_text_arrives_unchanged(site: Site) -> None:
    """Whatever a person writes, it comes back letter by letter."""
    body_of(site.say(HOSTILE, id="x"), response_models.MessageReceipt)
    (item,) = site.get(MESSAGES).json()["items"]
    assert item["text"] == HOSTILE


def test_the_state_says_what_goes_on(site: Site) -> None:
    """Waiting, at work, failed and tried again, given up after an answer, paused."""

    def state() -> dict[str, Any]:
        found: dict[str, Any] = body_of(site.get(MESSAGES), response_models.Conversation)["state"]
        return found

    quiet = state()
    assert not quiet["isRunning"]
    site.say("hello")
    waiting = state()
    assert (waiting["pending"], waiting["isCalled"]) == (1, True)
    site.answered(fails="no idea")
    failed = state()
    assert (failed["lastError"], failed["isCalled"]) == ("no idea", True)
    assert failed["retryAt"]
    site.answered("half", fails="broke off")
    kept = state()
    assert kept["lastFailure"] == {"state": "kept", "error": "broke off"}
    site.dispatcher.groups.set("team", is_paused=True)
    paused = state()
    assert paused["isPaused"]
    tags = {each["tag"] for each in (quiet, waiting, failed, kept, paused)}
    assert len(tags) == 5


def test_the_board_shows_every_group(site: Site) -> None:
    """Where each stands, what is in flight, and what was given up."""
    site.dispatcher.groups.add(Group(name="other", channel="chat", command=("true",)))
    site.say("hello")
    group = site.dispatcher.groups.show("team")
    site.dispatcher.arrivals.see()
    delivery = site.dispatcher.deliveries.begin(group)
    assert delivery is not None
    board = body_of(site.get("/api/dispatch/status"), response_models.Status)
    other, team = board["items"]
    assert (other["name"], other["inFlight"]) == ("other", None)
    assert (other["arrived"], other["read"], team["arrived"], team["read"]) == (0, 0, 1, 1)
    assert (team["inFlight"]["attempt"], team["processed"], team["pending"]) == (1, 1, 0)
    assert (board["isHeld"], board["arrived"], board["read"]) == (False, 1, 1)
    ending = site.dispatcher.deliveries.failed(delivery, "bad", is_final=True)
    assert ending.state is DeliveryState.DEAD
    assert (
        body_of(site.get("/api/dispatch/status"), response_models.Status)["items"][1]["dead"] == 1
    )
    state = site.get(MESSAGES).json()["state"]
    assert state["lastFailure"] == {"state": "dead", "error": "bad"}


def test_the_config_and_the_list_name_the_groups(site: Site) -> None:
    """A page learns the token and which conversations there are."""
    item = {"name": "team", "trigger": "always", "word": "", "isPaused": False}
    config = body_of(site.get("/api/chat/config"), response_models.ChatConfig)
    assert config.pop("token") not in (None, TOKEN)
    assert config == {"version": site.app.version, "groups": [item]}
    assert body_of(site.get("/api/chat/groups"), response_models.GroupList) == {"items": [item]}


# --- what is refused ------------------------------------------------------------------------------

PARAMETERS = [
    ({"since": "x"}, "INVALID_ARGUMENT"),
    ({"since": "-1"}, "INVALID_ARGUMENT"),
    ({"since": "9" * 30}, "INVALID_ARGUMENT"),
    ({"since": "9" * 5000}, "INVALID_ARGUMENT"),
    ({"since": "99"}, "INVALID_CURSOR"),
    ({"since": str(2**53 - 1)}, "INVALID_CURSOR"),
    ({"limit": "0"}, "INVALID_ARGUMENT"),
    ({"limit": "many"}, "INVALID_ARGUMENT"),
    ({"wait": "-1"}, "INVALID_ARGUMENT"),
    ({"wait": "61"}, "INVALID_ARGUMENT"),
    ({"wait": "nan"}, "INVALID_ARGUMENT"),
    ({"wait": "inf"}, "INVALID_ARGUMENT"),
    ({"last": "0"}, "INVALID_ARGUMENT"),
    ({"before": "1"}, "INVALID_ARGUMENT"),
    ({"before": "-1", "last": "1"}, "INVALID_ARGUMENT"),
    ({"state": "x" * 65}, "INVALID_ARGUMENT"),
]
GROUPS = ["nope", "de%00mo", "x" * 2000, "%F0%9F%92%A9", "%25", "%ff"]
FIELDS: list[dict[str, Any]] = [
    {"id": ""},
    {"id": "x" * 201},
    {"id": "a\0b"},
    {"id": "\ud800"},
    {"id": 5},
    {"id": None},
    {"sender": ""},
    {"sender": "a\nb"},
    {"text": ""},
    {"text": "\ud800"},
    {"text": "ä" * (TEXT_BYTES_MAX // 2 + 1)},
    {"text": "x" * (TEXT_BYTES_MAX + 1)},
    {"timestamp": 5},
    {"timestamp": "x" * 65},
    {"more": 1},
]
BODIES = [b"", b"[]", b"null", b"{", b"\xff", b'"x"', b"[" * 100_000, b"9" * 5000]


def test_a_bad_parameter_is_named(site: Site) -> None:
    """The caller learns which one, and never meets a failure of ours."""
    for query, code in PARAMETERS:
        assert error_of(site.get(MESSAGES, **query)) == (400, code, next(iter(query))), query


def test_a_group_that_is_not_there(site: Site) -> None:
    """Whatever it is called, there is no such conversation."""
    body = {"id": "1", "sender": "ann", "text": "hello"}
    for name in GROUPS:
        path = f"/api/chat/{name}/messages"
        for response in (site.get(path), site.get(path, last=5), site.ask("POST", path, json=body)):
            assert error_of(response)[:2] == (404, "GROUP_NOT_FOUND"), name


def test_a_bad_message_is_named_by_its_field(site: Site) -> None:
    """Nothing of it is kept."""
    for change in FIELDS:
        response = site.say(**{"text": "hello", "id": "1", **change})
        assert error_of(response) == (400, "INVALID_ARGUMENT", next(iter(change))), change
    assert site.get(MESSAGES).json()["items"] == []


def test_what_is_no_message_is_refused(site: Site) -> None:
    """However broken it is."""
    for body in BODIES:
        response = site.ask("POST", MESSAGES, content=body, headers=JSON)
        assert error_of(response)[0] == 400, body[:50]


def test_a_body_that_is_too_large_stays_outside(site: Site) -> None:
    """The guard reads a bounded number of bytes."""
    response = site.say("x" * 9 * 1024 * 1024)
    assert error_of(response)[:2] == (413, "TOO_LARGE")
