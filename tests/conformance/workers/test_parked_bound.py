"""The parked line has a bound: a cursor whose messages keep failing stops reading, and says so."""

from __future__ import annotations

import logging

import pytest

from onceward.client import Onceward
from onceward.errors import InvalidArgument
from onceward.retries import FixedDelays
from onceward.testing.moving_time import MovingTime
from onceward.workers import App, Message
from onceward.workers.models import PARKED_MAX
from tests.support.list_source import ListSource
from tests.support.running_worker import drain

PAGE = 10


def test_a_full_line_stops_reading_until_it_drains(
    ow: Onceward, ow_time: MovingTime, caplog: pytest.LogCaptureFixture
) -> None:
    """No more than the bound and one page are parked; nothing is lost, and order is kept."""
    broken, done = [True], list[int]()
    app = App(ow)

    @app.consumer(
        "numbers",
        source=ListSource(*range(100)),
        order="key",
        key=lambda _: "all",
        batch=PAGE,
        parked_max=25,
        retry=FixedDelays(seconds=(60,) * 5),
        poll_seconds=0.01,
    )
    def handle(messages: list[Message]) -> None:
        if broken[0]:
            raise ValueError
        done.extend(each.data for each in messages)

    with caplog.at_level(logging.WARNING, "onceward.workers"):
        worked = drain(app)
    assert worked.unfinished == ("numbers",)
    assert 25 <= ow.retries.parked.count("numbers") < 25 + PAGE
    assert (
        len([each for each in caplog.records if each.message.startswith("parked limit reached")])
        == 1
    )
    parked = ow.retries.parked.count("numbers")
    drain(app)
    assert ow.retries.parked.count("numbers") == parked
    broken[0] = False
    ow_time.advance(seconds=61)
    assert drain(app).unfinished == ()
    assert done == list(range(100))
    assert ow.retries.parked.count("numbers") == 0


@pytest.mark.parametrize("most", [0, -1, 10**9])
def test_a_bound_that_is_none_is_refused(ow: Onceward, most: int) -> None:
    """The field is named."""
    app = App(ow)
    with pytest.raises(InvalidArgument, match="parked_max: must be 1 to"):
        app.consumer("c", source=ListSource(), parked_max=most)


def test_every_consumer_has_a_bound(ow: Onceward) -> None:
    """Also one that says nothing of it."""
    app = App(ow)
    app.consumer("c", source=ListSource())(len)
    (consumer,) = app.consumers
    assert consumer.parked_max == PARKED_MAX
