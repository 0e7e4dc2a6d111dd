"""A storm: many groups, agents that fail, and a dispatcher that is killed again and again.

Run as `python -m tests.support.storms.dispatch URL DIRECTORY SEED SECONDS GROUPS MESSAGES KILLS
DONE BACK KEPT`, the last five being the least that must happen: it goes on until that has. Prints
a JSON summary; a lost message or a reply shown twice is an AssertionError and exit code 1.
Dispatchers are forked from a parent that has everything imported and has opened nothing.
"""

import itertools
import json
import logging
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.dispatch.dispatcher import Dispatcher
from onceward.dispatch.groups import Groups
from onceward.dispatch.inbox import Inbox
from onceward.dispatch.models import Group, NewMessage, Reply, TriggerKind
from onceward.dispatch.operator_actions import Operators
from onceward.errors import OncewardError, OutcomeUnknown, Retryable
from onceward.retries.retry_schedule import FixedDelays
from tests.support.dispatch_oracle import Fates, fates
from tests.support.file_channel import FileChannel
from tests.support.forked_children import Nursery

AGENT = Path(__file__).with_name("dispatch_agent.py")
KILL_SECONDS = (0.5, 3.0)
HEAL_SECONDS_MAX = 240.0
#: So many times the messages are written at the most, until everything has happened.
TIMES_MAX = 20
#: People write no faster than they are answered, so that a busy machine has as many deliveries.
WAITING_MAX = 3
#: The groups' channels in turn, and how often each is asked for.
CHANNELS = ("chat", "keyed", "keyed", "blind")
TIMES = ("2026-02-06T12:00:00Z", "2026-02-06T12:00:00Z", "1999-01-01T00:00:00.5+09:00", None)
SCHEDULE = FixedDelays(seconds=(0.05, 0.1, 0.2))


class BusyChannel(FileChannel):
    """A channel that is slow and busy, and does not always answer."""

    def __init__(self, directory: Path, *, takes_keys: bool) -> None:
        super().__init__(directory, takes_keys=takes_keys)
        self._source = random.Random()

    def send(self, *, key: str, group: str, text: str) -> None:
        if self._source.random() < 0.05:
            message = "busy"
            raise Retryable(message)
        time.sleep(self._source.uniform(0, 0.01))
        super().send(key=key, group=group, text=text)
        if self.takes_keys and self._source.random() < 0.05:
            message = "no answer"
            raise OutcomeUnknown(message)


def receive(arrivals: Inbox, message: NewMessage) -> None:
    """Send a message until it is acknowledged, as a person's client does on a busy machine."""
    until = time.monotonic() + HEAL_SECONDS_MAX
    while True:
        try:
            arrivals.receive(message)
        except OncewardError as exc:
            if not exc.retryable or time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return


@dataclass(frozen=True, kw_only=True, slots=True)
class Least:
    """What must happen, or nothing was tried."""

    messages: int
    kills: int
    #: How many deliveries must end how.
    states: Mapping[str, int]


class Storm:
    """One run."""

    def __init__(self, url: str, directory: Path, seed: int, least: Least) -> None:
        self.url, self.directory, self.least = url, directory, least
        self.source = random.Random(seed)
        self.names: list[str] = []
        self.kills = self.last = 0
        #: By group and id: the messages that were acknowledged to a channel.
        self.acknowledged: set[tuple[str, str]] = set()
        directory.mkdir(exist_ok=True)
        self.nursery = Nursery(lambda _: self.dispatch())

    def dispatch(self) -> None:
        """Be a dispatcher until the end."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        logging.disable(logging.CRITICAL)
        channels = {
            "keyed": BusyChannel(self.directory, takes_keys=True),
            "blind": BusyChannel(self.directory, takes_keys=False),
        }
        with open_handle(self.url) as ow:
            home = self.directory / "home"
            made = Dispatcher(ow, home=home, channels=channels, schedule=SCHEDULE)
            stopping = SimpleQueue[None]()
            signal.signal(signal.SIGTERM, lambda *_: stopping.put(None))
            made.start()
            stopping.get()
            made.stop()

    def prepare(self, ow: Onceward, count: int) -> None:
        groups = Groups(ow.store)
        for number in range(count):
            name = f"g{number}"
            is_quiet = number % 5 == 4
            groups.add(
                Group(
                    name=name,
                    channel=CHANNELS[number % len(CHANNELS)],
                    command=(sys.executable, str(AGENT), str(self.directory / "calm")),
                    trigger=TriggerKind.PREFIX if is_quiet else TriggerKind.ALWAYS,
                    word="@bot" if is_quiet else "",
                )
            )
            self.names.append(name)

    def produce(self, ow: Onceward, seconds: float) -> None:
        """Let people write, now and then twice, until enough of it has happened."""
        arrivals, operators = Inbox(ow.store), Operators(ow.store)
        source = random.Random(self.source.random())
        began = time.monotonic()
        for number in itertools.count():
            if number >= self.least.messages and self.is_enough(ow):
                return
            assert number < TIMES_MAX * self.least.messages, self.kills
            due = began + seconds * number / self.least.messages
            time.sleep(max(0.0, due - time.monotonic()))
            group = source.choice(self.names)
            until = time.monotonic() + HEAL_SECONDS_MAX
            while (found := operators.status_of(group)).is_called and found.pending >= WAITING_MAX:
                assert time.monotonic() < until, found
                time.sleep(0.05)
            message = NewMessage(
                group=group,
                id=f"m{number}",
                sender="ann",
                text=source.choice(["@bot help", "@bot help", "by the way"]),
                timestamp=source.choice(TIMES),
            )
            for _ in range(source.choice([1, 1, 1, 2])):
                receive(arrivals, message)
            self.acknowledged.add((message.group, message.id))

    def is_enough(self, ow: Onceward) -> bool:
        """Return whether as much has happened as must."""
        select = ow.store.select
        states = "select state, count(*) from {} group by state"
        ends: dict[str, int] = dict(select(states.format("dispatch_deliveries")))
        replies: dict[str, int] = dict(select(states.format("dispatch_outbox")))
        ((recovered,),) = select(
            "select count(*) from dispatch_deliveries where error = 'recovered'"
        )
        return (
            self.kills >= self.least.kills
            and recovered >= self.least.kills // 2
            and replies.get("sent", 0) >= self.least.states["done"]
            and all(ends.get(state, 0) >= count for state, count in self.least.states.items())
        )

    def fire(self, seconds: float, producing: Future[None]) -> None:
        """Kill the dispatcher at random, and start another, while people write."""
        began = time.monotonic()
        self.last = self.nursery.start()
        while time.monotonic() - began < seconds or not producing.done():
            time.sleep(self.source.uniform(*KILL_SECONDS))
            os.kill(self.last, signal.SIGKILL)
            self.kills += 1
            self.last = self.nursery.start()

    def heal(self, ow: Onceward) -> None:
        """Wait until nothing is in flight, nothing waits, and nothing is unsent."""
        (self.directory / "calm").touch()
        operators = Operators(ow.store)
        deadline = time.monotonic() + HEAL_SECONDS_MAX
        while time.monotonic() < deadline:
            time.sleep(0.2)
            found = operators.status()
            if not any(each.in_flight or each.unsent or each.is_called for each in found):
                return
        raise AssertionError([each for each in found if each.in_flight or each.unsent])

    def run(self, seconds: float, groups: int) -> dict[str, object]:
        with open_handle(self.url) as ow:
            self.prepare(ow, groups)
            people = ThreadPoolExecutor(1)
            producing = people.submit(self.produce, ow, seconds * 0.9)
            try:
                self.fire(seconds, producing)
                producing.result()
                self.heal(ow)
            finally:
                os.kill(self.last, signal.SIGTERM)
                self.nursery.close()
            found = fates(ow)
            answers = self.check(ow, found)
        return {
            "kills": self.kills,
            "messages": dict(Counter(found.messages.values())),
            "deliveries": dict(found.deliveries),
            "sayings": dict(found.sayings),
            "recovered": found.recovered,
            "answers": answers,
        }

    # --- what must hold -------------------------------------------------------------------------

    def check(self, ow: Onceward, found: Fates) -> int:
        """Every message is there and dealt with, and was answered at most once."""
        assert set(found.messages) == self.acknowledged
        answers = 0
        for group in Groups(ow.store).list():
            shown = self.shown(ow, group)
            keys = [key for key, _ in shown]
            assert len(keys) == len(set(keys)), f"{group.name}: shown twice"
            answered = Counter(
                id_ for _, text in shown for id_ in text.removeprefix("re: ").split()
            )
            answers += answered.total()
            for (name, id_), fate in found.messages.items():
                if name == group.name:
                    self.check_fate(group, id_, fate, answered[id_])
            self.check_order(ow, group, keys)
        return answers

    def check_fate(self, group: Group, id_: str, fate: str, answers: int) -> None:
        least = {"done": 1}.get(fate, 0)
        most = {"done": 1, "kept": 1}.get(fate, 0)
        if group.channel == "blind":
            least = 0  # What was being sent in a crash is not sent again.
        assert least <= answers <= most, (group.name, id_, fate, answers)
        if fate == "pending":
            assert group.trigger is TriggerKind.PREFIX, (group.name, id_)
        assert fate != "running", (group.name, id_)

    def shown(self, ow: Onceward, group: Group) -> list[tuple[str, str]]:
        """Return what people have seen: keys and texts, in order."""
        if group.channel != "chat":
            path = self.directory / f"shown-{group.name}"
            lines = path.read_text().splitlines() if path.exists() else []
            return [(key, text) for key, _, text in (line.partition("\t") for line in lines)]
        arrivals, place = Inbox(ow.store), 0
        found: list[tuple[str, str]] = []
        while True:
            items, place = arrivals.conversation(group.name, place)
            if not items:
                return found
            found += [(each.key, each.text) for each in items if isinstance(each, Reply)]

    def check_order(self, ow: Onceward, group: Group, keys: list[str]) -> None:
        rows = ow.store.select(
            "select key from dispatch_outbox where group_name = ? order by id", [group.name]
        )
        order = {key: place for place, (key,) in enumerate(rows)}
        places = [order[key] for key in keys]
        assert places == sorted(places), group.name


def main(url: str, directory: Path, seed: int, seconds: float, groups: int, *least: int) -> None:
    messages, kills, done, back, kept = least
    states = {"done": done, "rolled back": back, "kept": kept}
    try:
        storm = Storm(url, directory, seed, Least(messages=messages, kills=kills, states=states))
        json.dump(storm.run(seconds, groups), sys.stdout)
    except OncewardError as exc:
        raise AssertionError(exc.message) from exc


if __name__ == "__main__":
    url, directory, seed, seconds, *numbers = sys.argv[1:]
    main(url, Path(directory), int(seed), float(seconds), *map(int, numbers))
