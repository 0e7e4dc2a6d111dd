"""Files under kill -9: journals and files that are replaced, and what is left of them."""

import json
from collections.abc import Sequence
from itertools import dropwhile
from pathlib import Path

from onceward.journal import Journal, atomic_file
from onceward.journal.models import Record
from tests.support.killed_processes import Ack, Life, Place, Scenario


def drain(journal: Journal, limit: int) -> list[Record]:
    items: list[Record] = []
    since, tag = "0", None
    while True:
        page = journal.read(since, limit, tag=tag)
        items += page.items
        if page.next_cursor == since:
            return items
        since, tag = page.next_cursor, page.tag


class Appending(Scenario):
    """Acknowledged records are there once, in order; of each life at most one more, its last."""

    passes_max = 12

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.path = self.directory / "new" / "journal.jsonl"

    def work(self, life: int, ack: Ack) -> None:
        journal = Journal(self.path)
        for number in range(1000):
            # From time to time over 512 bytes, from time to time two records in one write.
            record = {"id": f"{life}-{number}", "notes": "x" * (700 if number % 3 else 10)}
            more = [{"id": f"{life}-{number}+"}] if number % 4 == 0 else []
            journal.append(record, *more)
            ack(json.dumps([each["id"] for each in (record, *more)]))

    def check(self, lives: Sequence[Life]) -> None:
        found = [item["id"] for item in drain(Journal(self.path), self.place.source.randint(1, 9))]
        assert len(found) == len({*found}), found
        for life in lives:
            acknowledged = [name for ack in life.acks for name in json.loads(ack)]
            assert found[: len(acknowledged)] == acknowledged, (life.number, found, acknowledged)
            next_ = f"{life.number}-{len(life.acks)}"
            rest = found[len(acknowledged) :]
            found = list(dropwhile({next_, f"{next_}+"}.__contains__, rest))
        assert not found, found
        assert Journal(self.path).verify().torn_bytes == 0


class Naming(Scenario):
    """A file whose first record was acknowledged is there; each record has a file of its own."""

    passes_max = 12

    def file(self, life: int, number: int) -> Path:
        return self.directory / f"{life}" / f"{number}.jsonl"

    def work(self, life: int, ack: Ack) -> None:
        for number in range(1000):
            Journal(self.file(life, number)).append({"id": number})
            ack(str(number))

    def check(self, lives: Sequence[Life]) -> None:
        for life in lives:
            for number in map(int, life.acks):
                assert drain(Journal(self.file(life.number, number)), 9) == [{"id": number}]
            assert drain(self.last(life), 9) in ([], [{"id": len(life.acks)}])

    def settle(self, lives: Sequence[Life]) -> None:
        for life in lives:
            self.last(life).append({"id": "after"})
            assert drain(self.last(life), 9)[-1] == {"id": "after"}

    def last(self, life: Life) -> Journal:
        return Journal(self.file(life.number, len(life.acks)))


class Reading(Appending):
    """A cursor that was given out, with its tag, still fits after the crash."""

    def work(self, life: int, ack: Ack) -> None:
        journal = Journal(self.path)
        page = journal.read()
        while page.items:
            page = journal.read(page.next_cursor)
        for number in range(1000):
            Journal(self.path).append({"id": f"{life}-{number}"})
            page = journal.read(page.next_cursor, 1)
            ack(json.dumps([page.next_cursor, page.tag, page.items[0]["id"]]))

    def check(self, lives: Sequence[Life]) -> None:
        journal = Journal(self.path)
        names = [item["id"] for item in drain(journal, self.place.source.randint(1, 9))]
        for cursor, tag, name in (json.loads(ack) for life in lives for ack in life.acks):
            rest = journal.read(cursor, 1, tag=tag).items
            following = names[names.index(name) + 1 :]
            assert [item["id"] for item in rest] == following[:1], (cursor, name)


class Replacing(Scenario):
    """The file is the last acknowledged content or the one after it, whole."""

    passes_max = 12

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.path = self.directory / "new" / "state.json"

    def work(self, life: int, ack: Ack) -> None:
        for number in range(1000):
            atomic_file.write(self.path, self.content(life, number))
            ack(f"{life} {number}")

    def content(self, life: int, number: int) -> bytes:
        return f"{life} {number} ".encode() * 200

    def check(self, lives: Sequence[Life]) -> None:
        found = self.path.read_bytes() if self.path.exists() else None
        possible: set[bytes | None] = {None}
        for life in lives:
            done = len(life.acks)
            if done:
                possible = {self.content(life.number, done - 1)}
            possible.add(self.content(life.number, done))
        assert found in possible, found

    def settle(self, lives: Sequence[Life]) -> None:  # noqa: ARG002 - the shape
        atomic_file.write(self.path, b"after the crash")
        left = [each.name for each in self.path.parent.iterdir()]
        assert left == [self.path.name], left


SCENARIOS: dict[str, type[Scenario]] = {
    "journal.append.": Appending,
    "journal.durable.": Naming,
    "journal.read.": Reading,
    "atomic.write.": Replacing,
}
