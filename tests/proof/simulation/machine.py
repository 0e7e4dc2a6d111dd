"""Machine: the clock and the files that all simulated processes share.

A process that reads the time by which leases are decided, or waits to write, gives way.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from onceward.system import FileStat, OpenFile, SystemFiles
from tests.proof.simulation.scheduler import Lock, Simulation

START: Final = datetime(2026, 1, 1, tzinfo=UTC)


class SimulatedClock:
    """One machine's clock for all processes; wall time is off by each one's own error."""

    def __init__(self) -> None:
        #: Whose time it is; stores keep their clock longer than a simulation lasts.
        self.simulation = Simulation(0)

    def now(self) -> datetime:
        process = self.simulation.current
        skew = process.skew if process else timedelta(0)
        return START + timedelta(seconds=self.simulation.now) + skew

    def monotonic(self) -> float:
        return self.simulation.now

    def boot_seconds(self) -> float:
        """Return the time, which has gone on when the caller uses it."""
        found = self.simulation.now
        self.simulation.give_way("time")
        return found

    def boot_id(self) -> str:
        return "simulated"

    def sleep(self, seconds: float) -> None:
        self.simulation.sleep(seconds)


class SimulatedFiles(SystemFiles):
    """The machine's files, but for locks: a process that waits for one gives way to the others."""

    def __init__(self) -> None:
        self.simulation: Simulation | None = None
        self.locks: dict[Path, Lock] = {}

    def open_append(self, path: Path, *, follow_links: bool = True) -> OpenFile:
        del follow_links
        return _Queue(self, self.locks.setdefault(path, Lock()))


class _Queue:
    """An open file of which nothing is used but its lock."""

    def __init__(self, files: SimulatedFiles, lock: Lock) -> None:
        self._files, self._lock = files, lock

    def lock(self) -> None:
        simulation = self._files.simulation
        if simulation is not None and simulation.current is not None:
            simulation.refuse()
            simulation.give_way("lock")
            simulation.wait_for(self._lock)
        assert self._lock.holder is None
        self._lock.holder = self

    def unlock(self) -> None:
        if self._lock.holder is self:
            self._lock.holder = None

    def close(self) -> None:
        self.unlock()

    def try_lock(self) -> bool:
        raise NotImplementedError

    def stat(self) -> FileStat:
        raise NotImplementedError

    def read(self, offset: int, size: int) -> bytes:
        raise NotImplementedError

    def write(self, data: bytes) -> int:
        raise NotImplementedError

    def truncate(self, size: int) -> None:
        raise NotImplementedError

    def sync(self) -> None:
        raise NotImplementedError
