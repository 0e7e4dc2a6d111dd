"""Kill one dispatcher after another at one crash point, with real agents, and look at what is left.

Run as `python -m tests.system.dispatch_matrix POINTS TIMES SEED URL DIRECTORY`, where POINTS is how
the names of the points begin. Forks from a parent that has everything imported. Prints a JSON
summary; a broken promise is an AssertionError and exit code 1.
"""

import itertools
import json
import logging
import random
import sys
import time
from collections import Counter
from pathlib import Path

from onceward.crash import POINTS
from onceward.dispatch.arrivals import Arrivals
from onceward.dispatch.dispatcher import Dispatcher
from onceward.dispatch.groups import Groups
from onceward.dispatch.models import Group, NewMessage, Reply
from onceward.dispatch.operators import Operators
from onceward.handle import Onceward
from onceward.handle import open as open_handle
from onceward.retries.schedule import Steps
from tests.conformance.dispatch.oracle import fates
from tests.system.dispatch_storm import FileChannel
from tests.system.dispatch_world import BARE
from tests.system.lives import Ack, live_and_die, scenario_for

#: How many passes of the point a child may make before it dies.
PASSES_MAX = 3
LIFE_SECONDS_MAX = 60.0
HEAL_SECONDS_MAX = 120.0
CHANNELS = {"near": "chat", "far": "keyed", "other": "keyed"}
#: What people say; the answer names the message.
ORDERS = (
    "!sleep 0.03; say re {id}",
    "!once fail; say re {id}",
    "!say re {id}; once exit 1",
    "!once final; say re {id}",
    "!say re {id}",
    "!say re {id}",
    "!say re {id}",
)
SCHEDULE = Steps(seconds=(0.02, 0.05))


class Talking:
    """A message that was taken is there, and dealt with once; an answer is shown once."""

    #: What must be in flight when a life begins, so that the point is passed.
    before: str | None = None

    def __init__(self, url: str, directory: Path) -> None:
        self.url, self.directory = url, directory
        self.told: set[tuple[str, str]] = set()
        directory.mkdir(parents=True, exist_ok=True)
        with open_handle(url) as ow:
            for name, channel in CHANNELS.items():
                Groups(ow.store).add(Group(name=name, channel=channel, command=BARE))

    def dispatcher(self, ow: Onceward) -> Dispatcher:
        channels = {"keyed": FileChannel(self.directory, takes_keys=True)}
        home = self.directory / "home"
        found = Dispatcher(ow, home=home, channels=channels, schedule=SCHEDULE, poll_seconds=0.05)
        found.start()
        return found

    def work(self, life: int, ack: Ack) -> None:
        """Let people write and operators decide, until death."""
        logging.disable(logging.CRITICAL)
        deadline = time.monotonic() + LIFE_SECONDS_MAX
        with open_handle(self.url) as ow:
            dispatcher, orders = self.dispatcher(ow), itertools.cycle(ORDERS)
            for number in itertools.count():
                assert time.monotonic() < deadline, "it lives too long"
                for group in CHANNELS:
                    # So few that now and then none of them fails, and some are follow-ups.
                    found = dispatcher.operators.status_of(group)
                    if found.pending or (found.in_flight and number % 4):
                        continue
                    id_ = f"{life}.{number}"
                    text = next(orders).format(id=id_)
                    given = NewMessage(group=group, id=id_, sender="ann", text=text)
                    dispatcher.arrivals.receive(given)
                    ack(f"{group} {id_}")
                dispatcher.wake()
                for letter in dispatcher.operators.letters():
                    dispatcher.operators.redrive(letter.id)
                time.sleep(0.02)

    def check(self, acks: list[str]) -> None:
        self.told |= {(group, id_) for group, _, id_ in (each.partition(" ") for each in acks)}
        with open_handle(self.url) as ow:
            assert self.told <= set(fates(ow).messages)

    def heal(self) -> Counter[str]:
        """Let a last life finish everything, and find every message dealt with once."""
        logging.disable(logging.CRITICAL)
        with open_handle(self.url) as ow:
            dispatcher = self.dispatcher(ow)
            operators, deadline = Operators(ow.store), time.monotonic() + HEAL_SECONDS_MAX
            while any(e.in_flight or e.unsent or e.is_called for e in operators.status()):
                assert time.monotonic() < deadline, operators.status()
                time.sleep(0.02)
            dispatcher.stop()
            found = fates(ow).messages
            answers = {name: self.answers(ow, name) for name in CHANNELS}
        for (group, id_), fate in found.items():
            least, most = {"done": (1, 1), "kept": (0, 1), "dead": (0, 0)}[fate]
            assert least <= answers[group][f"re {id_}"] <= most, (group, id_, fate)
        return Counter(found.values())

    def answers(self, ow: Onceward, group: str) -> Counter[str]:
        """Count what people of a group have seen."""
        path = self.directory / f"shown-{group}"
        if path.exists():
            return Counter(line.partition("\t")[2] for line in path.read_text().splitlines())
        found: Counter[str] = Counter()
        place = 0
        while True:
            items, place = Arrivals(ow.store).conversation(group, place)
            if not items:
                return found
            found.update(each.text for each in items if isinstance(each, Reply))


class Recovering(Talking):
    """A dispatcher that dies while it recovers leaves it to the next one."""

    before = "dispatch.begin.after_commit:1:kill"


SCENARIOS: dict[str, type[Talking]] = {
    "dispatch.recover.": Recovering,
    "dispatch.": Talking,
}


def main(prefix: str, times: int, seed: int, url: str, directory: Path) -> None:
    source = random.Random(seed)
    kills = acknowledged = 0
    points = [point for point in POINTS if point.startswith(prefix)]
    scenario = Talking(url, directory)
    lives = itertools.count(1)
    for point, _ in itertools.product(points, range(times)):
        before = scenario_for(point, SCENARIOS).before
        passes = 1 if before else source.randint(1, PASSES_MAX)
        for spec in (before, f"{point}:{passes}:kill"):
            if spec is not None:
                acks = live_and_die(scenario.work, spec, next(lives))
                acknowledged += len(acks)
                scenario.check(acks)
        kills += 1
    summary = {"points": len(points), "kills": kills, "acknowledged": acknowledged}
    json.dump({**summary, "fates": scenario.heal()}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], Path(sys.argv[5]))
