"""Moments: a worker that is frozen at any moment, and stops when it is refused."""

from __future__ import annotations

import fcntl
import random
import time
from functools import partial
from pathlib import Path

from onceward.client import open as open_handle
from onceward.errors import OncewardError
from onceward.testing.zombie import freeze
from tests.proof.zombies.cells import LEASE_SECONDS, Cell, Place, Seen
from tests.proof.zombies.frozen import Child, Talk
from tests.proof.zombies.leasing import TABLE, check_lost, inherit, plain, taken, until_refused

MOMENTS = 30
#: The worker counts some numbers in this, and its heart beats.
MOMENT_SECONDS_MAX = 0.05


def count_until_refused(url: str, name: str, talk: Talk) -> None:
    """Count, with a busy heartbeat, until a write is refused."""
    with open_handle(url) as ow:
        lease = taken(ow, name, "zombie")
        try:
            with lease.hold(LEASE_SECONDS / 20):
                while True:
                    plain(ow, lease, talk)
                    talk.tell("acked", n=int(lease.position or 0))
        except OncewardError as exc:
            talk.tell("refused", error=type(exc).__name__)
            check_lost(lease, talk)


def may_write(place: Place) -> bool:
    """Say whether the write lock is free; on PostgreSQL there is none."""
    if place.engine != "sqlite":
        return True
    with Path(f"{place.url.removeprefix('sqlite:///')}-write-lock").open("ab") as turns:
        try:
            fcntl.flock(turns, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def run(place: Place, *, name: str, seed: int) -> Seen:
    """Run one cell."""
    source = random.Random(seed)
    with open_handle(place.url) as ow, ow.transaction() as tx:
        tx.execute(TABLE)
    zombie = Child(partial(count_until_refused, place.url, name))
    reports = [zombie.hear("acked")]
    seen = Seen()
    time.sleep(source.uniform(0, MOMENT_SECONDS_MAX))
    freeze(zombie)
    while not may_write(place):
        # No worker could take over: it goes on, and another moment is tried.
        zombie.wake()
        time.sleep(source.uniform(0, MOMENT_SECONDS_MAX))
        freeze(zombie)
    frozen_at = time.monotonic()
    heir = Child(partial(inherit, place.url, name, last=10**9))
    heir.hear("asking")
    seen.takeover_seconds = heir.hear("taken over")["at"] - frozen_at
    reached = heir.hear("advanced")["n"]
    zombie.wake()
    reports += until_refused(zombie)
    zombie.heard()
    heir.go()
    heir.heard()
    seen.reached += ["taken over while frozen", "refused after waking"]
    seen.refused = [each["error"] for each in reports if each["what"] == "refused"]
    judge(place, name, seen, {*(each["n"] for each in reports if each["what"] == "acked"), reached})
    return seen


def judge(place: Place, name: str, seen: Seen, acked: set[int]) -> None:
    """Count what is there: every number up to the position once, under epochs that never fall."""
    with open_handle(place.url) as ow:
        with ow.transaction() as tx:
            order = "select n, epoch from counted where cell = ? order by n, epoch"
            rows = tx.execute(order, [name])
        last = int(ow.cursors.show(name).position or 0)
    numbers, epochs = [row[0] for row in rows], [row[1] for row in rows]
    seen.work = len(set(numbers))
    seen.lost = len({*range(1, last + 1), *acked} - set(numbers))
    seen.doubled = len(numbers) - len(set(numbers))
    assert numbers == list(range(1, last + 1)), rows
    assert epochs == sorted(epochs), f"an epoch fell: {rows}"
    assert max(acked) <= last, (acked, last)


CELLS = [
    Cell(
        name=f"moment-{seed}",
        point="at a random moment",
        nth=seed,
        run=partial(run, name=f"moment-{seed}", seed=seed),
        claims=("F1", "F2", "D1"),
    )
    for seed in range(1, MOMENTS + 1)
]
