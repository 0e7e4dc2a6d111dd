"""Kill one worker after another at one crash point, and look at what is left each time.

Run as `python -m tests.system.lease_matrix POINT TIMES SEED URL`. It forks from a parent that has
everything imported, so that a kill costs milliseconds. Prints a JSON summary; a broken promise is
an AssertionError and exit code 1.
"""

import json
import random
import sys

from onceward import crash
from onceward.cursors import CursorState, Lease
from onceward.handle import Onceward
from onceward.handle import open as open_handle
from onceward.stores import status
from tests.system.lives import Ack, live_and_die, scenario_for

#: How many passes of the point a child may make before it dies.
PASSES_MAX = 6


class Scenario:
    """Work that is done until the process dies, and what must be true afterwards."""

    #: How many passes a child surely makes.
    passes_max = PASSES_MAX

    def __init__(self, url: str) -> None:
        self.url = url

    def prepare(self) -> None:
        """Make what the first life finds."""
        with open_handle(self.url) as ow, ow.transaction() as tx:
            tx.execute("create table if not exists effects (number bigint, life bigint)")

    def work(self, life: int, ack: Ack) -> None:
        raise NotImplementedError

    def check(self, acks: list[str]) -> None:
        raise NotImplementedError

    def take(self, ow: Onceward, life: int) -> Lease:
        """Acquire as the one worker there is: the same one may always have it."""
        lease = ow.cursors.acquire("c", "w", version=1)
        assert lease is not None, life
        return lease

    def state(self) -> tuple[CursorState | None, list[int]]:
        with open_handle(self.url) as ow, ow.transaction() as tx:
            rows = tx.execute("select number from effects order by number")
            found = ow.cursors.list("c")
            return (found[0] if found else None), [row[0] for row in rows]


class Working(Scenario):
    """Every number is an effect once, in order, up to the position; acknowledged ones are there."""

    def work(self, life: int, ack: Ack) -> None:
        ow = open_handle(self.url)
        while True:
            lease = self.take(ow, life)
            for _ in range(3):
                number = int(lease.position or 0) + 1
                with ow.transaction() as tx:
                    tx.execute("insert into effects values (?, ?)", [number, life])
                    lease.checkpoint(str(number), tx=tx)
                lease.renew()
                ack(str(number))
            lease.release()

    def check(self, acks: list[str]) -> None:
        state, numbers = self.state()
        last = int(state.position or 0) if state else 0
        assert numbers == list(range(1, last + 1)), (numbers, last)
        assert state is None or state.processed_count == last
        assert not acks or int(acks[-1]) in (last, last - 1), (acks, last)


class Checkpointing(Scenario):
    """A checkpoint alone is acknowledged or at most one ahead."""

    def work(self, life: int, ack: Ack) -> None:
        ow = open_handle(self.url)
        lease = self.take(ow, life)
        while True:
            number = int(lease.position or 0) + 1
            lease.checkpoint(str(number))
            ack(str(number))

    def check(self, acks: list[str]) -> None:
        state, _ = self.state()
        last = int(state.position or 0) if state else 0
        assert state is None or state.processed_count == last
        assert not acks or int(acks[-1]) in (last, last - 1), (acks, last)


class Operating(Scenario):
    """Nothing changes without its record: the row is what its history says."""

    def work(self, life: int, ack: Ack) -> None:
        ow = open_handle(self.url)
        self.take(ow, life)
        for number in range(1000):
            ow.cursors.seek("c", f"{life}-{number}", "test", "test")
            ow.cursors.pause("c", "test", "test")
            ow.cursors.resume("c", "test", "test")
            if number % 2:
                ow.cursors.undo("c", "test")
            ack(str(number))

    def check(self, acks: list[str]) -> None:
        with open_handle(self.url) as ow:
            for state in ow.cursors.list("c"):
                entries = ow.cursors.history("c", 10_000)
                assert state.position == (entries[0].to_position if entries else None)
                paused = [entry.kind for entry in entries if entry.kind in ("pause", "resume")]
                assert state.is_paused == (paused[:1] == ["pause"])
                moved = [each for each in entries if each.kind in ("seek", "undo")]
                assert len([each for each in moved if each.kind == "seek"]) >= len(acks)
                ow.cursors.resume("c", "test", "test")


class Versions(Scenario):
    """A position is of its version: migrated and recorded, or neither."""

    def work(self, life: int, ack: Ack) -> None:
        ow = open_handle(self.url)
        for number in range(1000):
            found = ow.cursors.list("c")
            stored = found[0].version if found else 0
            wanted = max(stored, 1) + 1
            migrations = dict.fromkeys(range(1, wanted), "{}+".format)
            lease = ow.cursors.acquire("c", "w", version=wanted, migrations=migrations)
            assert lease is not None
            if lease.position is None:
                lease.checkpoint("+" * wanted)
            ack(f"{life}-{number}")

    def check(self, acks: list[str]) -> None:
        with open_handle(self.url) as ow:
            for state in ow.cursors.list("c"):
                assert state.position in (None, "+" * state.version)
                steps = [each for each in ow.cursors.history("c", 10_000) if state.position]
                assert not steps or steps[0].reason.endswith(f"to {state.version}")
                assert state.version > len(acks), (state, acks)


class Migrating(Scenario):
    """A database that was migrated halfway is migrated to the end by the next who opens it."""

    passes_max = 2

    def prepare(self) -> None:
        """Begin with nothing."""

    def work(self, life: int, ack: Ack) -> None:
        ack(f"opened by {life}")
        open_handle(self.url)

    def check(self, acks: list[str]) -> None:
        assert len(acks) == 1
        with open_handle(self.url) as ow:
            found = status(ow.store)
            assert not found.pending
            assert not found.unknown
            self.take(ow, 0).checkpoint("1")


SCENARIOS: dict[str, type[Scenario]] = {
    "transaction.": Working,
    "sqlite.group.": Working,
    "cursor.acquire.": Working,
    "cursor.renew.": Working,
    "cursor.release.": Working,
    "cursor.checkpoint.": Checkpointing,
    "cursor.seek.": Operating,
    "cursor.pause.": Operating,
    "cursor.migrate.": Versions,
    "migrate.": Migrating,
}
POINTS = [point for point in crash.POINTS if point.startswith(tuple(SCENARIOS))]


def emptied(url: str, life: int) -> str:
    """Return the URL of a database in which nothing was ever made."""
    if url.startswith("sqlite"):
        return f"{url}-{life}"
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("drop schema public cascade")
        connection.execute("create schema public")
    return url


def main(point: str, times: int, seed: int, url: str) -> None:
    source = random.Random(seed)
    acknowledged = 0
    scenario = scenario_for(point, SCENARIOS)(url)
    scenario.prepare()
    for life in range(times):
        if isinstance(scenario, Migrating):
            scenario.url = emptied(url, life)
        passes = source.randint(1, scenario.passes_max)
        acks = live_and_die(scenario.work, f"{point}:{passes}:kill", life)
        acknowledged += len(acks)
        scenario.check(acks)
    json.dump({"point": point, "kills": times, "acknowledged": acknowledged}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
