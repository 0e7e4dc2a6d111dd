"""Attempt log: every attempt of the demo, recorded before it is made, so that repeats count."""

from __future__ import annotations

from collections import Counter

from onceward.demo.demo_home import DemoWorld
from onceward.journal import Journal, Record


class Attempts:
    """The journal of what was tried."""

    def __init__(self, world: DemoWorld) -> None:
        """Note in the file of this world."""
        self._journal = Journal(world.attempts, sync=False)

    def note(self, part: str, key: str) -> None:
        """Note that something is about to be tried."""
        self._journal.append({"part": part, "key": key})

    def of(self, part: str) -> Counter[str]:
        """Return how often each key of a part was tried."""
        return Counter(each["key"] for each in everything(self._journal) if each["part"] == part)


def everything(journal: Journal) -> list[Record]:
    """Return all records of a journal."""
    found: list[Record] = []
    since = "0"
    while True:
        page = journal.read(since)
        found += page.items
        if page.next_cursor == since:
            return found
        since = page.next_cursor
