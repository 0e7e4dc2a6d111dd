"""Slots: how many cursors of a consumer are worked at a time, over all processes.

A slot is a cursor without messages: whoever holds its lease may work. A worker that dies gives it
back when the lease runs out.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Final

from onceward.cursors import Lease
from onceward.cursors.models import OWN_PREFIX
from onceward.errors import InvalidArgument, LeaseLost
from onceward.handle import Onceward
from onceward.seams import SystemRandomness
from onceward.workers.models import Consumer

_numbers: Final = itertools.count(1)


class Slots:
    """The slots that one partition of a consumer needs."""

    def __init__(self, ow: Onceward, consumer: Consumer, partition: str | None) -> None:
        """Hold none."""
        self._ow = ow
        self._consumer = consumer
        self._randomness = SystemRandomness()
        # A name of its own: to the same worker a lease is always granted again.
        self._holder = f"{ow.cursors.worker}/{next(_numbers)}"
        self._held: list[Lease] = []
        self._wanted: list[tuple[str, int]] = []
        limits = consumer.limits
        if limits.per_group is not None and partition is not None:
            group = limits.group(partition) if limits.group else partition
            count = limits.per_group(group) if callable(limits.per_group) else limits.per_group
            if count < 1:
                message = f"max_in_flight_per_group: must be 1 or more, not {count}"
                fix = "pause the cursors that are not to be worked"
                raise InvalidArgument(message, fix=fix, field="max_in_flight_per_group")
            self._wanted.append((f"{_part(consumer.name)}/{_part(group)}", count))
        if limits.total is not None:
            self._wanted.append((_part(consumer.name), limits.total))

    @property
    def are_limited(self) -> bool:
        """Say whether any are needed."""
        return bool(self._wanted)

    @property
    def are_lost(self) -> bool:
        """Say whether somebody else may work in our place: a lease of ours ran out."""
        return any(lease.lost.is_set() for lease in tuple(self._held))

    def take(self) -> bool:
        """Take one of each, or none."""
        for name, count in self._wanted:
            lease = self._free(name, count)
            if lease is None:
                self.release()
                return False
            self._held.append(lease)
            self._ow.cursors.heartbeat.add(lease, self._consumer.heartbeat_seconds)
        return True

    def release(self) -> None:
        """Give back what is held."""
        while self._held:
            with suppress(LeaseLost):
                self._held.pop().release()

    def _free(self, name: str, count: int) -> Lease | None:
        """Take any slot that is free, beginning anywhere so that not all ask for the same."""
        first = int(self._randomness.fraction() * count)
        for number in range(count):
            slot = f"{OWN_PREFIX}{name}/{(first + number) % count + 1}"
            lease = self._ow.cursors.acquire(slot, self._holder, self._consumer.lease_seconds)
            if lease is not None:
                return lease
        return None


def _part(name: str) -> str:
    """Return a part of a slot's name: the group b of `a` is another thing than `a/b`."""
    return name.replace("%", "%25").replace("/", "%2F")
