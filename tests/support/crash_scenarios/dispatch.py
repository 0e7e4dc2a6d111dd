"""Dispatching under kill -9: dispatchers with real agents, what became of messages, and replies."""

import itertools
import logging
import time
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.dispatch.dispatcher import Dispatcher
from onceward.dispatch.groups import Groups
from onceward.dispatch.inbox import Inbox
from onceward.dispatch.models import Group, NewMessage, Reply
from onceward.retries.retry_schedule import FixedDelays
from tests.support.dispatch_oracle import fates
from tests.support.dispatch_store import BARE
from tests.support.killed_processes import Ack, Life, Place, Scenario, Step
from tests.support.storms.dispatch import BusyChannel

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
#: So many tries that no channel is away for all of them.
SCHEDULE = FixedDelays(seconds=(0.02, 0.05, 0.05, 0.05, 0.05, 0.05))
#: How often in a row there is nothing to do when all is done.
QUIET = 3


class Talking(Scenario):
    """A message that was taken is there, and dealt with once; an answer is shown once."""

    limits: ClassVar = {
        "dispatch.recover.before_commit": (1, "one group is in flight when a life begins")
    }
    passes_max = 3
    is_ending = True
    then_max = 2  # Agents take their time.

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        with open_handle(self.url) as ow:
            for name, channel in CHANNELS.items():
                Groups(ow.store).add(Group(name=name, channel=channel, command=BARE))

    def dispatcher(self, ow: Onceward) -> Dispatcher:
        channels = {"keyed": BusyChannel(self.directory, takes_keys=True)}
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
                for letter in ow.dead.list(source="chat"):
                    ow.dead.redrive(letter.id, actor="matrix")
                time.sleep(0.02)

    def finish(self, life: int, ack: Ack) -> None:
        """Say something in every group, and let everything come to its end."""
        logging.disable(logging.CRITICAL)
        deadline = time.monotonic() + HEAL_SECONDS_MAX
        with open_handle(self.url) as ow:
            dispatcher, done = self.dispatcher(ow), self.count(ow, "state = 'done'")
            for group in CHANNELS:
                given = NewMessage(group=group, id=f"{life}", sender="ann", text=f"!say re {life}")
                dispatcher.arrivals.receive(given)
            dispatcher.wake()
            while self.count(ow, "state = 'done'") == done:
                assert time.monotonic() < deadline, "no agent answers"
                time.sleep(0.002)
            ack("done")
            while self.is_busy(dispatcher, deadline):
                # What began just before it was stopped has words that are not sent yet.
                dispatcher = self.dispatcher(ow)
            for group in CHANNELS:
                ack(f"{group} {life}")

    def is_busy(self, dispatcher: Dispatcher, deadline: float) -> bool:
        """Stop a dispatcher that has nothing to do, and say whether it had after all."""
        quiet, status = 0, dispatcher.operators.status

        def is_open() -> bool:
            return any(each.in_flight or each.unsent or each.is_called for each in status())

        # Not read at one moment: what begins just then is seen the next time.
        while quiet < QUIET:
            assert time.monotonic() < deadline, status()
            quiet = 0 if is_open() else quiet + 1
            time.sleep(0.02)
        dispatcher.stop()
        return is_open()

    def count(self, ow: Onceward, condition: str) -> int:
        """Count deliveries."""
        rows = ow.store.select(f"select count(*) from dispatch_deliveries where {condition}")
        return int(rows[0][0])

    def check(self, lives: Sequence[Life]) -> None:
        acknowledged = {tuple(ack.split()) for life in lives for ack in life.acks if ack != "done"}
        with open_handle(self.url) as ow:
            found = fates(ow).messages
            # What an agent had in its hands when it died, and was handed out again.
            self.repeated = self.count(ow, "error = 'recovered' and state = 'rolled back'")
        assert acknowledged <= set(found), acknowledged - set(found)
        assert self.repeated < len(lives) * len(CHANNELS)

    def settle(self, lives: Sequence[Life]) -> None:  # noqa: ARG002 - the shape
        with open_handle(self.url) as ow:
            found = fates(ow).messages
            answers = {name: self.answers(ow, name) for name in CHANNELS}
            said = ow.store.select("select key, body, state, attempt_count from dispatch_outbox")
        for (group, id_), fate in found.items():
            least, most = {"done": (1, 1), "kept": (0, 1), "dead": (0, 0)}[fate]
            shown = answers[group][f"re {id_}"]
            assert least <= shown <= most, (group, id_, fate, shown, said)

    def answers(self, ow: Onceward, group: str) -> Counter[str]:
        """Count what people of a group have seen."""
        path = self.directory / f"shown-{group}"
        if path.exists():
            return Counter(line.partition("\t")[2] for line in path.read_text().splitlines())
        found: Counter[str] = Counter()
        place = 0
        while True:
            items, place = Inbox(ow.store).conversation(group, place)
            if not items:
                return found
            found.update(each.text for each in items if isinstance(each, Reply))

    @classmethod
    def before(cls, step: Step, previous: Step | None) -> Step | None:  # noqa: ARG003 - the shape
        """Leave a message in flight to whom recovery is to kill."""
        is_recovering = step.point.startswith("dispatch.recover.")
        return Step("dispatch.begin.after_commit") if is_recovering else None


SCENARIOS: dict[str, type[Scenario]] = {"dispatch.": Talking}
