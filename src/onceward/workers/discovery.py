"""Discovery: find the cursors of an app, including new partitions, and schedule them.

An error in one partition or consumer does not affect the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, cast

from onceward.cursors.models import check_name
from onceward.errors import InvalidArgument, OncewardError, SourceRefused
from onceward.system import Clock
from onceward.workers.models import Consumer
from onceward.workers.schedule_queue import ScheduleQueue
from onceward.workers.source_protocol import Item, Partitions, Source
from onceward.workers.telemetry import Telemetry

#: Adds a cursor to the schedule queue.
Add = Callable[[Consumer, str | None, Source], None]
#: Makes a scheduled cursor due now.
Wake = Callable[[str], None]
#: A run with `once` waits this long for failing cursors before it ends without them.
TROUBLE_GRACE_SECONDS: Final = 3.0


class CursorDiscovery:
    """Finds the cursors of an app, and schedules or wakes them."""

    def __init__(  # noqa: PLR0913 - made in one place
        self,
        consumers: Callable[[], Sequence[Consumer]],
        queue: ScheduleQueue,
        add: Add,
        wake: Wake,
        *,
        telemetry: Telemetry,
        clock: Clock,
    ) -> None:
        """Start without cursors."""
        self._consumers = consumers
        self._queue = queue
        self._add = add
        self._wake = wake
        self._telemetry = telemetry
        self._clock = clock
        self._markers: dict[str, str] = {}
        #: Partitions that cannot be consumed, by consumer; they are tried again.
        self._refused: defaultdict[str, dict[str, None]] = defaultdict(dict)
        #: When the discovery of a consumer's partitions began to fail.
        self._failing_since: dict[str, float] = {}

    def find(self, *, is_first: bool = False) -> int:
        """Schedule new cursors and wake those with new messages; return how many.

        A permanent error is raised only by the first call, when the operator sees it.
        """
        found = 0
        for consumer in self._consumers():
            try:
                found += self._find(consumer)
            except Exception as exc:  # a user's source; the other consumers must go on
                if is_first and isinstance(exc, OncewardError) and not exc.retryable:
                    raise
                self._failing_since.setdefault(consumer.name, self._clock.monotonic())
                self._report(consumer, exc)
            else:
                if self._failing_since.pop(consumer.name, None) is not None:
                    self._telemetry.source_accepted(consumer.name)
        return found

    def _report(self, consumer: Consumer, error: Exception) -> None:
        if isinstance(error, SourceRefused):
            self._telemetry.source_refused(consumer.name, error)
        else:
            self._telemetry.warn_and_retry(
                "source_failed", consumer.name, error, consumer.poll_seconds
            )

    def add_due(self, name: str) -> int:
        """Schedule a cursor that has a parked message to retry, though nothing new to read."""
        consumer = self.owner(name)
        if consumer is None:
            return 0
        found = consumer.pattern.fullmatch(name)
        return self._add_or_wake(consumer, found[1] if found and consumer.is_partitioned else None)

    def owner(self, name: str) -> Consumer | None:
        """Return the consumer that a cursor belongs to; every process gets the same answer.

        An exact name wins, then the longest pattern.
        """
        fitting = (each for each in self._consumers() if each.pattern.fullmatch(name))
        return max(fitting, key=lambda one: (not one.is_partitioned, len(one.name)), default=None)

    @property
    def is_failing(self) -> bool:
        """Return whether a discovery has been failing for less than the grace period."""
        grace_start = self._clock.monotonic() - TROUBLE_GRACE_SECONDS
        return any(since > grace_start for since in self._failing_since.values())

    @property
    def unavailable(self) -> Iterator[str]:
        """Return consumers whose discovery fails, and refused partitions."""
        yield from self._failing_since
        for consumer in self._consumers():
            for key in self._refused.get(consumer.name, ()):
                yield consumer.cursor(key)

    def _find(self, consumer: Consumer) -> int:
        if not consumer.is_partitioned:
            return 0 if consumer.name in self._queue else self._add_or_wake(consumer, None)
        source = cast("Partitions", consumer.source)
        active = source.active(self._markers.get(consumer.name))
        keys = dict.fromkeys([*self._refused[consumer.name], *active.keys])
        found = sum(self._add_or_wake(consumer, key) for key in keys)
        self._markers[consumer.name] = active.marker
        return found

    def _add_or_wake(self, consumer: Consumer, key: str | None) -> int:
        """Schedule a cursor or wake it; return 1, or 0 if it is refused."""
        name = consumer.cursor(key)
        reader = self._queue.get(name)
        if reader is not None and reader.consumer is consumer:
            self._wake(name)
            return 1
        refused = self._refused[consumer.name]
        try:
            self._check(consumer, name)
            self._add(consumer, key, _source_of_partition(consumer, key))
        except Exception as exc:  # noqa: BLE001 - a user's group function, or an invalid name
            if key is not None and key not in refused:
                refused[key] = None
                self._telemetry.partition_refused(name, exc)
            return 0
        if key is not None:
            refused.pop(key, None)
        return 1

    def _check(self, consumer: Consumer, name: str) -> None:
        check_name(name)
        owner = self.owner(name)
        if owner is not None and owner is not consumer:
            message = (
                f"name: the partition {name!r} of {consumer.name!r} has the name of a cursor of "
                f"{owner.name!r}; it is not read"
            )
            raise InvalidArgument(
                message, fix="give one of the two consumers another name", field="name"
            )


class _DeferredSource:
    """A source that could not be opened yet; parked messages are retried without it."""

    def __init__(self, partitions: Partitions, key: str) -> None:
        self._partitions = partitions
        self._key = key

    def read(self, after: str | None, limit: int) -> Sequence[Item]:
        """Open the partition's source, and read."""
        return self._partitions.source(self._key).read(after, limit)


def _source_of_partition(consumer: Consumer, key: str | None) -> Source:
    if key is None:
        return cast("Source", consumer.source)
    partitions = cast("Partitions", consumer.source)
    try:
        return partitions.source(key)
    except Exception:  # noqa: BLE001 - reported when it is read
        return _DeferredSource(partitions, key)
