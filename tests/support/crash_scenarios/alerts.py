"""Alerts under kill -9: one evaluator after another, and the notifications that were sent."""

from collections.abc import Mapping, Sequence

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.workers.alert_delivery import AlertSender
from onceward.workers.alert_models import AlertRule
from onceward.workers.alerts import AlertEvaluator, Alerts
from tests.support.killed_processes import Ack, Life, Place, Scenario

ROUNDS_MAX = 1000
RULES = [
    AlertRule(
        name="failing",
        kind="errors",
        cursor="*",
        threshold=3.0,
        for_seconds=0.0,
        clear=0.0,
        window_seconds=0.0,
        webhook="http://hook.test",
    )
]


class Ringing(Scenario):
    """Each time that a cursor goes wrong is one alert, sent under one key, at least once."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.sent: set[str] = set()
        with open_handle(self.url) as ow:
            ow.cursors.acquire("c", "w")
            with ow.transaction() as tx:
                tx.execute("create table times (number bigint)")

    def work(self, life: int, ack: Ack) -> None:  # noqa: ARG002 - the shape
        with open_handle(self.url) as ow:
            evaluator = self.evaluator(ow)
            sender = self.sender(ow, ack)
            sender.deliver()  # What the life before left.
            for _ in range(ROUNDS_MAX):
                if not self.is_wrong(ow):
                    self.set_errors(ow, 9)
                evaluator.evaluate()
                sender.deliver()
                self.set_errors(ow, 0)
                evaluator.evaluate()
                sender.deliver()

    def evaluator(self, ow: Onceward) -> AlertEvaluator:
        evaluator = AlertEvaluator(ow, RULES)
        # The one there is: the lease of a dead one would have to run out first.
        evaluator._holder = "matrix"
        return evaluator

    def sender(self, ow: Onceward, ack: Ack) -> AlertSender:
        def send(_: str, body: Mapping[str, object], key: str) -> None:
            assert body["id"] == key
            ack(key)

        return AlertSender(ow, RULES, send=send)

    def set_errors(self, ow: Onceward, count: int) -> None:
        with ow.transaction() as tx:
            tx.execute("update cursor_positions set error_count = ?", [count])
            if count:
                tx.execute("insert into times values (1)")

    def is_wrong(self, ow: Onceward) -> bool:
        return ow.cursors.show("c").error_count > 0

    def check(self, lives: Sequence[Life]) -> None:
        sent = [ack for life in lives for ack in life.acks]
        self.repeated = len(sent) - len({*sent})
        assert self.repeated < len(lives), "a process sent more than one alert again"
        self.look(sent)

    def look(self, sent: list[str]) -> None:
        self.sent |= {*sent}
        with open_handle(self.url) as ow:
            with ow.transaction() as tx:
                times = len(tx.execute("select number from times"))
            alerts = Alerts(ow).list(10_000)
        assert len(alerts) in (times, times - 1), (len(alerts), times)
        assert sum(alert.state != "cleared" for alert in alerts) <= 1
        keys = {f"{alert.id}:{event}" for alert in alerts for event in ("fired", "cleared")}
        assert self.sent <= keys, self.sent - keys
        for alert in alerts:
            if alert.fired_sent_at:
                assert f"{alert.id}:fired" in self.sent
            if alert.cleared_sent_at:
                assert f"{alert.id}:cleared" in self.sent
                assert alert.fired_sent_at

    def settle(self, lives: Sequence[Life]) -> None:  # noqa: ARG002 - the shape
        """Let the last process send what is left; then every alert was sent."""
        acks: list[str] = []
        with open_handle(self.url) as ow:
            self.sender(ow, acks.append).deliver()
            self.look(acks)
            assert not [alert for alert in Alerts(ow).list(10_000) if alert.unsent]


SCENARIOS: dict[str, type[Scenario]] = {"alerts.": Ringing}
