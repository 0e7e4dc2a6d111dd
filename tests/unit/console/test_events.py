"""The stream of events as a browser gets it, and the poll for those that cannot."""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI

from onceward.console import events_http
from onceward.console.events_http import BEAT_SECONDS, _Streams, events_router
from onceward.console.pulse import LOOK_SECONDS, Pulse
from onceward.failures import wire_errors
from onceward.seams import ManualClock


def site(pulse: Pulse) -> FastAPI:
    app = FastAPI()
    wire_errors(app)
    app.include_router(events_router(pulse))
    return app


def ask(pulse: Pulse, query: str, headers: dict[bytes, bytes] | None = None) -> httpx.Response:
    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app=site(pulse))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get(f"/api/console/events?{query}", headers=headers)

    return asyncio.run(send())


async def told(
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


def test_a_stream_goes_on_behind_the_number_it_is_given() -> None:
    """Events that came meanwhile come first, in order, each with its number."""
    pulse = Pulse({}, first=10)
    pulse.tell(["dead"])
    pulse.tell(["cursors", "workers"])
    events = asyncio.run(told(_Streams(pulse).flow(9), 2))
    assert [(number, kind) for number, kind, _ in events] == [("10", "changed"), ("11", "changed")]
    assert events[1][2]["areas"] == ["cursors", "workers"]


def test_a_stream_says_when_nobody_knows_what_was_missed() -> None:
    """A number of another server's is answered with a reset, under a number to go on from."""
    events = asyncio.run(told(_Streams(Pulse({}, first=10)).flow(3), 1))
    assert events[0][:2] == ("9", "reset")


def test_a_quiet_stream_beats() -> None:
    """Between changes somebody is there, and says what time it is."""
    assert BEAT_SECONDS < 5
    events = asyncio.run(told(_Streams(Pulse({}, first=10)).flow(None), 1))
    assert events[0][:2] == ("9", "beat")
    assert str(events[0][2]["as_of"]).endswith("Z")


def test_a_change_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever listens need not wait for the next beat."""
    monkeypatch.setattr(events_http, "BEAT_SECONDS", 60.0)

    async def go() -> float:
        pulse, loop = Pulse({}, first=1), asyncio.get_running_loop()
        stream = _Streams(pulse).flow(None)
        await told(stream, 1)
        loop.call_later(0.05, pulse.tell, ["dead"])
        began = loop.time()
        await told(stream, 1)
        return loop.time() - began

    assert asyncio.run(go()) < 30.0


def test_streams_end_when_the_server_is_about_to_stop() -> None:
    """A closed pulse lets nobody wait."""
    pulse = Pulse({}, first=1)
    pulse.close()
    assert asyncio.run(told(_Streams(pulse).flow(None), 1)) == []


def test_a_poll_answers_at_once_in_json() -> None:
    """What a stream would tell is also an answer of its own."""
    pulse = Pulse({}, first=10)
    pulse.tell(["dead"])
    body = ask(pulse, "poll=1&since=9").json()
    assert [each["areas"] for each in body["events"]] == [["dead"]]
    assert (body["next"], body["is_reset"]) == (10, False)
    assert ask(pulse, "poll=1&since=4").json()["is_reset"] is True


def test_a_poll_looks_for_itself() -> None:
    """Nobody else may be looking, so a poll does."""
    values, clock = {"dead": 1}, ManualClock()
    pulse = Pulse({"dead": lambda: values["dead"]}, first=10, clock=clock)
    first = ask(pulse, "poll=1").json()["next"]
    values["dead"] = 2
    assert ask(pulse, f"poll=1&since={first}").json()["events"] == [], "a moment ago one looked"
    clock.advance(seconds=LOOK_SECONDS)
    assert len(ask(pulse, f"poll=1&since={first}").json()["events"]) == 1


def test_a_digit_that_is_no_number_is_passed_over() -> None:
    """What a browser never sends is no reason to fail."""
    response = ask(Pulse({}), "poll=1", {b"Last-Event-ID": b"\xb2"})
    assert response.status_code == 200


def test_a_number_that_is_none_is_refused() -> None:
    """The error names the parameter."""
    response = ask(Pulse({}), "poll=1&since=soon")
    assert response.status_code == 400
    assert response.json()["error"]["context"]["field"] == "since"
