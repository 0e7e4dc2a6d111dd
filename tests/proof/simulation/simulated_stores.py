"""Simulated stores: shared by simulated processes, made once and emptied for every schedule."""

from __future__ import annotations

import logging
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onceward.client import Onceward
from onceward.stores import migrate
from onceward.stores.sqlite.store import SqliteStore
from onceward.stores.sqlite.transaction import SqliteTransaction
from onceward.system import Randomness, crash_points
from tests.proof.simulation.machine import SimulatedClock, SimulatedFiles
from tests.proof.simulation.scheduler import Process, Simulation


class SimulatedStores:
    """One database file, and as many stores on it as a world has processes."""

    def __init__(self, directory: Path, tables: tuple[str, ...]) -> None:
        """Make the schema, and the world's own tables."""
        self.path = directory / "simulated.db"
        self.files, self.clock = SimulatedFiles(), SimulatedClock()
        self._stores: list[SqliteStore] = []
        #: How many commits there were; what it was before says whether anything can have changed.
        self.commits = 0
        # Small pages: a commit copies whole ones, and there is hardly anything in them.
        small = sqlite3.connect(self.path)
        small.executescript("pragma page_size = 1024; vacuum")
        small.close()
        store = SqliteStore(self.path)
        migrate(store)
        with store.transaction() as tx:
            for each in tables:
                tx.execute(each)
        store.close()
        #: The world's own eyes, beside all processes.
        self.eyes = sqlite3.connect(self.path, timeout=1, isolation_level=None)
        found = self.eyes.execute("select name from sqlite_master where type = 'table'").fetchall()
        names = [str(name) for (name,) in found]
        kept = [name for name in names if name.startswith(("memory_words", "sqlite_"))]
        self._emptied = [each for each in names if each not in (*kept, "onceward_migrations")]

    def reset(self, simulation: Simulation) -> None:
        """Empty every table, and let the stores be of this simulation."""
        self.files.simulation = self.clock.simulation = simulation
        for lock in self.files.locks.values():
            assert lock.holder is None, "a dead process has kept its turn"
        self.eyes.execute("begin immediate")
        self.eyes.execute("pragma defer_foreign_keys = on")
        for table in self._emptied:
            self.eyes.execute(f'delete from "{table}"')
        self.eyes.execute("delete from sqlite_sequence")
        self.eyes.execute("commit")

    def handle(self, process: Process) -> Onceward:
        """Return a new life's handle on the store of this process; what it remembered is gone."""
        simulation = process.simulation
        number = simulation.processes.index(process)
        while len(self._stores) <= number:
            self._stores.append(SqliteStore(self.path, clock=self.clock, files=self.files))
        handle = Onceward(self._stores[number])
        # No seed would govern a thread. Notes of refusals decide nothing; leases are renewed by
        # `beat`, from the process itself.
        handle.cursors.fence_log.add = lambda *_: None  # type: ignore[method-assign]
        heartbeat = handle.cursors.heartbeat
        heartbeat._thread, heartbeat._clock = threading.current_thread(), self.clock
        chance = _Chance(simulation)
        handle.cursors._randomness = chance
        handle.retries.attempts._randomness = handle.retries.parked._randomness = chance
        return handle

    def beat(self, handle: Onceward) -> None:
        """Renew what is due, as the thread of the heartbeat would."""
        heartbeat, now = handle.cursors.heartbeat, self.clock.monotonic()
        for each in [beat for beat in heartbeat._renewed.values() if beat.due <= now]:
            each.due = now + each.renew()

    def rows(self, sql: str, *params: object) -> list[tuple[Any, ...]]:
        """Look at the store from outside."""
        return self.eyes.execute(sql, params).fetchall()

    def close(self) -> None:
        """Give everything back."""
        self.eyes.close()
        for store in self._stores:
            store.close()


class _Chance(Randomness):
    """Chance of the schedule."""

    def __init__(self, simulation: Simulation) -> None:
        self._random = simulation.random

    def fraction(self) -> float:
        return self._random.random()

    def hex(self, digits: int) -> str:
        return f"{self._random.getrandbits(4 * digits):0{digits}x}"


@contextmanager
def simulated_stores(tables: tuple[str, ...]) -> Iterator[SimulatedStores]:
    """Open stores in memory, with crash points and commits in the hands of its simulation."""
    shared = Path("/dev/shm")  # Nothing of it must last.
    directory = Path(tempfile.mkdtemp(dir=shared if shared.is_dir() else None))
    original = SqliteTransaction.commit
    stores = SimulatedStores(directory, tables)

    def commit(transaction: SqliteTransaction) -> None:
        """Commit, and from time to time lose the answer before the caller gets it."""
        simulation = stores.files.simulation
        if transaction._clock is not stores.clock:  # Of another store in this process.
            original(transaction)
            return

        def end() -> None:
            del transaction._end  # The class's own is back.
            stores.commits += 1
            if simulation is not None:
                simulation.lose_answer()
            transaction._end()

        if simulation is not None and (transaction.is_writing or transaction._commit_queries):
            simulation.lose()
        transaction._end = end  # type: ignore[method-assign]  # between COMMIT and its answer
        try:
            original(transaction)
        finally:
            transaction.__dict__.pop("_end", None)

    thread = threading.get_ident()

    def passed(point: str) -> None:
        if stores.files.simulation is not None and threading.get_ident() == thread:
            stores.files.simulation.give_way(point)

    SqliteTransaction.commit = commit  # type: ignore[method-assign,assignment]
    crash_points.watch(passed)
    log = logging.getLogger("onceward")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)  # Every fault would be logged, in thousands of schedules.
    try:
        yield stores
    finally:
        crash_points.watch(None)
        log.setLevel(level)
        SqliteTransaction.commit = original  # type: ignore[method-assign]
        stores.files.simulation = None
        stores.close()
        shutil.rmtree(directory)
