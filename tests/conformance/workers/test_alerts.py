"""Alerts: fired once and cleared once, for each trouble, whichever process evaluates."""

from __future__ import annotations

import pytest

from onceward.client import Onceward
from onceward.retries import Failure, RetryMessage
from onceward.testing.moving_time import MovingTime
from onceward.workers.alert_delivery import AlertSender
from onceward.workers.alert_models import DEFAULT_RULES
from onceward.workers.alerts import (
    KEEP_DAYS,
    LEASE_NAME,
    LEASE_SECONDS,
    OPEN_MAX,
    AlertEvaluator,
    Alerts,
)
from tests.support.alert_conditions import Inbox, rule, set_errors, set_lag, steps


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


def test_an_alert_fires_once_and_clears_once(ow: Onceward, inbox: Inbox) -> None:
    """However often it is evaluated in between."""
    evaluator, sender = AlertEvaluator(ow, [rule()]), AlertSender(ow, [rule()], send=inbox)
    set_errors(ow, 2)
    assert steps(evaluator) == []
    set_errors(ow, 4)
    for _ in range(3):
        evaluator.evaluate()
        sender.deliver()
    assert inbox.events == [("fired", "c")]
    set_errors(ow, 0)
    for _ in range(3):
        evaluator.evaluate()
        sender.deliver()
    assert inbox.events == [("fired", "c"), ("cleared", "c")]
    (alert,) = Alerts(ow).list()
    assert (alert.state, alert.value, alert.threshold) == ("cleared", 4.0, 3.0)
    assert alert.fired_sent_at
    assert alert.cleared_sent_at


@pytest.mark.parametrize("value", [3, 2])
def test_between_the_two_thresholds_nothing_changes(ow: Onceward, inbox: Inbox, value: int) -> None:
    """A value that trembles around the threshold does not ring twice."""
    evaluator, sender = AlertEvaluator(ow, [rule()]), AlertSender(ow, [rule()], send=inbox)
    for count in (4, value, 4, value, 5, value):
        set_errors(ow, count)
        evaluator.evaluate()
        sender.deliver()
    assert inbox.events == [("fired", "c")]
    set_errors(ow, 1)
    assert steps(evaluator) == [("clear",)]
    set_errors(ow, value)
    assert steps(evaluator) == []
    set_errors(ow, 4)
    assert steps(evaluator) == [("begin", "fire")]
    first, second = Alerts(ow).list()
    assert first.id != second.id


def test_at_the_threshold_is_not_over_it(ow: Onceward) -> None:
    """It fires above, it clears at or below."""
    evaluator = AlertEvaluator(ow, [rule(threshold=3.0, clear=3.0)])
    set_errors(ow, 3)
    assert steps(evaluator) == []
    set_errors(ow, 4)
    assert steps(evaluator) == [("begin", "fire")]
    set_errors(ow, 3)
    assert steps(evaluator) == [("clear",)]


def test_it_must_last_before_it_fires(ow: Onceward, ow_time: MovingTime) -> None:
    """Over the threshold for the whole time, by the store's clock; a short excursion is nothing."""
    evaluator = AlertEvaluator(ow, [rule("lag", threshold=100.0, clear=10.0, for_seconds=120.0)])
    set_lag(ow, 5, 90)
    assert steps(evaluator) == []
    ow_time.advance(seconds=60)
    assert steps(evaluator) == [("begin",)]
    ow_time.advance(seconds=60)
    assert steps(evaluator) == []
    set_lag(ow, 5, 100)
    ow_time.advance(seconds=59)
    assert steps(evaluator) == []
    ow_time.advance(seconds=10)
    assert steps(evaluator) == [("fire",)]
    set_lag(ow, 0, 0)
    assert steps(evaluator) == [("clear",)]
    set_lag(ow, 5, 200)
    assert steps(evaluator) == [("begin",)]
    set_lag(ow, 5, 50)
    assert steps(evaluator) == [("drop",)]
    assert [alert.state for alert in Alerts(ow).list()] == ["cleared"]


def test_waiting_survives_a_restart(ow: Onceward, ow_time: MovingTime) -> None:
    """The time that has passed is in the store, not in the process that counted."""
    rules = [rule("lag", threshold=100.0, clear=10.0, for_seconds=120.0)]
    first = AlertEvaluator(ow, rules)
    set_lag(ow, 5, 200)
    assert steps(first) == [("begin",)]
    ow_time.advance(seconds=LEASE_SECONDS + 100)
    assert steps(AlertEvaluator(ow, rules)) == [("fire",)]
    assert first.evaluate() is None


def test_what_fired_survives_a_restart(ow: Onceward, ow_time: MovingTime, inbox: Inbox) -> None:
    """The next process does not fire it again, and clears it."""
    first = AlertEvaluator(ow, [rule()])
    set_errors(ow, 9)
    assert steps(first) == [("begin", "fire")]
    AlertSender(ow, [rule()], send=inbox).deliver()
    ow_time.advance(seconds=LEASE_SECONDS + 10)
    second = AlertEvaluator(ow, [rule()])
    assert steps(second) == []
    set_errors(ow, 0)
    assert steps(second) == [("clear",)]
    AlertSender(ow, [rule()], send=inbox).deliver()
    assert inbox.events == [("fired", "c"), ("cleared", "c")]


def test_one_process_evaluates(ow: Onceward) -> None:
    """The others wait for its lease, and take over when it is given back."""
    first, second = AlertEvaluator(ow, [rule()]), AlertEvaluator(ow, [rule()])
    set_errors(ow, 9)
    assert steps(first) == [("begin", "fire")]
    assert second.evaluate() is None
    assert (first.is_evaluating, second.is_evaluating) == (True, False)
    first.release()
    assert steps(second) == []


def test_a_process_that_was_replaced_changes_nothing(
    ow: Onceward, ow_time: MovingTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frozen between looking and writing, it wakes up to a lost lease."""
    frozen, successor = AlertEvaluator(ow, [rule()]), AlertEvaluator(ow, [rule()])
    assert steps(frozen) == []
    set_errors(ow, 9)
    ow_time.advance(seconds=LEASE_SECONDS + 100)
    monkeypatch.setattr(frozen, "_ensure_lease", lambda: frozen._lease)
    assert steps(successor) == [("begin", "fire")]
    assert frozen.evaluate() is None
    assert len(Alerts(ow).list()) == 1


def test_pausing_its_cursor_silences_alerts(ow: Onceward) -> None:
    """As any cursor's work is paused."""
    evaluator = AlertEvaluator(ow, [rule()])
    assert steps(evaluator) == []
    ow.cursors.pause(LEASE_NAME)
    set_errors(ow, 9)
    assert evaluator.evaluate() is None
    assert evaluator.evaluate() is None
    ow.cursors.resume(LEASE_NAME)
    assert steps(evaluator) == [("begin", "fire")]


def test_a_rule_that_is_gone_takes_its_alerts_along(ow: Onceward) -> None:
    """Nothing fires for ever because its rule was removed."""
    first = AlertEvaluator(ow, [rule(), rule(name="other", threshold=5.0)])
    set_errors(ow, 9)
    first.evaluate()
    first.release()
    assert steps(AlertEvaluator(ow, [rule()])) == [("clear",)]
    states = {alert.rule: alert.state for alert in Alerts(ow).list()}
    assert states == {"errors rule": "firing", "other": "cleared"}


def test_a_rule_covers_the_cursors_of_its_pattern(ow: Onceward) -> None:
    """Each has alerts of its own; our own cursors have none."""
    evaluator = AlertEvaluator(ow, [rule(cursor="lead_*")])
    for name in ("lead_1", "lead_2", "mail_1", "~slot/1"):
        set_errors(ow, 9, name)
    evaluator.evaluate()
    assert sorted(alert.cursor for alert in Alerts(ow).list()) == ["lead_1", "lead_2"]
    everywhere = AlertEvaluator(ow, [rule(name="all", cursor="*")])
    evaluator.release()
    everywhere.evaluate()
    found = {alert.cursor for alert in Alerts(ow).list() if alert.rule == "all"}
    assert found == {"lead_1", "lead_2", "mail_1"}


def test_steals_count_within_their_window(ow: Onceward, ow_time: MovingTime) -> None:
    """Take-overs that are long past do not ring."""
    evaluator = AlertEvaluator(ow, [rule("steals", threshold=2.0, clear=0.0)])
    ow.cursors.acquire("c", "w0", 1.0)
    for number in range(1, 3):
        ow_time.advance(seconds=50)
        assert ow.cursors.acquire("c", f"w{number}", 1.0)
    assert steps(evaluator) == []
    ow_time.advance(seconds=50)
    assert ow.cursors.acquire("c", "w3", 1.0)
    assert steps(evaluator) == [("begin", "fire")]
    ow_time.advance(seconds=500)
    assert steps(evaluator) == []
    ow_time.advance(seconds=200)
    assert steps(evaluator) == [("clear",)]


def test_new_dead_letters_ring(ow: Onceward, ow_time: MovingTime) -> None:
    """Until they are redriven or dropped, or have lain there for the window."""
    evaluator = AlertEvaluator(ow, [rule("dead", threshold=0.0, clear=0.0)])
    ow.cursors.acquire("c", "w")
    message = RetryMessage(cursor="c", position="1", raw=b"{}")
    failure = Failure(type="ValueError", message="no")
    with ow.transaction() as tx:
        letter = ow.dead.add(tx, message, failure)
    assert steps(evaluator) == [("begin", "fire")]
    ow.dead.redrive(letter, actor="ana")
    assert steps(evaluator) == [("clear",)]
    with ow.transaction() as tx:
        ow.dead.add(tx, message, failure)
    assert steps(evaluator) == [("begin", "fire")]
    ow_time.advance(seconds=700)
    assert steps(evaluator) == [("clear",)]


def test_an_unknown_lag_does_not_fire(ow: Onceward) -> None:
    """No measure, or one without a lag, is no alert; one without a number of messages may be."""
    evaluator = AlertEvaluator(ow, [rule("lag", threshold=10.0, clear=5.0)])
    ow.cursors.acquire("c", "w")
    assert steps(evaluator) == []
    set_lag(ow, None, None)
    assert steps(evaluator) == []
    set_lag(ow, None, 100)
    assert steps(evaluator) == [("begin", "fire")]


def test_an_old_measure_of_a_cursor_without_lag_rings_not(
    ow: Onceward, ow_time: MovingTime
) -> None:
    """It had caught up, and has not been measured since: idle, as far as is known."""
    rules = [rule("lag", threshold=10.0, clear=5.0)]
    set_lag(ow, 0, 0)
    ow_time.advance(seconds=3600)
    assert steps(AlertEvaluator(ow, rules)) == []


def test_a_store_in_which_all_is_wrong_has_a_limit(
    ow: Onceward, caplog: pytest.LogCaptureFixture
) -> None:
    """The number of alerts is limited; that there are more is logged once."""
    with ow.transaction() as tx:
        for number in range(OPEN_MAX + 5):
            tx.execute(
                "insert into cursor_positions (cursor_name, error_count) values (?, 9)",
                [f"c{number:04}"],
            )
    evaluator = AlertEvaluator(ow, [rule()])
    assert len(steps(evaluator)) == OPEN_MAX
    assert steps(evaluator) == []
    assert caplog.text.count("alert limit reached") == 1
    assert Alerts(ow).firing() == {"errors": OPEN_MAX}


def test_alerts_that_are_long_over_are_removed(ow: Onceward, ow_time: MovingTime) -> None:
    """What is over stays readable for a while, and no longer."""
    rules = [rule(webhook=None)]
    set_errors(ow, 9)
    evaluator = AlertEvaluator(ow, rules)
    evaluator.evaluate()
    set_errors(ow, 0)
    evaluator.evaluate()
    AlertSender(ow, rules).deliver()
    ow_time.advance(seconds=(KEEP_DAYS + 1) * 24 * 3600)
    assert len(Alerts(ow).list()) == 1
    set_errors(ow, 9)
    later = AlertEvaluator(ow, rules)
    later.evaluate()
    set_errors(ow, 0)
    later.evaluate()
    assert len(Alerts(ow).list()) == 1


def test_those_that_are_not_over_come_first(ow: Onceward, ow_time: MovingTime) -> None:
    """Then the newest."""
    evaluator = AlertEvaluator(ow, [rule()])
    for name in ("a", "b", "c"):
        set_errors(ow, 9, name)
        evaluator.evaluate()
        ow_time.advance(seconds=1)
    set_errors(ow, 0, "c")
    set_errors(ow, 0, "a")
    evaluator.evaluate()
    assert [alert.cursor for alert in Alerts(ow).list()] == ["b", "c", "a"]
    assert [alert.cursor for alert in Alerts(ow).list(limit=1)] == ["b"]


def test_the_shipped_rules_work(ow: Onceward, ow_time: MovingTime) -> None:
    """Each kind has one, and all of them ring when they should."""
    evaluator = AlertEvaluator(ow, DEFAULT_RULES)
    assert steps(evaluator) == []
    set_errors(ow, 99, "failing")
    set_lag(ow, 7, 1000, "behind")
    ow.cursors.acquire("restless", "w0", 1.0)
    for number in range(1, 4):
        ow_time.advance(seconds=50)
        assert ow.cursors.acquire("restless", f"w{number}", 1.0)
    with ow.transaction() as tx:
        message = RetryMessage(cursor="deadly", position="1", raw=b"{}")
        ow.dead.add(tx, message, Failure(type="ValueError", message="no"))
        for number in range(11):
            waiting = RetryMessage(cursor="parked", position=str(number), raw=b"{}")
            ow.retries.parked.park(tx, waiting, failure=Failure(type="ValueError", message="no"))
    evaluator.evaluate()
    ow_time.advance(seconds=301)
    again = AlertEvaluator(ow, DEFAULT_RULES)
    again.evaluate()
    assert Alerts(ow).firing() == {"lag": 1, "steals": 1, "errors": 1, "parked": 1, "dead": 1}
