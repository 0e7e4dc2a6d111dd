"""Conversations over HTTP: real servers and agents, killed and started again where they were."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from onceward.client import open as open_handle
from onceward.dispatch.inbox import Inbox
from onceward.dispatch.models import NewMessage
from tests.support.chat_servers import ChatServer
from tests.support.waiting import until

#: How soon what another process wrote is sent: before the end of the longest wait, which would send
#: it anyway. The rest is for a busy machine.
WAIT_SECONDS, NOTICED_SECONDS = 60, 50.0
#: Asked of a machine that has nothing else to do, which is where proofs run.
STOP_SECONDS = 2.5
TRIES_MAX = 10
#: What a stop took that came before the request which should wait: it does not count.
NOT_ARRIVED = float("inf")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatServer]:
    """A server for those who do it no harm."""
    server = ChatServer(tmp_path_factory.mktemp("chat"))
    for name in ("once", "edit", "two", "state", "other"):
        server.add_group(name)
    server.add_group("wait", prefix="@bot")
    with server:
        yield server


@pytest.fixture
def mortal(tmp_path: Path, ow_url: str) -> Iterator[ChatServer]:
    """A server of one's own, to be killed; on each engine."""
    server = ChatServer(tmp_path, store=ow_url)
    server.add_group("team")
    with server:
        yield server


def test_a_message_is_answered_and_a_repeat_is_the_same(shared: ChatServer) -> None:
    """However often it is sent, a message is there once, and answered once."""
    first = shared.say("once", "hello")
    assert (first.status_code, first.json()["fate"]) == (201, "new")
    again = [shared.say("once", "hello") for _ in range(3)]
    assert {(each.status_code, each.json()["fate"]) for each in again} == {(200, "known")}
    assert {each.json()["seq"] for each in again} == {first.json()["seq"]}
    shared.until_heard("once", "> You said: hello")
    shared.say("once", "bye")
    assert shared.until_heard("once", "> You said: bye") == [
        *("hello", "> You said: hello"),
        *("bye", "> You said: bye"),
    ]


def test_one_that_was_edited_says_so(shared: ChatServer) -> None:
    """The same id with another text is an edit: it comes again after the cursor, changed."""
    seq = shared.say("edit", "@first", id="m1").json()["seq"]
    shared.until_heard("edit", "> You said: @first")
    cursor = shared.page("edit")["nextCursor"]
    edited = shared.say("edit", "second", id="m1")
    assert (edited.status_code, edited.json()["fate"]) == (200, "edited")
    (item,) = shared.page("edit", since=cursor)["items"]
    assert (item["id"], item["text"], item["seq"]) == ("m1", "second", seq)
    assert item["editedAt"]


def test_who_waits_gets_the_answer_each(shared: ChatServer) -> None:
    """Two readers that wait at the same place get the same, and see it once."""
    cursor = shared.page("two")["nextCursor"]
    with ThreadPoolExecutor() as pool:
        asked = {"since": cursor, "wait": WAIT_SECONDS}
        waiting = [pool.submit(shared.page, "two", **asked) for _ in range(2)]
        time.sleep(0.3)
        shared.say("two", "ping")
        pages = [each.result() for each in waiting]
    for page in pages:
        heard = [each["text"] for each in page["items"]]
        if heard == ["ping"]:  # Else it arrived when there was an answer already.
            rest = shared.page("two", since=page["nextCursor"], wait=WAIT_SECONDS)
            heard += [each["text"] for each in rest["items"]]
        assert heard == ["ping", "You said: ping"]


def test_another_state_ends_a_wait_that_asks_for_it(shared: ChatServer) -> None:
    """A client that sends the tag of a state gets the next; others wait for messages."""
    shared.say("state", "fail")
    tag = ""
    states: list[dict[str, Any]] = []
    while not (states and states[-1]["retryAt"]):
        assert len(states) < 100, states
        cursor = shared.page("state")["nextCursor"]
        states.append(shared.page("state", since=cursor, state=tag, wait=30)["state"])
        tag = states[-1]["tag"]
    assert "RuntimeError: fail" in states[-1]["lastError"]
    cursor = shared.page("wait")["nextCursor"]
    assert shared.page("wait", since=cursor, wait=0.5)["items"] == []


def test_a_message_that_another_process_kept_is_noticed(shared: ChatServer) -> None:
    """Whichever process writes to the store, the waiting reader gets it soon."""
    shared.say("wait", "before")
    cursor = shared.page("wait")["nextCursor"]
    with open_handle(shared.store) as ow, ThreadPoolExecutor() as pool:
        waiting = pool.submit(shared.page, "wait", since=cursor, wait=WAIT_SECONDS)
        time.sleep(0.5)
        message = NewMessage(group="wait", id="other", sender="cron", text="from elsewhere")
        Inbox(ow.store).receive(message)
        page = waiting.result(NOTICED_SECONDS)
    assert [each["text"] for each in page["items"]] == ["from elsewhere"]


def test_the_end_of_a_conversation_comes_first(shared: ChatServer) -> None:
    """`last` gives the end, and `before` walks back page by page without a gap."""
    for number in range(7):
        shared.say("wait", f"w{number}")
    page = shared.page("wait", last=3)
    walked = [each["text"] for each in page["items"]]
    assert walked == ["w4", "w5", "w6"]
    while page["previousCursor"] is not None:
        page = shared.page("wait", last=3, before=page["previousCursor"])
        walked = [*(each["text"] for each in page["items"]), *walked]
    assert walked == shared.heard("wait")
    assert shared.page("wait", since=shared.page("wait", last=3)["nextCursor"])["items"] == []


def test_a_second_message_after_a_kill(mortal: ChatServer) -> None:
    """Killed while the agent is at work: both are answered once, by the next life."""
    place = mortal.places["team"]
    mortal.say("team", "hold")
    until((place / "holding").exists)
    mortal.say("team", "more")
    mortal.kill()
    (place / "go").write_text("")
    mortal.start()
    again = mortal.say("team", "more")
    assert (again.status_code, again.json()["fate"]) == (200, "known")
    heard = mortal.until_heard("team", "> You said: hold", "> You said: more")
    assert sorted(heard) == ["> You said: hold", "> You said: more", "hold", "more"]


def test_what_was_said_before_a_kill_is_not_said_again(mortal: ChatServer) -> None:
    """Killed after the agent has begun to answer: that stays, and only what follows is answered."""
    place = mortal.places["team"]
    mortal.say("team", "say and hold")
    mortal.until_heard("team", "> At once: say and hold")
    until((place / "holding").exists)
    mortal.kill()
    (place / "go").write_text("")
    mortal.start()
    # It answers before it has looked after what the dead one left.
    failure = until(lambda: mortal.page("team")["state"]["lastFailure"])
    assert failure["state"] == "kept"
    mortal.say("team", "next")
    heard = mortal.until_heard("team", "> You said: next")
    assert heard == ["say and hold", "> At once: say and hold", "next", "> You said: next"]


def test_a_stop_is_quick_and_loses_nothing(mortal: ChatServer, prove: bool) -> None:
    """With an agent at work and a reader that waits, the server is gone within two seconds."""
    place = mortal.places["team"]
    mortal.say("team", "hold")

    def stop() -> float:
        until((place / "holding").exists)
        cursor = mortal.page("team")["nextCursor"]
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(mortal.page, "team", since=cursor, wait=60)
            time.sleep(0.3)
            began = time.monotonic()
            code, out, err = mortal.stop()
            took = time.monotonic() - began
            try:
                assert waiting.result()["items"] == []
            except httpx.TransportError:
                took = NOT_ARRIVED
        assert (code, out) == (0, "")
        assert err.endswith("stopped\n")
        assert "Traceback" not in err
        (place / "holding").unlink()
        return took

    assert_quick(mortal, stop, prove=prove)
    (place / "go").write_text("")
    mortal.start()
    assert mortal.until_heard("team", "> You said: hold") == ["hold", "> You said: hold"]


def assert_quick(server: ChatServer, stop: Callable[[], float], *, prove: bool) -> None:
    """Stop it; in a proof in time, and where the machine stood still for a moment, once more."""
    most = STOP_SECONDS if prove else NOT_ARRIVED
    took: list[float] = []
    while not took or (took[-1] >= most and len(took) < TRIES_MAX):
        if took:
            server.start()
        took.append(stop())
    assert took[-1] < most, took


def test_a_second_server_serves_alike_and_takes_over(mortal: ChatServer, tmp_path: Path) -> None:
    """One runs the agents of a store; the other takes messages too, and runs them after that."""
    second = ChatServer(tmp_path, store=mortal.store)
    with second:
        assert mortal.get("/api/dispatch/status").json()["isHeld"]
        assert not second.get("/api/dispatch/status").json()["isHeld"]
        second.say("team", "to the second")
        mortal.until_heard("team", "> You said: to the second")
        mortal.kill()
        second.say("team", "still there?")
        heard = second.until_heard("team", "> You said: still there?")
        assert len(heard) == 4
        assert second.get("/api/dispatch/status").json()["isHeld"]


def test_other_machines_bring_the_token(tmp_path: Path) -> None:
    """Where others can ask, nothing is read without the token, and the config does not tell it."""
    server = ChatServer(tmp_path, "--allow-external")
    server.add_group("team")
    with server:
        token = server.terminal_token()
        headers = {"authorization": f"Bearer {token}"}
        assert server.get("/api/chat/config", headers=headers).json()["token"] is None
        assert server.say("team", "hello").status_code == 401
        server.token = token
        assert server.say("team", "hello").status_code == 201
        for path in ("/chat", "/api/chat/config", "/api/chat/team/messages"):
            assert server.get(path).status_code == 401


def test_up_has_conversations_too(tmp_path: Path, prove: bool) -> None:
    """It runs the agents of its store beside the Lab, and stops as quickly as ever."""
    server = ChatServer(tmp_path, words="up")
    server.add_group("team")
    with server:
        for page in ("/", "/chat", "/lab"):
            assert server.get(page).status_code == 200, page
        server.say("team", "hello")
        assert server.until_heard("team", "> You said: hello") == ["hello", "> You said: hello"]

        def stop() -> float:
            began = time.monotonic()
            assert server.stop() == (0, "", "stopped\n")
            return time.monotonic() - began

        assert_quick(server, stop, prove=prove)


def test_up_leaves_the_agents_to_their_dispatcher(mortal: ChatServer, tmp_path: Path) -> None:
    """Beside a dispatcher it serves the same conversations, and starts nothing twice."""
    beside = ChatServer(tmp_path, store=mortal.store, words="up")
    with beside:
        beside.say("team", "hello")
        assert beside.until_heard("team", "> You said: hello") == ["hello", "> You said: hello"]
        assert mortal.get("/api/dispatch/status").json()["isHeld"]
        assert not beside.get("/api/dispatch/status").json()["isHeld"]


def test_a_dead_store_is_a_clean_answer(tmp_path: Path) -> None:
    """While the store is away, requests get an error that says to retry; the pages are there."""
    silent = "postgresql://postgres@127.0.0.1:1/nowhere"
    with ChatServer(tmp_path, store=silent, words="up") as away:
        assert away.get("/chat/team").status_code == 200
        error = away.config["error"]
        assert (error["code"], bool(error["context"]["fix"])) == ("UNAVAILABLE", True)
