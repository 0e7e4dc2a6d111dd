"""The first screen: what needs attention is named once, in a sentence, with a link."""

import asyncio
from typing import Any

import httpx
import orjson
import pytest
from fastapi import FastAPI

from onceward.client import Onceward
from onceward.console import overview
from onceward.console.counts import AreaCounts, CountSampler
from onceward.console.health_history import HealthHistory, HealthSample
from onceward.console.overview_http import overview_router
from onceward.http.errors import install_error_handlers
from onceward.retries.models import Failure, RetryMessage
from onceward.testing.moving_time import MovingTime
from tests.support.console_over_store import context_of

NOTHING = HealthSample(
    at="2026-01-01T00:00:00.000Z",
    lag_seconds=0.0,
    cursors=1,
    held=0,
    expired=0,
    paused=0,
    processed=0,
)


def wanted(
    ow: Onceward, counts: AreaCounts | None = None, sample: HealthSample = NOTHING
) -> dict[str, str]:
    found = overview.attention(context_of(ow), counts or AreaCounts(), sample)
    return {each.id: each.text for each in found}


def asked(ow: Onceward) -> dict[str, Any]:
    app = FastAPI()
    install_error_handlers(app)
    counts_sampler, health = CountSampler(lambda: ow), HealthHistory(lambda: ow)
    counts_sampler.count()
    health.measure()
    app.include_router(overview_router(context_of(ow), counts_sampler, health))

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get("/api/console/overview")

    response = asyncio.run(send())
    assert response.status_code == 200
    body: dict[str, Any] = response.json()
    return body


def measure(ow: Onceward, cursor: str, *, messages: int, oldest_seconds: float) -> None:
    """Keep a measure as a worker would: so many messages, the oldest so old."""
    taken = {
        "cursor": cursor,
        "position": None,
        "messages": messages,
        "seconds": oldest_seconds,
        "oldest_at": None,
        "held_back_by": None,
        "processed": 0,
        "rate": None,
    }
    ow.store.write_query("measure_write", rows=orjson.dumps([taken]).decode())


def test_a_store_without_trouble_needs_no_attention(ow: Onceward) -> None:
    """Nothing is wanted, and the first screen may teach."""
    body = asked(ow)
    assert body["attention"] == []
    assert body["is_empty"] is True


def test_a_stuck_cursor_is_named_with_its_reason(ow: Onceward, ow_time: MovingTime) -> None:
    """The last holder, how much waits and for how long, in one sentence."""
    ow.cursors.acquire("leads", "w1", 60)
    measure(ow, "leads", messages=7, oldest_seconds=90)
    assert wanted(ow) == {}, "its holder is at it"
    ow_time.advance(seconds=61)
    text = wanted(ow)["behind:leads"]
    assert "7 messages wait" in text
    assert "the lease of w1 expired" in text


def test_a_store_without_waiting_messages_has_no_lag(ow: Onceward) -> None:
    """It is null, which differs from a lag of 0 seconds."""
    assert ow.store.read("overview_lag") == [(None,)]


def test_one_trouble_is_reported_once(ow: Onceward, ow_time: MovingTime) -> None:
    """What is named is not counted again."""
    ow.cursors.acquire("leads", "w1", 60)
    measure(ow, "leads", messages=7, oldest_seconds=90)
    ow_time.advance(seconds=61)
    sample = HealthSample(**{**{f: getattr(NOTHING, f) for f in NOTHING.__slots__}, "expired": 1})
    assert set(wanted(ow, sample=sample)) == {"behind:leads"}
    more = HealthSample(**{**{f: getattr(NOTHING, f) for f in NOTHING.__slots__}, "expired": 3})
    assert wanted(ow, sample=more)["expired"].startswith("2 leases have")


def test_a_paused_cursor_is_worth_a_look_and_no_more(ow: Onceward) -> None:
    """An operator paused it on purpose, so it is not urgent."""
    ow.cursors.acquire("leads", "w1")
    ow.cursors.pause("leads", "holiday", "ann")
    measure(ow, "leads", messages=7, oldest_seconds=900)
    lease_gone = ow.cursors.seek("leads", "5", reason="r", actor="ann")
    assert lease_gone.epoch
    (found,) = overview.attention(context_of(ow), AreaCounts(), NOTHING)
    assert (found.id, found.severity) == ("behind:leads", "watch")
    assert "it is paused" in found.text


@pytest.mark.parametrize(
    ("counts", "id_", "text"),
    [
        (AreaCounts(dead=1), "dead", "1 dead letter waits for a decision."),
        (AreaCounts(dead=1200), "dead", "1,200 dead letters wait for a decision."),
        (
            AreaCounts(ambiguous=2),
            "ambiguous",
            "2 keys are ambiguous: they started but never reported a result.",
        ),
    ],
)
def test_what_waits_for_a_person_is_counted(
    ow: Onceward, counts: AreaCounts, id_: str, text: str
) -> None:
    """One reads like one, and many like many."""
    assert wanted(ow, counts)[id_].startswith(text)


def test_what_happened_last_comes_first(ow: Onceward) -> None:
    """Moves, dead letters and refusals are one list, each with a place to go."""
    ow.cursors.acquire("leads", "w1")
    ow.cursors.pause("leads", "holiday", "ann")
    message = RetryMessage(cursor="leads", position="7", raw=b"{}")
    with ow.transaction() as tx:
        ow.dead.add(tx, message, Failure(type="ValueError", message="no price"))
    ow.cursors.seek("leads", "5", reason="bad deploy", actor="ann")
    body = asked(ow)
    texts = [each["text"] for each in body["activity"]]
    assert {each["kind"] for each in body["activity"]} == {"seek", "dead", "pause"}
    assert "ann moved leads: bad deploy" in texts
    assert "a message of leads became a dead letter: ValueError: no price" in texts
    assert body["tiles"]["dead"] == 1
    assert body["is_empty"] is False


def test_names_of_cursors_may_hold_anything(ow: Onceward) -> None:
    """A slash or a question mark in a name leads to the right page."""
    ow.cursors.acquire("a/b?c#d {x}", "w1")
    ow.cursors.pause("a/b?c#d {x}", "{who} %s", "ann")
    (entry,) = overview.activity(context_of(ow))
    assert entry.href == "/cursors/a%2Fb%3Fc%23d%20%7Bx%7D"
    assert entry.text == "ann paused a/b?c#d {x}: {who} %s"


def test_slow_cursors_that_are_held_do_not_hide_one_without_a_worker(ow: Onceward) -> None:
    """However many cursors lag, the one without a worker is named."""
    for number in range(overview.NAMED_MAX + 1):
        ow.cursors.acquire(f"slow-{number}", "w1")
        measure(ow, f"slow-{number}", messages=9, oldest_seconds=4_000)
    lease = ow.cursors.acquire("orders", "w1")
    assert lease is not None
    lease.release()
    measure(ow, "orders", messages=99_999, oldest_seconds=3_600)
    assert "no worker has it" in wanted(ow)["behind:orders"]
    assert HealthHistory(lambda: ow).measure().lag_seconds == pytest.approx(4_000, abs=5)
