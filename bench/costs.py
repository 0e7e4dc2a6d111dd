"""Measure what each operation costs on both engines, and how much load one store carries.

A whole run writes these numbers into `docs/explanation/scaling.md`; `python -m bench costs`
prints them.
"""

import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import messages
from bench.engines import postgres
from bench.load import Carried, Load, carried
from bench.operations import MADE_OF, RENEW, rounds
from bench.timing import Run, Spread, spread, turns
from bench.units import short
from docs.make.regions import table
from onceward.client import open as open_handle
from onceward.cursors.models import HEARTBEATS_PER_LEASE, LEASE_SECONDS
from onceward.testing.postgres import PostgresServer

ENGINES = ("SQLite", "PostgreSQL")
PROCESSES = (1, 2, 4)
CURSORS, BATCH = 8, 100
SINGLY, BATCHED = f"one by one, {CURSORS} cursors", f"batches of {BATCH}, {CURSORS} cursors"
LOADS = (
    Load(work=SINGLY, engine="PostgreSQL", name="single"),
    Load(work=BATCHED, engine="PostgreSQL", name="batched", batch=BATCH),
    Load(work="one by one, one cursor", engine="PostgreSQL", name="lane", has_parts=False),
    Load(work=SINGLY, engine="SQLite", name="single"),
    Load(work=BATCHED, engine="SQLite", name="batched", batch=BATCH),
)
ABOUT = """\
Measured by `make bench` on {}. Medians of three rounds; brackets hold the fastest and the
slowest."""
LOADED = """\
Messages a second, by the number of worker processes. Each has four threads, and each message is an
insert. In brackets: cores that the workers kept busy, and cores that PostgreSQL did."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What a run measured."""

    #: Seconds of each operation, by engine.
    operations: dict[str, dict[str, Spread]]
    #: For each number of processes.
    loads: dict[Load, list[Carried]]

    def markdown(self, machine: str) -> str:
        """Return it as it stands in the page."""
        loads = [[each.work, each.engine, *map(_rate, all_)] for each, all_ in self.loads.items()]
        blocks = [
            ABOUT.format(machine),
            table(["operation", *ENGINES, "made of"], [self._operation(name) for name in MADE_OF]),
            self._heartbeats(),
            LOADED,
            table(["messages", "on", *(f"processes: {count}" for count in PROCESSES)], loads),
        ]
        return "\n\n".join(blocks)

    def _operation(self, name: str) -> list[str]:
        by_engine = (self.operations[engine][name] for engine in ENGINES)
        return [name, *map(_range, by_engine), MADE_OF[name]]

    def _heartbeats(self) -> str:
        """Say how many leases the one thread that renews them can keep."""
        apart = LEASE_SECONDS / HEARTBEATS_PER_LEASE
        kept = [
            f"{apart / self.operations[engine][RENEW].median:,.0f} on {engine}"
            for engine in ENGINES
        ]
        return (
            f"One thread of a process renews its leases. A lease of {LEASE_SECONDS:g} s is renewed"
            f" every {apart:g} s, so that thread keeps up with {' and '.join(kept)}."
        )

    def record(self) -> dict[str, Any]:
        """Return it for machines."""
        return {
            "operations": {
                engine: {name: found._asdict() for name, found in each.items()}
                for engine, each in self.operations.items()
            },
            "loads": [
                {**asdict(load), "processes": count, **asdict(each)}
                for load, found in self.loads.items()
                for count, each in zip(PROCESSES, found, strict=True)
            ],
        }


def measure(run: Run) -> Costs:
    """Measure all of it."""
    with tempfile.TemporaryDirectory() as name, postgres() as server:
        return Costs(_operations(run, Path(name), server), _loads(run, Path(name), server))


def _operations(run: Run, directory: Path, server: PostgresServer) -> dict[str, dict[str, Spread]]:
    urls = {
        "SQLite": f"sqlite:///{directory}/operations.db",
        "PostgreSQL": server.new_database("operations"),
    }
    stores = {engine: open_handle(url) for engine, url in urls.items()}
    found = turns(
        {
            f"{engine} {name}": round_
            for engine, ow in stores.items()
            for name, round_ in rounds(run, ow).items()
        },
        run.repetitions(3),
    )
    for ow in stores.values():
        ow.close()
    return {
        engine: {name: spread(found[f"{engine} {name}"]) for name in MADE_OF} for engine in ENGINES
    }


def _loads(run: Run, directory: Path, server: PostgresServer) -> dict[Load, list[Carried]]:
    urls = {"SQLite": f"sqlite:///{directory}/load.db", "PostgreSQL": server.new_database("load")}
    stores = {engine: open_handle(url) for engine, url in urls.items()}
    for ow in stores.values():
        messages.tables(ow, run.size(1_000_000, quick=50_000), CURSORS)
    found = {}
    for load in LOADS:
        print(f"  {load.work}, {load.engine}", file=sys.stderr, flush=True)
        ow, url = stores[load.engine], urls[load.engine]
        found[load] = [carried(run, ow, url, load, count) for count in PROCESSES]
    for ow in stores.values():
        ow.close()
    return found


def _range(cost: Spread) -> str:
    return f"{short(cost.median)} ({short(cost.least)} to {short(cost.most)})"


def _rate(found: Carried) -> str:
    cores = f"{found.worker_cores:.1f}"
    if found.server_cores:
        cores += f" + {found.server_cores:.1f}"
    return f"{found.messages_per_second:,.0f} ({cores})"
