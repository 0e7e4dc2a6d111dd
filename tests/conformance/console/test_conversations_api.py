"""The console's conversations on both engines: one group, what was given up, and deciding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.console import conversation_views, conversations_http
from onceward.console.actions import ActionExecutor
from onceward.console.conversations_http import conversations_router
from onceward.dispatch.conversations import Chats
from onceward.dispatch.dispatcher import Dispatcher
from onceward.dispatch.models import LEASE, Delivery, DeliveryState, Group, NewMessage
from tests.support.console_over_store import context_of
from tests.support.console_requests import Asking, error_of

HOSTILE = "<script>alert(1)</script> % _ ' \\ \u202e 👩‍👩‍👧"


class Site(Asking):
    """The routes of conversations, with a dispatcher that was not started."""

    def __init__(self, ow: Onceward, directory: Path, *, is_read_only: bool = False) -> None:
        self.ow = ow
        self.dispatcher = Dispatcher(ow, home=directory)
        self.dispatcher.groups.add(Group(name="team", channel="chat", command=("true",)))
        chats = Chats(ow, self.dispatcher)
        context = context_of(ow, chats=chats, is_read_only=is_read_only)
        super().__init__(conversations_router(context, ActionExecutor(context)))

    def say(self, *texts: str, group: str = "team") -> None:
        for text in texts:
            message = NewMessage(group=group, id=text[:50], sender="bob", text=text)
            self.dispatcher.arrivals.receive(message)

    def begin(self, group: str = "team") -> Delivery:
        self.dispatcher.arrivals.see()
        delivery = self.dispatcher.deliveries.begin(self.dispatcher.groups.show(group))
        assert delivery is not None
        return delivery

    def answer(self, *replies: str, is_stored: bool = True) -> None:
        delivery = self.begin()
        for number, reply in enumerate(replies):
            key = f"{delivery.id}/{number}"
            self.dispatcher.outbox.add(delivery, reply, key=key, is_stored=is_stored)
        self.dispatcher.deliveries.done(delivery, delivery.batch.position)

    def give_up(self, *texts: str, error: str = "no idea", group: str = "team") -> int:
        """Let an agent fail for good at these; return the number of the letter."""
        self.say(*texts, group=group)
        ending = self.dispatcher.deliveries.failed(self.begin(group), error, is_final=True)
        assert ending.state is DeliveryState.DEAD
        return self.ow.dead.list(group=group)[0].id

    def group(self, name: str = "team") -> Any:
        return self.body("/api/dispatch/group", name=name)


@pytest.fixture
def site(ow: Onceward, tmp_path: Path) -> Site:
    return Site(ow, tmp_path)


# --- one group ------------------------------------------------------------------------------------


def test_a_group_shows_where_it_stands(site: Site) -> None:
    """How far messages came, were read and processed; what is in flight, and who runs agents."""
    found = site.group()
    assert (found["name"], found["command"], found["trigger"]) == ("team", ["true"], "always")
    assert (found["deliveries"], found["outbox"], found["dead"]) == ([], [], 0)
    assert (found["holder"], found["is_held"]) == (None, False)
    held = site.ow.cursors.acquire(LEASE, "host:1")
    assert (site.group()["holder"], site.group()["is_held"]) == ("host:1", True)
    assert held is not None
    site.say("one", "two")
    site.answer("hello")
    site.say("three")
    delivery = site.begin()
    found = site.group()
    assert (found["arrived"], found["read"], found["processed"]) == (4, 4, 4)
    assert (found["in_flight"]["id"], found["in_flight"]["agent"]) == (delivery.id, None)
    site.dispatcher.deliveries.started(delivery, '{"pid": 7}')
    assert site.group()["in_flight"]["agent"] == {"pid": 7}
    assert [each["state"] for each in found["deliveries"]] == ["running", "done"]
    assert [(each["first_seq"], each["last_seq"]) for each in found["deliveries"]] == [
        (4, 4),
        (1, 2),
    ]
    assert (found["pending"], found["is_paused"], found["version"]) == (0, False, "open")


def test_a_group_shows_positions_of_its_own(site: Site) -> None:
    """Messages of other groups, and replies, move neither what arrived nor what was read."""
    site.dispatcher.groups.add(Group(name="other", channel="chat", command=("true",)))
    site.say("one", "two")
    site.answer("hello")
    site.say("three", "four", group="other")
    site.dispatcher.arrivals.see()
    team, other = site.group(), site.group("other")
    assert (team["arrived"], team["read"], team["processed"]) == (2, 2, 2)
    assert (other["arrived"], other["read"], other["processed"]) == (5, 5, 0)
    site.say("five")
    assert (site.group()["arrived"], site.group()["read"]) == (6, 2)
    assert site.group("other")["arrived"] == 5


def test_the_outbox_shows_how_far_each_reply_has_come(site: Site) -> None:
    """The newest first, cut where they are long, and what is not sent yet says so."""
    long = "ä" * 5_000
    site.say("one")
    site.answer(HOSTILE, long)
    site.say("two")
    site.answer("soon", is_stored=False)
    pending, cut, sent = site.group()["outbox"]
    assert (pending["state"], pending["text"], pending["sent_at"]) == ("pending", "soon", None)
    assert (sent["state"], sent["text"], sent["is_cut"]) == ("sent", HOSTILE, False)
    assert cut["is_cut"]
    assert long.startswith(cut["text"])
    assert sent["sent_at"]
    assert {"id", "key", "attempts", "error", "created_at", "retry_at", "seq"} <= set(sent)


def test_a_group_shows_at_most_so_much(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it has been talked in."""
    monkeypatch.setattr(conversations_http, "DELIVERIES_MAX", 3)
    monkeypatch.setattr(conversation_views, "REPLIES_MAX", 2)
    for number in range(5):
        site.say(f"message {number}")
        site.answer(f"reply {number}")
    found = site.group()
    assert (len(found["deliveries"]), len(found["outbox"])) == (3, 2)
    assert found["outbox"][0]["text"] == "reply 4"


NAMES = ["nope", "", "te\0am", "x" * 400, "' or 1=1 --", "\N{GRINNING FACE}"]


def test_a_group_that_is_not_there(site: Site) -> None:
    """Whatever it is called, and whatever is to be done with it."""
    for name in NAMES:
        assert error_of(site.get("/api/dispatch/group", name=name))[:2] == (404, "GROUP_NOT_FOUND")
        for verb in ("pause", "resume"):
            assert error_of(site.act(f"/api/dispatch/{verb}", group=name))[0] == 404, name
        for dry_run in (True, False):
            response = site.act("/api/dispatch/replay", group=name, since=1, dry_run=dry_run)
            assert error_of(response)[0] == 404


# --- pausing and replaying ------------------------------------------------------------------------


def test_a_group_is_paused_and_resumed(site: Site) -> None:
    """The change names the version it is based on; the dispatcher is notified."""
    changed = site.done("/api/dispatch/pause", group="team", reason="agent is ill", seen="open")
    assert (changed["group"]["is_paused"], changed["group"]["version"]) == (True, "paused")
    assert site.dispatcher.groups.nudged() == ["team"]
    assert error_of(site.act("/api/dispatch/pause", group="team", seen="open"))[0] == 409
    assert site.done("/api/dispatch/pause", group="team")["group"]["is_paused"]
    changed = site.done("/api/dispatch/resume", group="team", seen="paused")
    assert not changed["group"]["is_paused"]
    assert not site.group()["is_paused"]


def test_a_replay_is_thought_through_and_then_done(site: Site) -> None:
    """How many messages are handed out again, and which; the history says who wanted it."""
    site.say("one", "two", "three")
    site.answer()
    thought = site.done("/api/dispatch/replay", None, group="team", since=2, dry_run=True)
    assert (thought["messages"], thought["from_position"], thought["to_position"]) == (2, 3, 1)
    assert (thought["is_called"], thought["version"]) == (True, "3")
    assert [each["text"] for each in thought["sample"]] == ["two", "three"]
    assert site.group()["processed"] == 3
    body = {"group": "team", "since": 2, "reason": "say it again", "seen": thought["version"]}
    done = site.done("/api/dispatch/replay", "k", **body)
    assert (done["messages"], done["dry_run"]) == (2, False)
    assert site.act("/api/dispatch/replay", "k", **body).headers["idempotent-replayed"] == "true"
    found = site.group()
    assert (found["processed"], found["pending"]) == (1, 2)
    move = found["history"][0]
    assert (move["from"], move["to"], move["actor"], move["reason"]) == (
        3,
        1,
        "ann",
        "say it again",
    )
    assert error_of(site.act("/api/dispatch/replay", **body))[:2] == (409, "CONFLICT")


def test_a_replay_waits_for_the_agent(site: Site) -> None:
    """While it works nothing is moved; a number that was not processed repeats nothing."""
    site.say("one", "two")
    site.answer()
    for since in (3, 10**15):
        for dry_run in (True, False):
            body = {"group": "team", "since": since, "dry_run": dry_run}
            response = site.act("/api/dispatch/replay", **body)
            assert error_of(response) == (400, "INVALID_ARGUMENT", "since")
    site.say("three")
    site.begin()
    assert error_of(site.act("/api/dispatch/replay", group="team", since=1))[:2] == (
        409,
        "CONFLICT",
    )
    assert site.group()["processed"] == 3


# --- what is refused ------------------------------------------------------------------------------


def test_a_console_that_only_shows_changes_nothing(ow: Onceward, tmp_path: Path) -> None:
    """It may still think things through."""
    site = Site(ow, tmp_path, is_read_only=True)
    site.give_up("one")
    for path, body in (
        ("pause", {"group": "team"}),
        ("replay", {"group": "team", "since": 1}),
    ):
        assert error_of(site.act(f"/api/dispatch/{path}", **body))[:2] == (403, "FORBIDDEN")
    assert site.done("/api/dispatch/replay", None, group="team", since=1, dry_run=True)
    assert (site.group()["dead"], site.group()["is_paused"]) == (1, False)


BODIES: list[tuple[str, dict[str, Any]]] = [
    ("pause", {}),
    ("pause", {"group": "team", "more": 1}),
    ("pause", {"group": "team", "reason": "x" * 1001}),
    ("pause", {"group": "x" * 401}),
    ("pause", {"group": 5}),
    ("replay", {"group": "team", "since": 0}),
    ("replay", {"group": "team", "since": 10**30}),
    ("replay", {"group": "team"}),
]


def test_a_bad_request_is_refused(site: Site) -> None:
    """With a sentence, never with a failure."""
    for path, body in BODIES:
        assert error_of(site.act(f"/api/dispatch/{path}", **body))[0] == 400, (path, body)
    assert error_of(site.act("/api/dispatch/pause", None, group="team"))[0] == 400
