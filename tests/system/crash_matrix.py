"""Kill one process after another at one crash point, and look at what is left each time.

Run as `python -m tests.system.crash_matrix POINT TIMES SEED DIRECTORY`. It forks from a parent that
has everything imported, so that a kill costs milliseconds. Prints a JSON summary; a broken promise
is an AssertionError and exit code 1.
"""

import json
import random
import sys
from pathlib import Path

from onceward.journal import Journal, atomic
from onceward.journal.models import Record
from tests.system.lives import Ack, live_and_die, scenario_for

#: How many passes of the point a child may make before it dies.
PASSES_MAX = 12


def drain(journal: Journal, limit: int) -> list[Record]:
    items: list[Record] = []
    since, tag = "0", None
    while True:
        page = journal.read(since, limit, tag=tag)
        items += page.items
        if page.next_cursor == since:
            return items
        since, tag = page.next_cursor, page.tag


class Appending:
    """Acknowledged records are there once, in order; at most the last, unacknowledged one more."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "new" / "journal.jsonl"
        self.expected: list[str] = []

    def work(self, life: int, ack: Ack) -> None:
        journal = Journal(self.path)
        for number in range(1000):
            # From time to time over 512 bytes, from time to time two records in one write.
            record = {"id": f"{life}-{number}", "notes": "x" * (700 if number % 3 else 10)}
            more = [{"id": f"{life}-{number}+"}] if number % 4 == 0 else []
            journal.append(record, *more)
            ack(json.dumps([each["id"] for each in (record, *more)]))

    def check(self, acks: list[str], source: random.Random) -> None:
        found = [item["id"] for item in drain(Journal(self.path), source.randint(1, 9))]
        self.expected += [name for ack in acks for name in json.loads(ack)]
        assert found[: len(self.expected)] == self.expected, (found, self.expected)
        extra = found[len(self.expected) :]
        assert len(extra) in (0, 1, 2), extra
        assert len({name.rstrip("+") for name in extra}) <= 1, extra
        self.expected = found
        assert Journal(self.path).verify().torn_bytes == 0


class Reading(Appending):
    """A cursor that was given out, with its tag, still fits after the crash."""

    def work(self, life: int, ack: Ack) -> None:
        journal = Journal(self.path)
        page = journal.read()
        for number in range(1000):
            Journal(self.path).append({"id": f"{life}-{number}"})
            page = journal.read(page.next_cursor, 1)
            ack(json.dumps([page.next_cursor, page.tag, page.items[0]["id"]]))

    def check(self, acks: list[str], source: random.Random) -> None:
        journal = Journal(self.path)
        names = [item["id"] for item in drain(journal, source.randint(1, 9))]
        for cursor, tag, name in map(json.loads, acks):
            rest = journal.read(cursor, 1, tag=tag).items
            following = names[names.index(name) + 1 :]
            assert [item["id"] for item in rest] == following[:1], (cursor, name)


class Replacing:
    """The file is the last acknowledged content or the one after it, whole."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "new" / "state.json"
        self.last: bytes | None = None

    def work(self, life: int, ack: Ack) -> None:
        for number in range(1000):
            atomic.write(self.path, self.content(life, number))
            ack(f"{life} {number}")

    def content(self, life: int, number: int) -> bytes:
        return f"{life} {number} ".encode() * 200

    def check(self, acks: list[str], source: random.Random) -> None:
        found = self.path.read_bytes() if self.path.exists() else None
        if acks:
            life, number = map(int, acks[-1].split())
            assert found in (self.content(life, number), self.content(life, number + 1))
        elif found != self.last:
            assert found is not None
            assert found == self.content(int(found.split()[0]), 0), found
        self.last = b"after the crash %d" % source.getrandbits(32)
        atomic.write(self.path, self.last)
        left = [each.name for each in self.path.parent.iterdir()]
        assert left == [self.path.name], left


SCENARIOS: dict[str, type[Appending] | type[Replacing]] = {
    "journal.append.": Appending,
    "journal.durable.": Appending,
    "journal.read.": Reading,
    "atomic.write.": Replacing,
}


def main(point: str, times: int, seed: int, directory: Path) -> None:
    source = random.Random(seed)
    acknowledged = 0
    scenario = scenario_for(point, SCENARIOS)(directory / "0")
    for life in range(times):
        # A file's name is synced once in its life, so such a point needs a new file to be reached.
        passes = source.randint(1, PASSES_MAX)
        if life % 5 == 0:
            scenario = scenario_for(point, SCENARIOS)(directory / str(life))
        acks = live_and_die(scenario.work, f"{point}:{passes}:kill", life)
        acknowledged += len(acks)
        scenario.check(acks, source)
    json.dump({"point": point, "kills": times, "acknowledged": acknowledged}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
