"""Search: which cursors an app has now, and which consumer each belongs to.

What is wrong with one partition, or with one consumer, does not keep the others from being found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, cast

from onceward.cursors.models import check_name
from onceward.errors import InvalidArgument, OncewardError, SourceRefused
from onceward.seams import Clock
from onceward.workers.board import Board
from onceward.workers.models import Consumer
from onceward.workers.reports import Reports
from onceward.workers.source import Item, Partitions, Source

#: Puts a cursor on the board.
Add = Callable[[Consumer, str | None, Source], None]
#: Lets a cursor that is there be looked at.
Wake = Callable[[str], None]
#: How long something may be in trouble before a run that is to end does so without it.
PATIENCE_SECONDS: Final = 3.0


class Search:
    """The cursors of an app."""

    def __init__(  # noqa: PLR0913 - made in one place
        self,
        consumers: Callable[[], Sequence[Consumer]],
        board: Board,
        add: Add,
        wake: Wake,
        *,
        reports: Reports,
        clock: Clock,
    ) -> None:
        """Have found none."""
        self._consumers = consumers
        self._board = board
        self._add = add
        self._wake = wake
        self._reports = reports
        self._clock = clock
        self._markers: dict[str, str] = {}
        #: Partitions that cannot be worked, by consumer; they are looked at again.
        self._refused: defaultdict[str, dict[str, None]] = defaultdict(dict)
        #: Consumers whose partitions cannot be found, and since when.
        self._troubled: dict[str, float] = {}

    def find(self, *, is_first: bool = False) -> int:
        """Put every cursor on the board that is not there, wake those with news; return how many.

        What can never be searched is raised the first time, when there is somebody who reads it.
        """
        found = 0
        for consumer in self._consumers():
            try:
                found += self._find(consumer)
            except Exception as exc:  # a source of the user's; the others must go on
                if is_first and isinstance(exc, OncewardError) and not exc.retryable:
                    raise
                self._troubled.setdefault(consumer.name, self._clock.monotonic())
                self._tell(consumer, exc)
            else:
                if self._troubled.pop(consumer.name, None) is not None:
                    self._reports.source_accepted(consumer.name)
        return found

    def _tell(self, consumer: Consumer, error: Exception) -> None:
        if isinstance(error, SourceRefused):
            self._reports.source_refused(consumer.name, error)
        else:
            self._reports.trouble("source_failed", consumer.name, error, consumer.poll_seconds)

    def find_due(self, name: str) -> int:
        """Put a cursor on the board that has something to retry, though nothing to read."""
        consumer = self.owner(name)
        if consumer is None:
            return 0
        found = consumer.pattern.fullmatch(name)
        return self._meet(consumer, found[1] if found and consumer.is_partitioned else None)

    def owner(self, name: str) -> Consumer | None:
        """Return the consumer that a cursor belongs to, whichever process asks.

        That is the one of this very name, else the one that says most of it.
        """
        fitting = (each for each in self._consumers() if each.pattern.fullmatch(name))
        return max(fitting, key=lambda one: (not one.is_partitioned, len(one.name)), default=None)

    @property
    def is_troubled(self) -> bool:
        """Say whether there is trouble that may still pass."""
        patient = self._clock.monotonic() - PATIENCE_SECONDS
        return any(since > patient for since in self._troubled.values())

    @property
    def left(self) -> Iterator[str]:
        """Return what is not worked: consumers that cannot be searched, and refused cursors."""
        yield from self._troubled
        for consumer in self._consumers():
            for key in self._refused.get(consumer.name, ()):
                yield consumer.cursor(key)

    def _find(self, consumer: Consumer) -> int:
        if not consumer.is_partitioned:
            return 0 if consumer.name in self._board else self._meet(consumer, None)
        source = cast("Partitions", consumer.source)
        active = source.active(self._markers.get(consumer.name))
        keys = dict.fromkeys([*self._refused[consumer.name], *active.keys])
        found = sum(self._meet(consumer, key) for key in keys)
        self._markers[consumer.name] = active.marker
        return found

    def _meet(self, consumer: Consumer, key: str | None) -> int:
        """Put a cursor on the board or wake it; return how many that are."""
        name = consumer.cursor(key)
        reader = self._board.get(name)
        if reader is not None and reader.consumer is consumer:
            self._wake(name)
            return 1
        refused = self._refused[consumer.name]
        try:
            self._check(consumer, name)
            self._add(consumer, key, _source(consumer, key))
        except Exception as exc:  # noqa: BLE001 - the user's group, or a name that cannot be one
            if key is not None and key not in refused:
                refused[key] = None
                self._reports.refused(name, exc)
            return 0
        if key is not None:
            refused.pop(key, None)
        return 1

    def _check(self, consumer: Consumer, name: str) -> None:
        check_name(name)
        owner = self.owner(name)
        if owner is not None and owner is not consumer:
            message = f"a partition of {consumer.name!r} has the name of a cursor of {owner.name!r}"
            raise InvalidArgument(message, fix="rename one of the two consumers", field="name")


class _Unmade:
    """A source that could not be made yet; what is parked is retried without it."""

    def __init__(self, partitions: Partitions, key: str) -> None:
        self._partitions = partitions
        self._key = key

    def read(self, after: str | None, limit: int) -> Sequence[Item]:
        """Make it, and read."""
        return self._partitions.source(self._key).read(after, limit)


def _source(consumer: Consumer, key: str | None) -> Source:
    if key is None:
        return cast("Source", consumer.source)
    partitions = cast("Partitions", consumer.source)
    try:
        return partitions.source(key)
    except Exception:  # noqa: BLE001 - it is told when it is read
        return _Unmade(partitions, key)
