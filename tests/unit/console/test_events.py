"""The stream of events as a browser gets it, and the poll for those that cannot."""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI

from onceward.console import events_http
from onceward.console.change_feed import CHECK_SECONDS, ChangeFeed
from onceward.console.events_http import BEAT_SECONDS, _Streams, events_router
from onceward.http.errors import install_error_handlers
from onceward.system import ManualClock


def site(feed: ChangeFeed) -> FastAPI:
    app = FastAPI()
    install_error_handlers(app)
    app.include_router(events_router(feed))
    return app


def ask(feed: ChangeFeed, query: str, headers: dict[bytes, bytes] | None = None) -> httpx.Response:
    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app=site(feed))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get(f"/api/console/events?{query}", headers=headers)

    return asyncio.run(send())


async def received(
    stream: AsyncIterator[bytes], count: int
) -> list[tuple[str, str, dict[str, object]]]:
    found = []
    async for piece in stream:
        if piece.startswith(b"retry"):
            continue
        lines = dict(line.split(": ", 1) for line in piece.decode().strip().split("\n"))
        found.append((lines["id"], lines["event"], json.loads(lines["data"])))
        if len(found) == count:
            break
    return found


def test_a_stream_goes_on_after_the_number_it_is_given() -> None:
    """Events that came meanwhile come first, in order, each with its number."""
    feed = ChangeFeed({}, first=10)
    feed.announce(["dead"])
    feed.announce(["cursors", "workers"])
    events = asyncio.run(received(_Streams(feed).flow(9), 2))
    assert [(number, kind) for number, kind, _ in events] == [("10", "changed"), ("11", "changed")]
    assert events[1][2]["areas"] == ["cursors", "workers"]


def test_a_stream_sends_a_reset_when_missed_events_are_unknown() -> None:
    """A number of another server's is answered with a reset, under a number to go on from."""
    events = asyncio.run(received(_Streams(ChangeFeed({}, first=10)).flow(3), 1))
    assert events[0][:2] == ("9", "reset")


def test_a_quiet_stream_beats() -> None:
    """Between changes it sends heartbeats with the current time."""
    assert BEAT_SECONDS < 5
    events = asyncio.run(received(_Streams(ChangeFeed({}, first=10)).flow(None), 1))
    assert events[0][:2] == ("9", "beat")
    assert str(events[0][2]["as_of"]).endswith("Z")


def test_a_change_is_sent_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener need not wait for the next heartbeat."""
    monkeypatch.setattr(events_http, "BEAT_SECONDS", 60.0)

    async def go() -> float:
        feed, loop = ChangeFeed({}, first=1), asyncio.get_running_loop()
        stream = _Streams(feed).flow(None)
        await received(stream, 1)
        loop.call_later(0.05, feed.announce, ["dead"])
        began = loop.time()
        await received(stream, 1)
        return loop.time() - began

    assert asyncio.run(go()) < 30.0


def test_streams_end_when_the_server_is_about_to_stop() -> None:
    """A closed feed ends its streams at once."""
    feed = ChangeFeed({}, first=1)
    feed.close()
    assert asyncio.run(received(_Streams(feed).flow(None), 1)) == []


def test_a_poll_answers_at_once_in_json() -> None:
    """What a stream would tell is also an answer of its own."""
    feed = ChangeFeed({}, first=10)
    feed.announce(["dead"])
    body = ask(feed, "poll=1&since=9").json()
    assert [each["areas"] for each in body["events"]] == [["dead"]]
    assert (body["next"], body["is_reset"]) == (10, False)
    assert ask(feed, "poll=1&since=4").json()["is_reset"] is True


def test_a_reconnecting_browser_resumes_after_its_last_event() -> None:
    """Browsers send `Last-Event-ID`, which takes precedence over `since`."""
    feed = ChangeFeed({}, first=10)
    feed.announce(["dead"])
    feed.announce(["runs"])
    body = ask(feed, "poll=1&since=9", {b"Last-Event-ID": b"10"}).json()
    assert [each["areas"] for each in body["events"]] == [["runs"]]


def test_a_poll_looks_for_itself() -> None:
    """No other request may be looking, so a poll does."""
    values, clock = {"dead": 1}, ManualClock()
    feed = ChangeFeed({"dead": lambda: values["dead"]}, first=10, clock=clock)
    first = ask(feed, "poll=1").json()["next"]
    values["dead"] = 2
    assert ask(feed, f"poll=1&since={first}").json()["events"] == [], "a moment ago one looked"
    clock.advance(seconds=CHECK_SECONDS)
    assert len(ask(feed, f"poll=1&since={first}").json()["events"]) == 1


def test_a_digit_that_is_no_number_is_passed_over() -> None:
    """What a browser never sends is no reason to fail."""
    response = ask(ChangeFeed({}), "poll=1", {b"Last-Event-ID": b"\xb2"})
    assert response.status_code == 200


def test_a_number_that_is_none_is_refused() -> None:
    """The error names the parameter."""
    response = ask(ChangeFeed({}), "poll=1&since=soon")
    assert response.status_code == 400
    assert response.json()["error"]["context"]["field"] == "since"
