"""Registry: the worker processes of a store, each of which says now and then that it lives.

Nothing is decided by it: who may work is decided by leases. It tells people who is there, who fell
silent, and who ended as it should.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import orjson

from onceward.errors import OncewardError, StoreBusy, StoreUnavailable
from onceward.handle import Onceward
from onceward.stores import Row, Store
from onceward.version import __version__
from onceward.workers.models import Consumer
from onceward.workers.rounds import rounds

BEAT_SECONDS: Final = 5.0
#: Three beats that did not come.
SILENT_SECONDS: Final = 3 * BEAT_SECONDS
#: More consumers of one worker are not named.
CONSUMERS_MAX: Final = 200
LIST_ROWS_MAX: Final = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Registered:
    """One worker process, as it was seen last; times are text in UTC."""

    #: Whose leases these are; another name at every start.
    worker: str
    host: str
    pid: int
    started_at: str
    seen_at: str
    #: How long ago that was, by the store's own clock.
    seen_seconds_ago: float
    #: When it ended, if it did so by itself.
    stopped_at: str | None
    #: What it consumes: the name of each, and how long a lease of it lasts.
    consumers: tuple[dict[str, Any], ...]
    version: str

    @property
    def is_silent(self) -> bool:
        """Say whether it said nothing for so long that it is dead, frozen or cut off."""
        return self.stopped_at is None and self.seen_seconds_ago > SILENT_SECONDS


class Registry:
    """The entry of one worker."""

    def __init__(self, ow: Onceward, worker: str, consumers: Sequence[Consumer]) -> None:
        """Enter nothing yet."""
        self._ow = ow
        self._worker = worker
        self._consumers = orjson.dumps(
            [
                {"name": each.name, "lease_seconds": each.lease_seconds}
                for each in consumers[:CONSUMERS_MAX]
            ]
        ).decode()
        self._is_known = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Say so in a thread while the block runs, and at its end that it ended."""
        with rounds("registry", self._round, self.stop):
            yield

    def beat(self) -> None:
        """Say that this worker lives."""
        self._ow.store.write_query(
            "worker_beat",
            worker=self._worker,
            host=socket.gethostname(),
            pid=os.getpid(),
            consumers=self._consumers,
            version=__version__,
        )
        self._is_known = True

    def stop(self) -> None:
        """Say that it ended, if it ever said that it lives."""
        if self._is_known:
            with suppress(OncewardError):
                self._ow.store.write_query("worker_stop", worker=self._worker)

    def _round(self) -> float:
        # A store that is away is what the work itself tells of.
        with suppress(StoreUnavailable, StoreBusy):
            self.beat()
        return BEAT_SECONDS


def registered(store: Store, limit: int = LIST_ROWS_MAX) -> tuple[Registered, ...]:
    """Return the workers that are known, whoever was seen last first."""
    return tuple(_registered(row) for row in store.read("worker_list", limit=limit))


def _registered(row: Row) -> Registered:
    found = dict(zip(Registered.__dataclass_fields__, row, strict=True))
    return Registered(**{**found, "consumers": tuple(orjson.loads(found["consumers"]))})
