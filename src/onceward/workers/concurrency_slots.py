"""Concurrency slots: limit how many cursors of a consumer run at a time, over all processes.

A slot is an internal cursor without messages: the holder of its lease may process messages. The
slot of a dead worker is free once its lease expires.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Final

from onceward.client import Onceward
from onceward.cursors import Lease
from onceward.cursors.models import OWN_PREFIX
from onceward.errors import InvalidArgument, LeaseLost
from onceward.system import SystemRandomness
from onceward.workers.models import Consumer

_numbers: Final = itertools.count(1)


class ConcurrencySlots:
    """The slots that one cursor of a consumer needs while it is processed."""

    def __init__(self, ow: Onceward, consumer: Consumer, partition: str | None) -> None:
        """Prepare; no slot is acquired yet."""
        self._ow = ow
        self._consumer = consumer
        self._randomness = SystemRandomness()
        # A unique name: a lease is always granted again to the same name.
        self._holder = f"{ow.cursors.worker}/{next(_numbers)}"
        self._held: list[Lease] = []
        self._needed: list[tuple[str, int]] = []
        limits = consumer.limits
        if limits.per_group is not None and partition is not None:
            group = limits.group(partition) if limits.group else partition
            count = limits.per_group(group) if callable(limits.per_group) else limits.per_group
            if count < 1:
                message = f"max_in_flight_per_group: {group!r:.60} got {count}, less than 1"
                fix = "return 1 or more; to stop a group, pause its cursors"
                raise InvalidArgument(message, fix=fix, field="max_in_flight_per_group")
            self._needed.append((f"{_part(consumer.name)}/{_part(group)}", count))
        if limits.total is not None:
            self._needed.append((_part(consumer.name), limits.total))

    @property
    def are_limited(self) -> bool:
        """Return whether the consumer has limits."""
        return bool(self._needed)

    @property
    def are_lost(self) -> bool:
        """Return whether the lease of a slot expired, so that another worker may have taken it."""
        return any(lease.lost.is_set() for lease in tuple(self._held))

    def acquire(self) -> bool:
        """Acquire one slot per limit, or none; return whether it succeeded."""
        for name, count in self._needed:
            lease = self._acquire_free(name, count)
            if lease is None:
                self.release()
                return False
            self._held.append(lease)
            self._ow.cursors.heartbeat.add(lease, self._consumer.heartbeat_seconds)
        return True

    def release(self) -> None:
        """Release all slots."""
        while self._held:
            with suppress(LeaseLost):
                self._held.pop().release()

    def _acquire_free(self, name: str, count: int) -> Lease | None:
        """Acquire any free slot; starts at a random one, so that workers do not contend."""
        first = int(self._randomness.fraction() * count)
        for number in range(count):
            slot = f"{OWN_PREFIX}{name}/{(first + number) % count + 1}"
            lease = self._ow.cursors.acquire(slot, self._holder, self._consumer.lease_seconds)
            if lease is not None:
                return lease
        return None


def _part(name: str) -> str:
    """Escape a part of a slot's name: the group `b` of `a` differs from a consumer `a/b`."""
    return name.replace("%", "%25").replace("/", "%2F")
