"""Kill one evaluator after another at one crash point of alerts, and see who was told what.

Run as `python -m tests.system.alert_matrix POINT TIMES SEED URL`. Forks from a parent that has
everything imported. Prints a JSON summary; a broken promise is an AssertionError and exit code 1.
"""

import json
import random
import sys
from collections.abc import Mapping

from onceward.handle import Onceward
from onceward.handle import open as open_handle
from onceward.workers.alert_models import Rule
from onceward.workers.alert_sending import Sender
from onceward.workers.alerts import Alerts, Evaluator
from tests.system.lives import Ack, live_and_die, scenario_for

#: How many passes of the point a child may make before it dies.
PASSES_MAX = 6
ROUNDS_MAX = 1000
RULES = [
    Rule(
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


class Ringing:
    """Each time that a cursor goes wrong is one alert, told under one key, at least once."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.told: set[str] = set()
        with open_handle(url) as ow:
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
                evaluator.tick()
                sender.deliver()
                self.set_errors(ow, 0)
                evaluator.tick()
                sender.deliver()

    def evaluator(self, ow: Onceward) -> Evaluator:
        evaluator = Evaluator(ow, RULES)
        # The one there is: the lease of a dead one would have to run out first.
        evaluator._holder = "matrix"
        return evaluator

    def sender(self, ow: Onceward, ack: Ack) -> Sender:
        def send(_: str, body: Mapping[str, object], key: str) -> None:
            assert body["id"] == key
            ack(key)

        return Sender(ow, RULES, send=send)

    def set_errors(self, ow: Onceward, count: int) -> None:
        with ow.transaction() as tx:
            tx.execute("update cursor_positions set error_count = ?", [count])
            if count:
                tx.execute("insert into times values (1)")

    def is_wrong(self, ow: Onceward) -> bool:
        return ow.cursors.show("c").error_count > 0

    def check(self, acks: list[str]) -> None:
        self.told |= set(acks)
        with open_handle(self.url) as ow:
            with ow.transaction() as tx:
                times = len(tx.execute("select number from times"))
            alerts = Alerts(ow).list(10_000)
        assert len(alerts) in (times, times - 1), (len(alerts), times)
        assert sum(alert.state != "cleared" for alert in alerts) <= 1
        keys = {f"{alert.id}:{event}" for alert in alerts for event in ("fired", "cleared")}
        assert self.told <= keys, self.told - keys
        for alert in alerts:
            if alert.fired_sent_at:
                assert f"{alert.id}:fired" in self.told
            if alert.cleared_sent_at:
                assert f"{alert.id}:cleared" in self.told
                assert alert.fired_sent_at

    def end(self) -> None:
        """Let whoever comes last tell the rest; then everything was told."""
        acks: list[str] = []
        with open_handle(self.url) as ow:
            self.sender(ow, acks.append).deliver()
            self.check(acks)
            assert not [alert for alert in Alerts(ow).list(10_000) if alert.unsent]


SCENARIOS: dict[str, type[Ringing]] = {"alerts.": Ringing}


def main(point: str, times: int, seed: int, url: str) -> None:
    source = random.Random(seed)
    acknowledged = 0
    scenario = scenario_for(point, SCENARIOS)(url)
    for life in range(times):
        acks = live_and_die(scenario.work, f"{point}:{source.randint(1, PASSES_MAX)}:kill", life)
        acknowledged += len(acks)
        scenario.check(acks)
    scenario.end()
    json.dump({"point": point, "kills": times, "acknowledged": acknowledged}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
