"""Waiting for news of a conversation over HTTP: what ends it, and what it does not hold up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import httpx
import pytest

from onceward.dispatch.conversation_long_poll import ChatNotifier
from onceward.dispatch.inbox import Inbox
from onceward.dispatch.models import Group, NewMessage
from tests.support.blocked_call import asked_meanwhile, run_within, sit_on
from tests.support.chat_http_client import MESSAGES, SOON, Site, site
from tests.support.console_requests import error_of

__all__ = ["site"]


T = TypeVar("T")


def run(work: Callable[[], Awaitable[T]]) -> T:
    return run_within(120, work)


def wait_for(client: httpx.AsyncClient, **query: Any) -> Awaitable[httpx.Response]:
    return client.get(MESSAGES, params={"wait": 30, **query})


async def until_waiting(site: Site, count: int = 1) -> None:
    while len(site.notifier._waiters) < count:  # noqa: ASYNC110 - nothing rings for who begins to listen
        await asyncio.sleep(0.001)


def test_a_message_to_this_server_ends_the_wait(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change of this process wakes requests without a poll."""
    monkeypatch.setattr(ChatNotifier, "_poll", lambda *_: None)

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
    """Messages and states that another process wrote are found by polling."""
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
        Inbox(site.ow.store).receive(message)

    paused = run(lambda: work(pause, state=page["state"]["tag"]))
    assert (paused["items"], paused["state"]["isPaused"]) == ([], True)
    reported = run(lambda: work(tell))
    assert [each["text"] for each in reported["items"]] == ["second"]


def test_a_change_in_another_group_wakes_no_waiter(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that waits for one conversation is not woken by another."""
    monkeypatch.setattr(ChatNotifier, "_poll", lambda *_: None)
    site.dispatcher.groups.add(Group(name="other", channel="chat", command=("true",)))

    async def work() -> None:
        with site.notifier.subscribe("team") as ours, site.notifier.subscribe("other") as theirs:
            site.notifier.notify("other")
            await asyncio.wait_for(theirs.wait(SOON), SOON / 2)
            assert not ours._notified.is_set()

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
    sat = sit_on(monkeypatch, site.chats, slow)

    async def work() -> int:
        async with site.client() as client:

            async def ask(method: str) -> httpx.Response:
                body = {"id": "1", "sender": "ann", "text": "hello"} if method == "POST" else None
                return await client.request(method, MESSAGES, json=body)

            slowly, quickly = partial(ask, slow_method), partial(ask, quick_method)
            return await asked_meanwhile(
                sat, slow=slowly, quick=quickly, soon_seconds=SOON, times=20
            )

    assert run(work) in (200, 201)


def test_a_stopping_server_answers_waiting_clients(site: Site) -> None:
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
    assert not site.notifier._waiters


def test_a_group_that_is_removed_ends_the_wait(site: Site) -> None:
    """The waiting request gets an error that says that the group is gone."""

    async def work() -> httpx.Response:
        async with site.client() as client, asyncio.TaskGroup() as group:
            poll = group.create_task(asyncio.wait_for(wait_for(client), 60))
            await until_waiting(site)
            await asyncio.to_thread(site.dispatcher.groups.remove, "team")
            async with asyncio.timeout(SOON):
                return await poll

    assert error_of(run(work))[:2] == (404, "GROUP_NOT_FOUND")
