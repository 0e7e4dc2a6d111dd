"""Long poll for feedback: new entries arrive within milliseconds; waiting blocks no write."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from onceward.journal import Journal
from onceward.lab.feedback_long_poll import FeedbackNotifier
from tests.support.blocked_call import asked_meanwhile, run_within, sit_on
from tests.support.lab_http_client import Site, error_of
from tests.support.labs import paths_in
from tests.unit.lab.test_run_content import Content, call

T = TypeVar("T")
#: What should come at once comes within this, also on a busy machine.
SOON = 60.0


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def run(work: Callable[[], Awaitable[T]]) -> T:
    return run_within(120, work)


def polling_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "long-poll"]


def append(directory: Path, **fields: Any) -> None:
    """Append an entry as another tool would, knowing nothing of the Lab."""
    record = {"id": "fb_1", "createdAt": "now", **fields}
    Journal(paths_in(directory).feedback).append(record)


def begin(
    group: asyncio.TaskGroup, client: httpx.AsyncClient, **parameters: Any
) -> asyncio.Task[httpx.Response]:
    """Begin a poll that waits."""
    return group.create_task(client.get("/api/feedback", params={"wait": 30, **parameters}))


async def until_waiting(
    site: Site, count: int = 1, poll: asyncio.Task[httpx.Response] | None = None
) -> None:
    """Return when so many requests wait, or this poll waits no longer."""
    notifier = notifier_of(site)
    while len(notifier._waiters) < count and not (poll and poll.done()):  # noqa: ASYNC110 - nothing rings for who begins to listen
        await asyncio.sleep(0.001)


def notifier_of(site: Site) -> FeedbackNotifier:
    notifier = site.app.state.notifier
    assert isinstance(notifier, FeedbackNotifier)
    return notifier


def test_existing_entries_are_returned_without_waiting(site: Site, tmp_path: Path) -> None:
    """The request does not wait for a second entry, and nothing watches the file for that."""
    append(tmp_path)
    page = site.get("/api/feedback", params={"wait": 30}).json()
    assert [each["id"] for each in page["items"]] == ["fb_1"]
    assert polling_threads() == []


def test_another_tools_entry_ends_the_wait(site: Site, tmp_path: Path) -> None:
    """An entry of any process reaches the agent that waits."""

    async def work() -> None:
        async with site.client() as client, asyncio.TaskGroup() as group:
            poll = begin(group, client)
            await until_waiting(site)
            await asyncio.to_thread(append, tmp_path)
            response = await poll
            assert [each["id"] for each in response.json()["items"]] == ["fb_1"]

    run(work)


def test_a_submit_of_this_server_ends_the_wait(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of this process wakes requests without waiting for the file system."""
    monkeypatch.setattr(FeedbackNotifier, "_poll", lambda *_: None)

    async def work() -> None:
        async with site.client() as client, asyncio.TaskGroup() as group:
            poll = begin(group, client)
            await until_waiting(site)
            added = await client.post("/api/feedback", json={"notes": "good"})
            page = (await poll).json()
            assert [each["id"] for each in page["items"]] == [added.json()["feedbackId"]]

    run(work)


def test_a_wait_for_nothing_ends_at_the_furthest_cursor(site: Site, tmp_path: Path) -> None:
    """What was passed without a match is not read again by the next poll."""
    append(tmp_path, sessionId="other")

    async def work(wait: float) -> httpx.Response:
        async with site.client() as client, asyncio.TaskGroup() as group:
            poll = begin(group, client, wait=wait, sessionId="mine")
            await until_waiting(site, 1, poll)
            await asyncio.to_thread(append, tmp_path, sessionId="another")
            return await poll

    for wait in (0.3, 3.0, 30.0):  # On a busy machine a wait can be over before the append is.
        response = run(partial(work, wait))
        size = paths_in(tmp_path).feedback.stat().st_size
        if response.json()["nextCursor"] == str(size):
            break
    assert response.json() == {"items": [], "nextCursor": str(size)}
    again = {"x-cm-lab-cursor-tag": response.headers["x-cm-lab-cursor-tag"]}
    follow_up = site.get("/api/feedback", params={"since": str(size)}, headers=again)
    assert follow_up.status_code == 200


def test_only_a_match_ends_the_wait(site: Site, tmp_path: Path) -> None:
    """Entries of other sessions are passed while waiting, and the one that matches comes."""

    async def work() -> dict[str, Any]:
        async with site.client() as client, asyncio.TaskGroup() as group:
            poll = begin(group, client, sessionId="mine")
            await until_waiting(site)
            for number in range(20):
                await asyncio.to_thread(append, tmp_path, sessionId=f"other{number}")
            await asyncio.to_thread(append, tmp_path, id="fb_2", sessionId="mine")
            page: dict[str, Any] = (await poll).json()
            return page

    page = run(work)
    assert [each["id"] for each in page["items"]] == ["fb_2"]


def test_h10_a_file_replaced_during_the_wait_is_an_error(site: Site, tmp_path: Path) -> None:
    """A poll never goes on in the middle of another file."""
    append(tmp_path)
    file = paths_in(tmp_path).feedback
    since = str(file.stat().st_size)
    other = file.with_name("other")
    other.write_bytes(file.read_bytes().replace(b"fb_1", b"fb_9") * 2)

    async def work() -> httpx.Response:
        async with site.client() as client, asyncio.TaskGroup() as group:
            poll = begin(group, client, since=since)
            await until_waiting(site)
            other.replace(file)
            return await poll

    assert error_of(run(work))[:2] == (400, "INVALID_CURSOR")


def test_a_directory_that_does_not_exist_yet_can_be_waited_for(site: Site, tmp_path: Path) -> None:
    """The first entry ever arrives like any other."""
    assert not paths_in(tmp_path).feedback.parent.exists()

    async def work() -> httpx.Response:
        async with site.client() as client, asyncio.TaskGroup() as group:
            poll = begin(group, client)
            await until_waiting(site)
            await asyncio.to_thread(append, tmp_path)
            return await poll

    assert len(run(work).json()["items"]) == 1


def test_many_waiting_requests_do_not_delay_a_write(site: Site) -> None:
    """Two hundred polls wait, one submit gets through, and all two hundred get it."""

    async def work() -> list[httpx.Response]:
        async with site.client() as client, asyncio.TaskGroup() as group:
            asking = [client.get("/api/feedback", params={"wait": 30}) for _ in range(200)]
            polls = [group.create_task(each) for each in asking]
            await until_waiting(site, 200)
            async with asyncio.timeout(SOON):
                await client.post("/api/feedback", json={"notes": "good"})
                return list(await asyncio.gather(*polls))

    answers = {response.content for response in run(work)}
    assert len(answers) == 1
    assert len(json.loads(answers.pop())["items"]) == 1


@pytest.mark.parametrize(
    ("slow", "slow_method", "quick_method"),
    [("poll", "GET", "POST"), ("add_feedback", "POST", "GET")],
)
def test_polls_and_changes_have_threads_of_their_own(
    site: Site, monkeypatch: pytest.MonkeyPatch, slow: str, slow_method: str, quick_method: str
) -> None:
    """What sits on a slow disk, or waits for the root's lock, holds up only its own kind."""
    sat = sit_on(monkeypatch, site.lab, slow)

    async def work() -> int:
        async with site.client() as client:

            async def ask(method: str) -> httpx.Response:
                body = {"json": {"notes": "good"}} if method == "POST" else {}
                return await client.request(method, "/api/feedback", **body)  # type: ignore[arg-type]

            slowly, quickly = partial(ask, slow_method), partial(ask, quick_method)
            return await asked_meanwhile(sat, slow=slowly, quick=quickly, soon_seconds=SOON)

    assert run(work) == 200


def test_the_file_is_watched_only_while_a_request_waits(site: Site) -> None:
    """The thread ends with the last waiting request."""
    response = site.get("/api/feedback", params={"wait": 0.05})
    assert response.json() == {"items": [], "nextCursor": "0"}
    for thread in polling_threads():
        thread.join(SOON)
    assert polling_threads() == []


def test_a_client_that_hangs_up_frees_everything(tmp_path: Path) -> None:
    """No listener, no thread and no task is left."""
    content = Content(tmp_path)

    async def work() -> None:
        async with asyncio.timeout(SOON):
            leaving = asyncio.create_task(
                call(
                    content, "/api/feedback", query=b"wait=30", gone_at=until_waiting(content.site)
                )
            )
            await leaving
        assert len(asyncio.all_tasks()) == 1

    run(work)
    assert not notifier_of(content.site)._waiters
    for thread in polling_threads():
        thread.join(SOON)
    assert polling_threads() == []


def test_a_stopping_server_answers_waiting_requests(site: Site) -> None:
    """They get what there is, at once, and those who come later do not wait."""

    async def work() -> list[httpx.Response]:
        async with site.client() as client, asyncio.TaskGroup() as group:
            poll = begin(group, client)
            await until_waiting(site)
            await asyncio.to_thread(site.app.state.stop_waiting)
            return [await poll, await client.get("/api/feedback", params={"wait": 30})]

    for response in run(work):
        assert response.json() == {"items": [], "nextCursor": "0"}


def test_a_notifier_outlives_the_loops_of_its_waiters(tmp_path: Path) -> None:
    """A notification for a loop that is gone has no effect."""
    notifier = FeedbackNotifier(tmp_path / "file")
    subscribe = notifier.subscribe()

    async def listen() -> None:
        subscribe.__enter__()

    asyncio.run(listen())
    notifier.notify()
    subscribe.__exit__(None, None, None)
    assert not notifier._waiters
