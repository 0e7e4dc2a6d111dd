"""The routes of conversations on both engines: what they take, refuse and answer, and who waits."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio.to_thread
import httpx
import pytest

from onceward.console.app import build_app
from onceward.dispatch import schemas
from onceward.dispatch.arrivals import Arrivals
from onceward.dispatch.chats import Chats
from onceward.dispatch.dispatcher import Dispatcher
from onceward.dispatch.models import TEXT_BYTES_MAX, DeliveryState, Group, NewMessage
from onceward.dispatch.waiting import ChatBell
from onceward.gate import Gate, GateSettings
from onceward.handle import Onceward

T = TypeVar("T")
PORT = 3939
TOKEN = "tok_1"
#: What should come at once comes within this, also on a busy machine.
SOON = 10.0
HOSTILE = "<script>alert(1)</script> %s _ & \0 \u202e 👩‍👩‍👧 \\ ' \" \n end"


class Site:
    """Conversations behind their gate, with a dispatcher that was not started."""

    def __init__(self, ow: Onceward, directory: Path) -> None:
        self.ow = ow
        self.dispatcher = Dispatcher(ow, home=directory)
        self.dispatcher.groups.add(Group(name="team", channel="chat", command=("true",)))
        self.chats = Chats(ow, self.dispatcher, token=TOKEN)
        self.app = build_app(dispatch=self.chats)
        self.gate = Gate(self.app, settings=GateSettings(port=PORT, token=TOKEN))

    @property
    def bell(self) -> ChatBell:
        bell = self.app.state.chat_bell
        assert isinstance(bell, ChatBell)
        return bell

    def client(self) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self.gate, raise_app_exceptions=True)
        base = f"http://127.0.0.1:{PORT}"
        headers = {"x-cm-lab-token": TOKEN}
        return httpx.AsyncClient(transport=transport, base_url=base, headers=headers)

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            async with self.client() as client:
                return await client.request(method, path, **options)

        return asyncio.run(send())

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self.ask("GET", path, params=query)

    def say(self, text: str, group: str = "team", **fields: Any) -> httpx.Response:
        body = {"id": text[:50], "sender": "ann", "text": text, **fields}
        return self.ask(
            "POST", f"/api/chat/{group}/messages", content=json.dumps(body), headers=JSON
        )

    def answered(self, *replies: str, fails: str = "") -> None:
        """Do what a dispatcher does with an agent that says this."""
        self.dispatcher.arrivals.see()
        group = self.dispatcher.groups.show("team")
        delivery = self.dispatcher.deliveries.begin(group)
        assert delivery is not None
        for number, reply in enumerate(replies):
            key = f"{delivery.id}/{number}"
            self.dispatcher.outbox.say(delivery, reply, key=key, is_stored=True)
        if fails:
            self.dispatcher.deliveries.failed(delivery, fails)
        else:
            self.dispatcher.deliveries.done(delivery, delivery.batch.position)


JSON = {"content-type": "application/json"}
MESSAGES = "/api/chat/team/messages"


@pytest.fixture
def site(ow: Onceward, tmp_path: Path) -> Site:
    return Site(ow, tmp_path)


def body_of(response: httpx.Response, model: type[schemas._Answer]) -> Any:
    """Return the body of a success, having held it against what the document says of it."""
    assert response.status_code in (200, 201), response.text
    model.model_validate_json(response.content)
    return response.json()


def error_of(response: httpx.Response) -> tuple[int, str, str | None]:
    """Return status, code and field, having checked the shape."""
    error = response.json()["error"]
    assert list(error) == ["code", "message", "context"]
    assert error["context"]["fix"]
    return response.status_code, error["code"], error["context"].get("field")


# --- what is said ---------------------------------------------------------------------------------


def test_a_conversation_has_messages_and_replies_in_order(site: Site) -> None:
    """Both have their place in one row of numbers, and one cursor reads them."""
    site.say("hello", timestamp="2026-01-01T00:00:00Z")
    site.answered("hi", "what is it?")
    site.say("nothing")
    page = body_of(site.get(MESSAGES), schemas.Conversation)
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
    rest = body_of(site.get(MESSAGES, since="3"), schemas.Conversation)
    assert [each["text"] for each in rest["items"]] == ["nothing"]
    two = body_of(site.get(MESSAGES, limit=2), schemas.Conversation)
    assert (len(two["items"]), two["nextCursor"]) == (2, "2")


def test_h45_a_text_arrives_unchanged(site: Site) -> None:
    """Whatever a person writes, it comes back letter by letter."""
    body_of(site.say(HOSTILE, id="x"), schemas.Kept)
    (item,) = site.get(MESSAGES).json()["items"]
    assert item["text"] == HOSTILE


def test_the_state_says_what_goes_on(site: Site) -> None:
    """Waiting, at work, failed and tried again, given up after an answer, paused."""

    def state() -> dict[str, Any]:
        found: dict[str, Any] = body_of(site.get(MESSAGES), schemas.Conversation)["state"]
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
    board = body_of(site.get("/api/dispatch/status"), schemas.Status)
    other, team = board["items"]
    assert (other["name"], other["inFlight"]) == ("other", None)
    assert (team["inFlight"]["attempt"], team["processed"], team["pending"]) == (1, 1, 0)
    assert (board["isHeld"], board["arrived"], board["read"]) == (False, 1, 1)
    ending = site.dispatcher.deliveries.failed(delivery, "bad", is_final=True)
    assert ending.state is DeliveryState.DEAD
    assert body_of(site.get("/api/dispatch/status"), schemas.Status)["items"][1]["dead"] == 1
    state = site.get(MESSAGES).json()["state"]
    assert state["lastFailure"] == {"state": "dead", "error": "bad"}


def test_the_config_and_the_list_name_the_groups(site: Site) -> None:
    """A page learns the token and which conversations there are."""
    item = {"name": "team", "trigger": "always", "word": "", "isPaused": False}
    config = body_of(site.get("/api/chat/config"), schemas.ChatConfig)
    assert config == {"token": TOKEN, "version": site.app.version, "groups": [item]}
    assert body_of(site.get("/api/chat/groups"), schemas.GroupList) == {"items": [item]}


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
            assert error_of(response)[:2] == (404, "NOT_FOUND"), name


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
    """The gate does not read without an end."""
    response = site.say("x" * 9 * 1024 * 1024)
    assert error_of(response)[:2] == (413, "TOO_LARGE")


# --- waiting --------------------------------------------------------------------------------------


def run(work: Callable[[], Awaitable[T]]) -> T:
    async def within() -> T:
        async with asyncio.timeout(60):
            return await work()

    return asyncio.run(within())


def wait_for(client: httpx.AsyncClient, **query: Any) -> Awaitable[httpx.Response]:
    return client.get(MESSAGES, params={"wait": 30, **query})


async def until_waiting(site: Site, count: int = 1) -> None:
    while len(site.bell._listeners) < count:  # noqa: ASYNC110 - nothing rings for who begins to listen
        await asyncio.sleep(0.001)


def test_a_message_to_this_server_ends_the_wait(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bell rings without anybody looking for it."""
    monkeypatch.setattr(ChatBell, "_watch", lambda *_: None)

    async def work() -> httpx.Response:
        async with site.client() as client, asyncio.TaskGroup() as group:
            poll = group.create_task(asyncio.wait_for(wait_for(client), 60))
            await until_waiting(site)
            body = {"id": "1", "sender": "ann", "text": "hello"}
            await client.post(MESSAGES, json=body)
            async with asyncio.timeout(SOON):
                return await poll

    assert [each["text"] for each in run(work).json()["items"]] == ["hello"]


def test_what_others_do_ends_the_wait(site: Site) -> None:
    """A message and another state that this process was not told of are looked for."""
    site.say("first")
    page = site.get(MESSAGES).json()

    async def work(act: Callable[[], object], **query: Any) -> dict[str, Any]:
        async with site.client() as client, asyncio.TaskGroup() as group:
            poll = group.create_task(
                asyncio.wait_for(wait_for(client, since=page["nextCursor"], **query), 60)
            )
            await until_waiting(site)
            await asyncio.to_thread(act)
            async with asyncio.timeout(SOON):
                found: dict[str, Any] = (await poll).json()
            return found

    def pause() -> None:
        site.dispatcher.groups.set("team", is_paused=True)

    def tell() -> None:
        message = NewMessage(group="team", id="2", sender="cron", text="second")
        Arrivals(site.ow.store).receive(message)

    paused = run(lambda: work(pause, state=page["state"]["tag"]))
    assert (paused["items"], paused["state"]["isPaused"]) == ([], True)
    told = run(lambda: work(tell))
    assert [each["text"] for each in told["items"]] == ["second"]


def test_news_of_another_group_wake_nobody(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for one conversation is not asked to look because of another."""
    monkeypatch.setattr(ChatBell, "_watch", lambda *_: None)
    site.dispatcher.groups.add(Group(name="other", channel="chat", command=("true",)))

    async def work() -> None:
        with site.bell.listening("team") as ours, site.bell.listening("other") as theirs:
            site.bell.ring("other")
            await asyncio.wait_for(theirs.wait(SOON), SOON / 2)
            assert not ours._rung.is_set()

    run(work)


def test_many_who_wait_do_not_hold_up_a_message(site: Site) -> None:
    """A hundred wait, one message gets through, and all hundred get it."""

    async def work() -> list[httpx.Response]:
        async with site.client() as client, asyncio.TaskGroup() as group:
            polls = [group.create_task(asyncio.wait_for(wait_for(client), 60)) for _ in range(100)]
            await until_waiting(site, 100)
            body = {"id": "1", "sender": "ann", "text": "hello"}
            async with asyncio.timeout(SOON):
                assert (await client.post(MESSAGES, json=body)).status_code == 201
                return list(await asyncio.gather(*polls))

    answers = {tuple(each["text"] for each in one.json()["items"]) for one in run(work)}
    assert answers == {("hello",)}


@pytest.mark.parametrize(
    ("slow", "slow_method", "quick_method"),
    [("page", "GET", "POST"), ("receive", "POST", "GET")],
)
def test_readers_and_messages_have_threads_of_their_own(
    site: Site, monkeypatch: pytest.MonkeyPatch, slow: str, slow_method: str, quick_method: str
) -> None:
    """What sits on a slow store holds up only its own kind."""
    begun, done = threading.Event(), threading.Event()
    works = getattr(site.chats, slow)

    def sit(*arguments: Any, **named: Any) -> object:
        begun.set()
        assert done.wait(30)
        return works(*arguments, **named)

    monkeypatch.setattr(site.chats, slow, sit)

    async def work() -> int:
        anyio.to_thread.current_default_thread_limiter().total_tokens = 1
        async with site.client() as client, asyncio.TaskGroup() as group:

            async def ask(method: str) -> httpx.Response:
                body = {"id": "1", "sender": "ann", "text": "hello"} if method == "POST" else None
                return await client.request(method, MESSAGES, json=body)

            for _ in range(20):
                group.create_task(ask(slow_method))
            await asyncio.to_thread(begun.wait)
            try:
                async with asyncio.timeout(SOON):
                    return (await ask(quick_method)).status_code
            finally:
                done.set()

    assert run(work) in (200, 201)


def test_a_server_that_stops_answers_who_waits(site: Site) -> None:
    """They get what there is, at once, and those who come later do not wait."""

    async def work() -> list[httpx.Response]:
        async with site.client() as client, asyncio.TaskGroup() as group:
            poll = group.create_task(asyncio.wait_for(wait_for(client), 60))
            await until_waiting(site)
            await asyncio.to_thread(site.app.state.stop_waiting)
            async with asyncio.timeout(SOON):
                return [await poll, await wait_for(client)]

    for response in run(work):
        assert response.json()["items"] == []
    assert not site.bell._listeners


def test_a_group_that_is_removed_ends_the_wait(site: Site) -> None:
    """Who waits for it is told that it is gone."""

    async def work() -> httpx.Response:
        async with site.client() as client, asyncio.TaskGroup() as group:
            poll = group.create_task(asyncio.wait_for(wait_for(client), 60))
            await until_waiting(site)
            await asyncio.to_thread(site.dispatcher.groups.remove, "team")
            async with asyncio.timeout(SOON):
                return await poll

    assert error_of(run(work))[:2] == (404, "NOT_FOUND")
