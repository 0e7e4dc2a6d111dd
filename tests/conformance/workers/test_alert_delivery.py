"""Telling of alerts: at least once, under one key, in order, and never in the way."""

from __future__ import annotations

import logging

import pytest

from onceward.client import Onceward
from onceward.system import ManualClock, crash_points
from onceward.testing.moving_time import MovingTime
from onceward.workers.alert_delivery import GIVE_UP_SECONDS, RESEND_SECONDS, AlertSender
from onceward.workers.alerts import LEASE_SECONDS, AlertEvaluator, Alerts
from tests.support.alert_conditions import Inbox, rule, set_errors, steps


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.mark.parametrize("point", ["alerts.fire.after_commit", "alerts.send.after_send"])
def test_a_crash_around_the_sending_sends_it_again_under_the_same_key(
    ow: Onceward, ow_time: MovingTime, inbox: Inbox, point: str
) -> None:
    """At least once, and the receiver can recognise the repeat."""
    evaluator, sender = AlertEvaluator(ow, [rule()]), AlertSender(ow, [rule()], send=inbox)
    set_errors(ow, 9)
    crash_points.arm(f"{point}:1:raise")
    try:
        with pytest.raises(crash_points.Crashed):
            evaluator.evaluate()
            sender.deliver()
    finally:
        crash_points.arm(None)
    sent_before = len(inbox.take_count)
    assert sent_before == (0 if "fire" in point else 1)
    ow_time.advance(seconds=LEASE_SECONDS + 10)
    assert steps(AlertEvaluator(ow, [rule()])) == []
    AlertSender(ow, [rule()], send=inbox).deliver()
    assert len(inbox.take_count) == sent_before + 1
    assert len({key for _, _, key in inbox.take_count}) == 1
    (alert,) = Alerts(ow).list()
    assert inbox.take_count[0][1]["id"] == inbox.take_count[0][2] == f"{alert.id}:fired"


def test_a_webhook_that_fails_is_tried_again_later(
    ow: Onceward, inbox: Inbox, caplog: pytest.LogCaptureFixture
) -> None:
    """Evaluation goes on, the log has it once, and the order of events is kept."""
    clock = ManualClock()
    sender = AlertSender(ow, [rule()], send=inbox, clock=clock)
    evaluator = AlertEvaluator(ow, [rule()])
    inbox.refuses = True
    set_errors(ow, 9)
    evaluator.evaluate()
    assert sender.deliver() == 1
    set_errors(ow, 0)
    assert steps(evaluator) == [("clear",)]
    inbox.refuses = False
    assert sender.deliver() == 1
    clock.advance(seconds=RESEND_SECONDS + 1)
    assert sender.deliver() == 0
    assert inbox.events == [("fired", "c"), ("cleared", "c")]
    assert caplog.text.count("alert fired") == 1
    assert "secret" not in caplog.text


def test_what_was_not_accepted_for_a_day_is_given_up(
    ow: Onceward, ow_time: MovingTime, inbox: Inbox
) -> None:
    """The outbox does not grow for ever."""
    sender = AlertSender(ow, [rule()], send=inbox)
    inbox.refuses = True
    set_errors(ow, 9)
    AlertEvaluator(ow, [rule()]).evaluate()
    assert sender.deliver() == 1
    ow_time.advance(seconds=GIVE_UP_SECONDS + 10)
    assert AlertSender(ow, [rule()], send=inbox).deliver() == 0
    assert Alerts(ow).list()[0].unsent == ()


def test_without_a_webhook_the_alert_is_logged(
    ow: Onceward, inbox: Inbox, caplog: pytest.LogCaptureFixture
) -> None:
    """Fired is an error, cleared is news."""
    rules = [rule(webhook=None)]
    evaluator, sender = AlertEvaluator(ow, rules), AlertSender(ow, rules, send=inbox)
    caplog.set_level(logging.INFO, "onceward.alerts")
    for count in (9, 0):
        set_errors(ow, count)
        evaluator.evaluate()
        assert sender.deliver() == 0
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert said == [
        ("ERROR", "alert fired: errors rule: c has 9 failures in a row, more than 3"),
        ("INFO", "alert cleared: errors rule: c has recovered"),
    ]
    assert inbox.take_count == []


def test_a_webhook_that_is_down_keeps_nothing_from_the_others(
    ow: Onceward, ow_time: MovingTime
) -> None:
    """However many older alerts wait for it."""
    rules = [
        rule(name="bad", cursor="a*", webhook="https://down.test/"),
        rule(name="good", cursor="z", webhook="https://up.test/"),
    ]
    for number in range(120):
        set_errors(ow, 9, f"a{number}")
    evaluator, urls = AlertEvaluator(ow, rules), []
    evaluator.evaluate()
    ow_time.advance(seconds=5)
    set_errors(ow, 9, "z")
    evaluator.evaluate()

    def send(url: str, body: object, key: str) -> None:
        assert body
        assert key
        if "down" in url:
            raise ConnectionError
        urls.append(url)

    assert AlertSender(ow, rules, send=send).deliver() == 120
    assert urls == ["https://up.test/"]
