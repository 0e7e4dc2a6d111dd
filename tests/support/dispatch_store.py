"""A world for dispatching: a store, groups with real agents, and dispatchers here or elsewhere."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from onceward.client import open as open_handle
from onceward.dispatch.channels import Channel
from onceward.dispatch.dispatcher import Dispatcher
from onceward.dispatch.models import DeliveryState, Group, NewMessage, Reply
from onceward.dispatch.operator_actions import Operators
from onceward.retries.retry_schedule import FixedDelays
from onceward.system import process_stat
from tests.support.chat_letters import ChatLetters
from tests.support.waiting import until

AGENT = Path(__file__).with_name("dispatch_agent.py")
#: Nothing but the standard library: it starts in a few milliseconds.
BARE = (sys.executable, "-I", "-S", str(AGENT))
KIT = (sys.executable, str(AGENT), "kit")
PATIENCE_SECONDS = 240.0
#: How long an agent may take in a test that waits for that limit. A busy machine may need so long
#: to start one, so the first counts at which it did not.
HARD_SECONDS = (0.4, 3.0, 20.0)
QUICKLY = FixedDelays(seconds=(0.1, 0.1))


class World:
    """What people and operators see from outside."""

    def __init__(self, url: str, place: Path) -> None:
        self.url, self.place = url, place
        place.mkdir(parents=True, exist_ok=True)
        self.ow = open_handle(url)
        self.dead = ChatLetters(self.ow)
        self.dispatcher = self.made()
        self._running: list[Dispatcher] = []
        self._lives: list[subprocess.Popen[bytes]] = []

    # --- dispatchers ----------------------------------------------------------------------------

    def made(self, channels: Mapping[str, Channel] | None = None, **options: Any) -> Dispatcher:
        """Return a dispatcher that by default retries quickly."""
        chosen = {"ow": self.ow, "schedule": QUICKLY, "poll_seconds": 0.02, **options}
        return Dispatcher(home=self.place, channels=channels, **chosen)

    def start(self, channels: Mapping[str, Channel] | None = None, **options: Any) -> Dispatcher:
        """Start a dispatcher in this process."""
        return self.start_made(self.made(channels, **options))

    def start_made(self, dispatcher: Dispatcher) -> Dispatcher:
        """Start this dispatcher in this process."""
        self.dispatcher = dispatcher
        dispatcher.start()
        self._running.append(dispatcher)
        return dispatcher

    def neighbour(self, looks: Path, prefix: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """Start a dispatcher in a process of its own that notes what it finds at each look."""
        words = [*prefix, sys.executable, "-m", "tests.support.dispatcher_process"]
        words += [self.url, str(self.place), str(looks)]
        # A group of its own: a prefix that is killed may leave a process that changed its user.
        process = subprocess.Popen(words, process_group=0)
        self._lives.append(process)
        return process

    def life(self, prefix: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """Start a dispatcher in a process of its own, and wait until it holds the store."""
        before = self.dispatcher.holder
        process = self.neighbour(self.place / "looks", prefix)
        until(lambda: self.dispatcher.holder not in (None, before), "it does not hold the store")
        return process

    def close(self) -> None:
        for dispatcher in self._running:
            dispatcher.stop(seconds=60)
        for process in self._lives:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.ow.close()

    # --- groups ---------------------------------------------------------------------------------

    def group(self, name: str = "team", *, with_kit: bool = False, **fields: Any) -> Path:
        """Add a group, and return the directory in which its agent works."""
        given = {"channel": "chat", "command": KIT if with_kit else BARE, **fields}
        self.dispatcher.groups.add(Group(name=name, **given))
        own = self.place / "groups" / name
        own.mkdir(parents=True, exist_ok=True)
        return own

    def tell(self, text: str, id_: str | None = None, *, group: str = "team") -> None:
        """Say something, and wake the dispatcher that is here."""
        message = NewMessage(group=group, id=id_ or text, sender="ann", text=text)
        self.dispatcher.arrivals.receive(message)
        self.dispatcher.wake()

    # --- what is seen ---------------------------------------------------------------------------

    def replies(self, group: str = "team") -> list[str]:
        place = 0
        found: list[str] = []
        while True:
            items, place = self.dispatcher.arrivals.conversation(group, place)
            if not items:
                return found
            found += [each.text for each in items if isinstance(each, Reply)]

    def answered(self, *texts: str, group: str = "team") -> None:
        """Wait until these are the replies, and nothing else is."""
        expected = list(texts)
        until(lambda: len(self.replies(group)) >= len(expected), lambda: self.summary(group))
        assert self.replies(group) == expected

    def states(self, group: str = "team") -> list[DeliveryState]:
        return [each.state for each in reversed(self.dispatcher.operators.deliveries(group))]

    def ended(self, *states: DeliveryState, group: str = "team") -> None:
        """Wait until these are the ends of the group's deliveries."""
        until(lambda: self.states(group) == list(states), lambda: self.summary(group))

    def summary(self, group: str) -> object:
        """Return the state of a group, for the message of a wait that failed."""
        operators = self.dispatcher.operators
        return operators.status_of(group), operators.deliveries(group), self.replies(group)

    @property
    def operators(self) -> Operators:
        return self.dispatcher.operators

    def is_idle(self, group: str = "team") -> bool:
        status = self.operators.status_of(group)
        return status.in_flight is None and status.pending == 0 and status.unsent == 0


def lines(path: Path) -> list[str]:
    """Return what an agent noted."""
    return path.read_text().splitlines() if path.exists() else []


def is_running(pid: int) -> bool:
    found = process_stat(pid)
    return found is not None and found.is_alive


@contextmanager
def world(url: str, place: Path) -> Iterator[World]:
    made = World(url, place)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def chat(ow_url: str, tmp_path: Path) -> Iterator[World]:
    with world(ow_url, tmp_path / "home") as made:
        yield made
