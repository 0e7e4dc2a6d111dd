"""Table sources and commits that come late: nothing is passed before it is there."""

import random
import threading
import time

import pytest

from onceward.client import Onceward
from onceward.workers.sources import TablePartitions, TableSource
from tests.support.user_tables import data, make_leads, names

WRITERS = 6
#: The writers go on until they have committed more rows than this, however slow they are.
ROWS_MIN = 150


@pytest.fixture
def leads(ow: Onceward) -> Onceward:
    make_leads(ow)
    return ow


class Writers:
    """Threads that add rows, in transactions of any length, some of which are rolled back."""

    def __init__(self, ow: Onceward, seconds: float) -> None:
        self._ow = ow
        self._end = time.monotonic() + seconds
        self.committed: list[str] = []
        self._threads = [threading.Thread(target=self._run, args=[n]) for n in range(WRITERS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def are_done(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self, number: int) -> None:
        chance = random.Random(number)
        count = 0
        while time.monotonic() < self._end or len(self.committed) <= ROWS_MIN:
            added: list[str] = []
            niche = number * 1_000_000 + count  # One for each transaction, so each counts.
            try:
                with self._ow.transaction() as tx:
                    for _ in range(chance.randint(1, 4)):
                        count += 1
                        added.append(f"{number}-{count}")
                        tx.execute(
                            "insert into leads (name, niche_id) values (?, ?)",
                            [added[-1], niche],
                        )
                        time.sleep(chance.choice([0, 0, 0.001, 0.03]))
                    1 / chance.randrange(10)  # One in ten is rolled back.
            except ZeroDivisionError:
                continue
            self.committed += added


def seconds(prove: bool) -> float:
    return 60 if prove else 3


def test_h20_a_row_that_commits_after_a_later_id_is_not_skipped(
    leads: Onceward, prove: bool
) -> None:
    """Several writers, commits in any order: each row comes once, in an order that stays."""
    source, writers = TableSource(leads, "leads"), Writers(leads, seconds(prove))
    writers.start()
    after: str | None = None
    seen: list[str] = []
    while True:
        was_done = writers.are_done()
        items = source.read(after, 7)
        seen += [data(item.raw)["name"] for item in items]
        after = items[-1].position if items else after
        if was_done and not items:
            break
    assert len(seen) > ROWS_MIN
    assert sorted(seen) == sorted(writers.committed)
    assert names(source, limit=1_000_000) == seen


def test_h20_partitions_are_active_until_all_of_their_rows_are_seen(
    leads: Onceward, prove: bool
) -> None:
    """A reader of only the partitions named active, from marker to marker, misses nothing."""
    partitions, writers = (
        TablePartitions(leads, "leads", by="niche_id"),
        Writers(leads, seconds(prove)),
    )
    writers.start()
    positions: dict[str, str] = {}
    seen: list[str] = []
    marker: str | None = None
    while True:
        was_done = writers.are_done()
        active = partitions.active(marker)
        marker = active.marker
        for key in active.keys:
            while items := partitions.source(key).read(positions.get(key), 5):
                seen += [data(item.raw)["name"] for item in items]
                positions[key] = items[-1].position
        if was_done and not active.keys:
            break
    assert len(seen) > ROWS_MIN
    assert sorted(seen) == sorted(writers.committed)
