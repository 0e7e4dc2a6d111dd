"""Several workers on one cursor, frozen, woken and killed at random."""

import random
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.testing.zombie import freeze, wake
from tests.support.evidence import Entry, Evidence

LEASE_SECONDS = 0.3
WORKERS = 3
SEED = 20260208
#: So many numbers must be written in the meantime, or nothing was tried.
NUMBERS_MIN = 20
#: A machine on which they are not written by then stands still.
PATIENCE_SECONDS = 120.0
REPRO = "make test ARGS='tests/system/test_lease_chaos.py -n 0'"


def start(url: str, name: str) -> subprocess.Popen[bytes]:
    words = ["-m", "tests.support.counting_worker", url, name, str(LEASE_SECONDS)]
    return subprocess.Popen([sys.executable, *words])


def count(ow: Onceward) -> int:
    """Return how many numbers are written, without waiting for a frozen writer."""
    return int(ow.store.select("select count(*) from effects")[0][0])


def torment(ow: Onceward, url: str, source: random.Random, seconds: float) -> Counter[str]:
    """Freeze for up to three leases, wake, now and then kill; return how often.

    It begins with the first number and goes on until there are enough, however slow the machine.
    """
    workers = [start(url, f"w{number}") for number in range(WORKERS)]
    times: Counter[str] = Counter()
    deadline = time.monotonic() + seconds
    try:
        while not count(ow):
            assert time.monotonic() < deadline + PATIENCE_SECONDS, "no worker writes"
            threading.Event().wait(0.01)
        while time.monotonic() < deadline or count(ow) <= NUMBERS_MIN:
            assert time.monotonic() < deadline + PATIENCE_SECONDS, (count(ow), times)
            chosen = source.randrange(WORKERS)
            freeze(workers[chosen])
            threading.Event().wait(source.random() * 3 * LEASE_SECONDS)
            times["freeze"] += 1
            if source.random() < 0.2:
                workers[chosen].kill()
                workers[chosen].wait()
                times["kill"] += 1
                workers[chosen] = start(url, f"w{chosen}-{times['freeze']}")
            else:
                wake(workers[chosen])
            threading.Event().wait(source.random() * LEASE_SECONDS / 3)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    return times


@pytest.mark.prove
def test_h13_every_number_is_written_once_whatever_happens_to_the_writers(
    ow_url: str, prove: bool, soak: bool, evidence: Evidence
) -> None:
    """Frozen at any line, replaced, woken, killed: the effects are 1, 2, 3 … up to the position."""
    with open_handle(ow_url) as ow:
        with ow.transaction() as tx:
            tx.execute("create table effects (number bigint, worker text)")
        seconds = 60.0 if soak else 15.0 if prove else 5.0
        times = torment(ow, ow_url, random.Random(SEED), seconds)
        with ow.transaction() as tx:
            # In one look: the database may still be at what a killed worker sent last.
            rows = tx.execute(
                "select number, last_position, processed_count from effects, cursor_positions"
                " order by number"
            )
        assert len(rows) > NUMBERS_MIN, times
        wanted = set(range(1, int(rows[0][1]) + 1))
        written = Counter(row[0] for row in rows)
        assert [row[0] for row in rows] == sorted(wanted), f"REPRO: {REPRO} ({ow.store.engine})"
        assert rows[0][2] == len(rows)
        state = ow.cursors.show("c")
        epochs = [entry.epoch for entry in ow.cursors.history("c", 10_000)]
        assert epochs == sorted(epochs, reverse=True)
        assert len(epochs) == state.steal_count
        evidence.record(
            Entry(
                campaign="workers on one cursor are frozen, woken and killed at random",
                layer="storms",
                claims=("D1", "F1", "F2"),
                engine=ow.store.engine,
                schedules=times["freeze"],
                faults=dict(times),
                lost=len(wanted - set(written)),
                doubled=sum(count > 1 for count in written.values()),
                work=len(rows),
                reached={"taken over": state.steal_count} if prove else {},
            )
        )
