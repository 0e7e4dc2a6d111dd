"""A source made of a list, for tests that care about everything else."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from onceward.errors import InvalidCursor
from onceward.workers import ActivePartitions, Item


class ListSource:
    """Messages 1, 2, 3 … of a list that may grow."""

    def __init__(self, *values: object) -> None:
        self.values = list(values)

    def read(self, after: str | None, limit: int) -> Sequence[Item]:
        first = int(after or 0)
        found = self.values[first : first + limit]
        return [
            Item(position=str(number), raw=each if isinstance(each, bytes) else orjson.dumps(each))
            for number, each in enumerate(found, first + 1)
        ]

    def count(self, after: str | None, up_to: str | None) -> int:
        return max(0, int(up_to or 0) - int(after or 0))


class StrictSource(ListSource):
    """One that refuses positions it never had."""

    def read(self, after: str | None, limit: int) -> Sequence[Item]:
        if int(after or 0) > len(self.values):
            message = f"position {after} is beyond {len(self.values)}"
            raise InvalidCursor(message)
        return super().read(after, limit)


class ListPartitions:
    """Several such lists, by name."""

    def __init__(self, **lists: list[object]) -> None:
        self.lists = lists

    def source(self, key: str) -> ListSource:
        source = ListSource()
        source.values = self.lists[key]
        return source

    def active(self, marker: str | None) -> ActivePartitions:
        sizes = {key: len(values) for key, values in self.lists.items()}
        seen = orjson.loads(marker) if marker else {}
        keys = [key for key, size in sizes.items() if seen.get(key, 0) < size]
        return ActivePartitions(keys=keys, marker=orjson.dumps(sizes).decode())
