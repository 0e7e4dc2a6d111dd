"""Kill one console after another in the middle of an action, and press the button again.

Run as `python -m tests.system.console_matrix POINT TIMES SEED URL`. Forks from a parent that has
everything imported. Prints a JSON summary; a broken promise is an AssertionError and exit code 1.
"""

import json
import random
import sys
from collections import Counter
from typing import Any

from onceward.console.acting import Acting, Action
from onceward.console.house import House
from onceward.handle import Onceward
from onceward.handle import open as open_handle
from onceward.stores import Transaction
from tests.system.lives import Ack, live_and_die, scenario_for

#: How many passes of the point a child may make before it dies.
PASSES_MAX = 6
ROUNDS_MAX = 1000
CURSOR = "c"


class Pressing:
    """Every button that was pressed, once or again after a crash, has done its work once."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.told: set[str] = set()
        with open_handle(url) as ow:
            ow.cursors.acquire(CURSOR, "w")

    def work(self, life: int, ack: Ack) -> None:  # noqa: ARG002 - the shape
        with open_handle(self.url) as ow:
            acting = Acting(House(ow=lambda: ow, store_url=ow.store.url, version="0", actor="ann"))
            # The button that the life before had pressed, and nobody heard of, is pressed first.
            for number in range(len(self.told), ROUNDS_MAX):
                press(acting, ow, f"seek-{number}")
                press(acting, ow, f"seek-{number}")
                ack(f"seek-{number}")

    def check(self, acks: list[str]) -> None:
        self.told |= set(acks)
        with open_handle(self.url) as ow:
            history = ow.cursors.history(CURSOR, 10_000)
            with ow.transaction() as tx:
                kept = tx.execute("select request_id, outcome from onceward_audit")
        seeks = Counter(entry.reason for entry in history)
        audited = Counter(key for key, outcome in kept if outcome == "done")
        assert set(seeks.values()) <= {1}, seeks.most_common(3)
        assert seeks == audited, (seeks - audited, audited - seeks)
        assert self.told <= set(seeks), self.told - set(seeks)


def press(acting: Acting, ow: Onceward, key: str) -> None:
    """Seek to a position of its own, under a key."""

    def seek(_: Transaction) -> dict[str, Any]:
        move = ow.cursors.seek(CURSOR, key, reason=key, actor="ann")
        return {"to": move.to_position}

    acting.do(Action(name="cursor.seek", target=CURSOR, key=key, body={"to": key}), seek)


SCENARIOS: dict[str, type[Pressing]] = {"console.": Pressing}


def main(point: str, times: int, seed: int, url: str) -> None:
    source = random.Random(seed)
    acknowledged = 0
    scenario = scenario_for(point, SCENARIOS)(url)
    for life in range(times):
        acks = live_and_die(scenario.work, f"{point}:{source.randint(1, PASSES_MAX)}:kill", life)
        acknowledged += len(acks)
        scenario.check(acks)
    json.dump({"point": point, "kills": times, "acknowledged": acknowledged}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
