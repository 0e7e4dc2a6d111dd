"""Worker registry: record the worker processes of a store and their heartbeats, for operators.

Shows which workers run, are silent, or stopped regularly. It decides nothing: only leases decide
which worker may process a cursor.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import orjson

from onceward.client import Onceward
from onceward.errors import OncewardError, StoreBusy, StoreUnavailable
from onceward.stores import Row, Store
from onceward.version import __version__
from onceward.workers.models import Consumer
from onceward.workers.periodic import repeating

HEARTBEAT_SECONDS: Final = 5.0
#: Three missed heartbeats.
SILENT_SECONDS: Final = 3 * HEARTBEAT_SECONDS
#: Further consumers of a worker are not listed.
CONSUMERS_MAX: Final = 200
LIST_ROWS_MAX: Final = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class RegisteredWorker:
    """One worker process at its last heartbeat; times are text in UTC."""

    #: The owner name in leases; new at every start.
    worker: str
    host: str
    pid: int
    started_at: str
    seen_at: str
    #: Age of the last heartbeat by the store's clock.
    seen_seconds_ago: float
    #: When it stopped, if it did so regularly.
    stopped_at: str | None
    #: Name and lease duration of each of its consumers.
    consumers: tuple[dict[str, Any], ...]
    version: str

    @property
    def is_silent(self) -> bool:
        """Return whether heartbeats are missing: the worker is dead, frozen or disconnected."""
        return self.stopped_at is None and self.seen_seconds_ago > SILENT_SECONDS


class WorkerRegistration:
    """Registers one worker and sends its heartbeats."""

    def __init__(self, ow: Onceward, worker: str, consumers: Sequence[Consumer]) -> None:
        """Prepare; nothing is written before the first heartbeat."""
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
        """Send heartbeats in a thread while the block runs, and record the stop at its end."""
        with repeating("registry", self._tick, self.stop):
            yield

    def send_heartbeat(self) -> None:
        """Record that this worker is alive."""
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
        """Record that this worker stopped, if it ever sent a heartbeat."""
        if self._is_known:
            with suppress(OncewardError):
                self._ow.store.write_query("worker_stop", worker=self._worker)

    def _tick(self) -> float:
        # An unavailable store is logged by the cursors that need it.
        with suppress(StoreUnavailable, StoreBusy):
            self.send_heartbeat()
        return HEARTBEAT_SECONDS


def list_workers(store: Store, limit: int = LIST_ROWS_MAX) -> tuple[RegisteredWorker, ...]:
    """Return the registered workers, the most recently seen first."""
    return tuple(_worker_of_row(row) for row in store.read("worker_list", limit=limit))


def _worker_of_row(row: Row) -> RegisteredWorker:
    found = dict(zip(RegisteredWorker.__dataclass_fields__, row, strict=True))
    return RegisteredWorker(**{**found, "consumers": tuple(orjson.loads(found["consumers"]))})
