"""Workers hunted: the holder of a cursor is killed or frozen, again and again, at any moment.

Run as `python -m tests.support.storms.workers URL SECONDS SEED`. Prints a JSON summary. Workers are
forked from a parent that has everything imported and has opened nothing.
"""

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import orjson

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.retries import DeadLetterDetail, FixedDelays
from onceward.stores import Transaction
from onceward.workers import App, Item, Message, Worker
from onceward.workers.models import POISON_DEATHS, POISON_DEATHS_MAX
from onceward.workers.poison_guard import count_deaths
from tests.support.forked_children import Nursery
from tests.support.waiting import until

WORKERS = 3
LEASE_SECONDS = 0.3
SCHEDULE = FixedDelays(seconds=(0.02, 0.05, 0.05, 0.1, 0.1))
CURSORS = ("by_cursor", "by_key", "alone")
#: How long decoding and handling take: most deaths happen there.
DECODE_SECONDS, HANDLE_SECONDS = 0.002, 0.004
#: How many holders of one cursor are killed in a row: more than it takes until messages are noted.
HUNT = (2, 9)
READ_MAX = 8


class Numbers:
    """Messages 1, 2, 3 and so on, up to a number that is written when the storm is over."""

    def __init__(self, place: Path) -> None:
        self._last = place / "last"

    def read(self, after: str | None, limit: int) -> list[Item]:
        last = int(self._last.read_text()) if self._last.exists() else sys.maxsize
        first = int(after or 0) + 1
        numbers = range(first, min(first + min(limit, READ_MAX), last + 1))
        return [
            Item(position=str(n), raw=orjson.dumps({"n": n, "k": f"k{n % 3}"})) for n in numbers
        ]


def decode(raw: bytes) -> Any:
    time.sleep(DECODE_SECONDS)
    return orjson.loads(raw)


def fails(message: Message) -> bool:
    """Say whether this attempt fails: some messages once, some for good."""
    number = message["n"]
    return number % 29 == 0 or (number % 13 == 0 and message.attempt == 1)


def effect(message: Message, tx: Transaction) -> None:
    row = [message.cursor, message["n"], message.attempt]
    tx.execute("insert into effects values (?, ?, ?)", row)
    time.sleep(HANDLE_SECONDS)
    if fails(message):
        raise ValueError(message["n"])


def effects(messages: list[Message], tx: Transaction) -> None:
    for message in messages:
        effect(message, tx)


def work(url: str, place: Path) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    app = App(url)
    common: dict[str, Any] = {
        "source": Numbers(place),
        "decode": decode,
        "retry": SCHEDULE,
        "lease_seconds": LEASE_SECONDS,
        "poll_seconds": 0.05,
    }
    app.consumer("by_cursor", **common)(effect)
    # More deaths than attempts: of these the schedule alone must explain every dead letter.
    common["poison_deaths"] = POISON_DEATHS_MAX
    app.consumer("by_key", order="key", key=lambda data: data["k"], **common)(effect)
    app.consumer("alone", order="none", batch=4, **common)(effects)
    worker = Worker(app, threads=3)
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    worker.run()


class Storm:
    """One run."""

    def __init__(self, url: str, seconds: float, seed: int) -> None:
        self.url, self.seconds, self.source = url, seconds, random.Random(seed)
        self.place = Path(tempfile.mkdtemp(prefix="onceward-storm-"))
        self.nursery = Nursery(lambda _: work(url, self.place))
        self.faults: Counter[str] = Counter()
        self.workers: list[int] = []

    def run(self) -> dict[str, object]:
        with open_handle(self.url) as ow:
            with ow.transaction() as tx:
                tx.execute("create table effects (cursor_name text, n bigint, attempt bigint)")
            self.workers = [self.nursery.start() for _ in range(WORKERS)]
            try:
                last = self.rage(ow)
                heal(ow, last)
                summary = check(ow, last)
            finally:
                for pid in self.workers:
                    os.kill(pid, signal.SIGTERM)
                self.nursery.close()
        return {**summary, "faults": dict(self.faults)}

    def rage(self, ow: Onceward) -> int:
        """Hunt until the time is over; return the last number that there is from now on."""
        until(lambda: {each.name for each in ow.cursors.list()} >= set(CURSORS), "none works")
        deadline = time.monotonic() + self.seconds
        while time.monotonic() < deadline:
            self.hunt(ow, self.source.choice(CURSORS), deadline)
        # No worker that may have read further is left: only a commit on its way can still arrive.
        for pid in self.workers:
            self.kill(pid)
        last = max(int(each.position or 0) for each in ow.cursors.list()) + 2 * READ_MAX
        (self.place / "last").write_text(str(last))
        self.workers = [self.nursery.start() for _ in range(WORKERS)]
        return last

    def hunt(self, ow: Onceward, cursor: str, deadline: float) -> None:
        """Kill or freeze one holder of a cursor after another, each soon after it took over."""
        for _ in range(self.source.randint(*HUNT)):
            while (pid := holder(ow, cursor)) not in self.workers:
                if time.monotonic() > deadline:
                    return
                time.sleep(0.01)
            time.sleep(self.source.random() * 0.03)
            if self.source.random() < 0.2:
                os.kill(pid, signal.SIGSTOP)
                self.faults["freeze"] += 1
                time.sleep(self.source.random() * 3 * LEASE_SECONDS)
                if self.source.random() < 0.5:
                    os.kill(pid, signal.SIGCONT)
                    continue
            self.kill(pid)
            self.workers[self.workers.index(pid)] = self.nursery.start()

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        self.faults["kill"] += 1


def holder(ow: Onceward, cursor: str) -> int:
    """Return the process that holds a cursor; 0 if none does."""
    found = [each for each in ow.cursors.list() if each.name == cursor]
    owner = found[0].lease_owner if found else None
    return int(owner.split("/")[1]) if owner else 0


def heal(ow: Onceward, last: int) -> None:
    """Wait until everything is done or dead."""

    def seen() -> tuple[dict[str, str | None], int]:
        positions = {each.name: each.position for each in ow.cursors.list()}
        return positions, sum(ow.retries.parked.waiting(cursor).messages for cursor in CURSORS)

    def is_whole() -> bool:
        positions, waiting = seen()
        return not waiting and {positions.get(cursor) for cursor in CURSORS} == {str(last)}

    until(is_whole, lambda: f"not at {last}: {seen()}")


def check(ow: Onceward, last: int) -> dict[str, object]:
    lost = doubled = counted = 0
    unexplained = []
    for cursor in CURSORS:
        with ow.transaction() as tx:
            rows = tx.execute("select n, attempt from effects where cursor_name = ?", [cursor])
        done = Counter(int(row[0]) for row in rows)
        letters = ow.dead.list(cursor=cursor, limit=10_000)
        dead = {int(each.position) for each in letters}
        lost += len(set(range(1, last + 1)) - set(done) - dead)
        doubled += sum(count > 1 for count in done.values()) + len(set(done) & dead)
        #: Of messages that never fail by themselves, only a death is a failed attempt.
        counted += sum(attempt > 1 and n % 29 and n % 13 for n, attempt in rows)
        shown = [ow.dead.show(letter.id) for letter in letters]
        unexplained += [f"{cursor}: {each}" for each in shown if not is_explained(each)]
    return {
        "lost": lost,
        "doubled": doubled,
        "unexplained": unexplained,
        "work": last * len(CURSORS),
        "reached": {
            "a death was an attempt": counted,
            "taken over": sum(each.steal_count for each in ow.cursors.list()),
        },
    }


def is_explained(letter: DeadLetterDetail) -> bool:
    """Say whether a letter has all the attempts of its schedule, or as many deaths as poison."""
    if len(letter.failures) != letter.attempts:
        return False
    if letter.error_type == "PoisonMessage":
        # The last failure, which says so, is the third death.
        return letter.cursor == "by_cursor" and count_deaths(letter.failures) == POISON_DEATHS - 1
    is_failing = int(letter.position) % 29 == 0 or letter.error_type == "WorkerDied"
    return is_failing and letter.attempts == len(SCHEDULE.seconds) + 1


if __name__ == "__main__":
    ran = Storm(sys.argv[1], float(sys.argv[2]), int(sys.argv[3])).run()
    sys.stdout.write(json.dumps(ran))
