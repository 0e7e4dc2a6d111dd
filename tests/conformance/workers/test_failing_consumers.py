"""A consumer that fails is seen: its error count, its lag and an alert, under every order."""

from __future__ import annotations

from typing import Any

import pytest

from onceward.client import Onceward
from onceward.retries import Failure, FixedDelays
from onceward.retries import RetryMessage as Kept
from onceward.testing.moving_time import MovingTime
from onceward.workers import App, Lag, Message
from onceward.workers.alert_models import DEFAULT_RULES
from onceward.workers.alerts import AlertEvaluator, Alerts
from onceward.workers.lag_records import LagRecords
from tests.conformance.workers.test_lag_records import Behind, Bench
from tests.support.alert_conditions import rule, set_lag, steps
from tests.support.list_source import ListSource
from tests.support.running_worker import drain

BROKEN = Failure(type="ValueError", message="no")
BATCHES = pytest.mark.parametrize("batch", [None, 7])


class CountedSource(ListSource):
    """A list that knows how much of it is left, and not since when."""

    def lag(self, after: str | None) -> Lag:
        return Lag(messages=len(self.values) - int(after or 0))


class Failing:
    """An app whose messages fail as long as the test says so."""

    def __init__(self, ow: Onceward, order: Any, batch: int | None = None, **more: Any) -> None:
        self.app, self.is_failing = App(ow), True
        self.source = CountedSource(*({"n": n} for n in range(20)))
        self.app.consumer(
            "numbers",
            source=self.source,
            order=order,
            batch=batch,
            key=(lambda data: data["n"]) if order == "key" else None,
            **more,
        )(self.handle)

    def handle(self, what: Message | list[Message]) -> None:
        for message in what if isinstance(what, list) else [what]:
            if self.is_failing or message["n"] is None:
                raise ValueError(message.data)


@BATCHES
@pytest.mark.parametrize("order", ["cursor", "key", "none"])
def test_h60_twenty_of_twenty_failing_messages_are_reported_within_a_minute(
    ow: Onceward, ow_time: MovingTime, order: Any, batch: int | None
) -> None:
    """By its error count, its lag and an alert; and all is well when they are done."""
    failing = Failing(ow, order, batch)
    drain(failing.app)
    ow_time.advance(seconds=55)
    assert ow.cursors.show("numbers").error_count == (1 if order == "cursor" else 20)
    measure = LagRecords(ow).list()["numbers"]
    assert measure.messages == 20
    assert measure.lag_seconds is not None
    assert measure.lag_seconds > 50
    evaluator = AlertEvaluator(ow, DEFAULT_RULES)
    evaluator.evaluate()
    expected = {"parked": 1} if order == "cursor" else {"parked": 1, "errors": 1}
    assert Alerts(ow).firing() == expected
    failing.is_failing = False
    ow_time.advance(seconds=61)
    drain(failing.app)
    assert ow.cursors.show("numbers").error_count == 0
    assert LagRecords(ow).list()["numbers"].messages == 0
    assert LagRecords(ow).list()["numbers"].lag_seconds == 0
    evaluator.evaluate()
    assert Alerts(ow).firing() == {}


@pytest.mark.parametrize("order", ["cursor", "key", "none"])
def test_every_failed_attempt_counts(ow: Onceward, ow_time: MovingTime, order: Any) -> None:
    """The first, one of a message that waited, and the last, which makes a dead letter."""
    failing = Failing(ow, order, retry=FixedDelays(seconds=(10.0,)))
    del failing.source.values[1:]
    for attempts in (1, 2):
        drain(failing.app)
        assert ow.cursors.show("numbers").error_count == attempts
        ow_time.advance(seconds=10.1)
    assert len(ow.dead.list()) == 1


@BATCHES
def test_bytes_that_cannot_be_read_count(ow: Onceward, batch: int | None) -> None:
    """They are failures of their cursor, and a message that succeeds ends the row."""
    failing = Failing(ow, "none", batch)
    failing.is_failing = False
    failing.source.values[:] = [b"{", b"[", b"?"]
    drain(failing.app)
    assert ow.cursors.show("numbers").error_count == 3
    failing.source.values.append({"n": 1})
    drain(failing.app)
    assert ow.cursors.show("numbers").error_count == 0


def test_a_message_that_only_lines_up_ends_no_row_of_failures(ow: Onceward) -> None:
    """It neither failed nor succeeded."""
    app = App(ow)

    @app.consumer("numbers", source=ListSource(1, 2, 3), order="key", key=lambda _: "a")
    def handle(_: Message) -> None:
        raise ValueError

    drain(app)
    assert ow.cursors.show("numbers").error_count == 1
    assert ow.retries.parked.waiting("numbers").messages == 3


def test_parked_messages_are_lag_of_a_source_that_cannot_tell(
    ow: Onceward, ow_time: MovingTime
) -> None:
    """How many are left is unknown; since when the oldest waits is known."""
    app = App(ow)

    @app.consumer("numbers", source=ListSource(1), order="none")
    def handle(_: Message) -> None:
        raise ValueError

    drain(app)
    ow_time.advance(seconds=30)
    drain(app)
    measure = LagRecords(ow).list()["numbers"]
    assert measure.messages is None
    assert measure.lag_seconds is not None
    assert measure.lag_seconds > 29.9


def test_every_parked_message_is_counted(ow: Onceward, ow_time: MovingTime) -> None:
    """For alerts and for lag, however many there are."""
    count = 10_005
    lease = ow.cursors.acquire("c", "w")
    assert lease is not None
    columns = (
        "cursor_name, position, sequence, key, alone, is_head, raw, attempt, failures, parked_at"
    )
    with ow.transaction() as tx:
        message = Kept(cursor="c", position="0", raw=b"")
        ow.retries.parked.park(tx, message, failure=BROKEN, order="none")
        tx.execute(
            f"with recursive n(i) as (select 1 union all select i + 1 from n where i < {count - 1})"
            f" insert into onceward_parked ({columns}) select cursor_name, cast(n.i as text),"
            " sequence + n.i, key, alone, is_head, raw, attempt, failures, parked_at"
            " from onceward_parked, n"
        )
    evaluator = AlertEvaluator(ow, [rule("parked", threshold=10_004.0, clear=0.0)])
    changes = evaluator.evaluate()
    assert changes is not None
    assert [change.value for change in changes] == [count]
    bench = Bench(ow, ow_time)
    bench.measuring.add("c", Behind(Lag(messages=2)), is_partition=False)
    bench.measured()
    assert LagRecords(ow).list()["c"].messages == count + 2


def test_what_waits_for_a_failing_message_counts_as_parked(ow: Onceward) -> None:
    """With order="cursor" nothing is parked, and all of it waits."""
    with ow.transaction() as tx:
        ow.retries.attempts.fail(tx, Kept(cursor="c", position="1", raw=b""), BROKEN)
    set_lag(ow, 15, 1.0, "c")
    set_lag(ow, 99, 1.0, "busy")
    evaluator = AlertEvaluator(ow, [rule("parked", threshold=14.0, clear=0.0)])
    assert steps(evaluator) == [("begin", "fire")]
    (alert,) = Alerts(ow).list()
    assert (alert.cursor, alert.value) == ("c", 15)
    assert alert.text("fired") == "parked rule: c has 15 messages waiting for a retry, more than 14"
