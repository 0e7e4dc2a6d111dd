"""Attempt log: record each attempt of the demo before it is made, so that repeats are counted."""

from __future__ import annotations

from collections import Counter

from onceward.demo.demo_home import DemoWorld
from onceward.journal import Journal, Record


class Attempts:
    """The journal of attempts."""

    def __init__(self, world: DemoWorld) -> None:
        """Write to this demo's journal of attempts."""
        self._journal = Journal(world.attempts, sync=False)

    def note(self, part: str, key: str) -> None:
        """Record an attempt before it is made."""
        self._journal.append({"part": part, "key": key})

    def of(self, part: str) -> Counter[str]:
        """Return the number of attempts for each key of a part."""
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
