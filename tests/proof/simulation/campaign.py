"""Campaign: one world under many seeds, and a ledger of what must have been reached.

A world sets up processes for a simulation and knows what must hold. A campaign that never reached
an interesting state, or did no work, has proved nothing, and fails.
"""

from __future__ import annotations

import math
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from tests.proof.simulation.scheduler import Simulation
from tests.proof.simulation.simulated_stores import SimulatedStores, simulated_stores
from tests.support.evidence import Entry


class World:
    """Processes that do one kind of work, and the promises about it."""

    #: By which name it is replayed.
    name: ClassVar[str]
    #: The promises it looks after.
    claims: ClassVar[tuple[str, ...]]
    #: States that a campaign must reach at least once.
    sometimes: ClassVar[tuple[str, ...]]
    #: Tables of its own.
    tables: ClassVar[tuple[str, ...]] = ()
    #: Once the faults have stopped, all work must be at its end after so many simulated seconds.
    settle_seconds_max: float = math.inf

    def __init__(self, simulation: Simulation, stores: SimulatedStores) -> None:
        """Prepare the store from outside and add processes."""
        self.simulation, self.stores = simulation, stores
        #: How this seed differs from others beside its faults, for the reader of a failure.
        self.knobs: dict[str, object] = {}
        #: What `check` has counted: pieces of work that were done, gone, and done twice.
        self.work = 0
        self.lost = 0
        self.doubled = 0

    def after_step(self) -> None:
        """Check, from outside, what must hold after each single step; cheap."""

    def after_commit(self) -> None:
        """Check, from outside, what a commit has changed; no step has more than one."""

    def is_settled(self) -> bool:
        """Say whether all the work has come to its end."""
        raise NotImplementedError

    def check(self) -> None:
        """Check what must hold at the end, and count the work."""
        raise NotImplementedError


@dataclass
class Tally:
    """What a campaign saw."""

    world: str
    schedules: int = 0
    steps: int = 0
    work: int = 0
    lost: int = 0
    doubled: int = 0
    #: The longest that the work of a schedule went on once its faults had stopped, simulated; and
    #: the largest part of the time that it may take.
    settled_seconds: float = 0.0
    settled_part: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    #: The same for the same seeds, in every process.
    fingerprint: int = 0

    def add(self, world: World) -> None:
        """Count one schedule."""
        simulation = world.simulation
        self.schedules += 1
        self.steps += simulation.steps
        self.work += world.work
        self.lost += world.lost
        self.doubled += world.doubled
        self.settled_seconds = max(self.settled_seconds, simulation.settled_seconds)
        part = simulation.settled_seconds / world.settle_seconds_max
        self.settled_part = max(self.settled_part, part)
        self.faults += simulation.faults
        self.seen += simulation.seen
        self.fingerprint = zlib.crc32(simulation.fingerprint().encode(), self.fingerprint)


class Unreached(AssertionError):
    """A campaign never came to a state that it is there for."""


def run(kind: type[World], seeds: Iterable[int]) -> Tally:
    """Run a world under each of these seeds; the first broken promise ends it."""
    tally = Tally(kind.name)
    with simulated_stores(kind.tables) as stores:
        for seed in seeds:
            tally.add(run_one(kind, seed, stores))
    return tally


def run_one(
    kind: type[World],
    seed: int,
    stores: SimulatedStores,
    *,
    is_verbose: bool = False,
    begun: Callable[[World], None] = lambda _: None,
) -> World:
    """Run one schedule; a failure says how to see it again. `begun` comes before its first step."""
    simulation = Simulation(seed, is_verbose=is_verbose)
    stores.reset(simulation)
    world = kind(simulation, stores)
    begun(world)
    commits = stores.commits

    def after_step() -> None:
        nonlocal commits
        world.after_step()
        if stores.commits != commits:
            assert stores.commits == commits + 1, "two commits in one step"
            commits = stores.commits
            world.after_commit()

    # Letters keep where an error came from, which takes more time than all else.
    sys.tracebacklimit = 0
    try:
        simulation.run(world.is_settled, after_step)
        world.check()
        took, most = simulation.settled_seconds, world.settle_seconds_max
        assert took <= most, f"settled {took:.0f} s after the last fault, not within {most:.0f}"
    except BaseException as exc:
        exc.add_note(f"{simulation.options}\n{world.knobs}")
        if not is_verbose:
            exc.add_note("\n".join(simulation.trace[-40:]))
        exc.add_note(repro(kind.name, seed))
        raise
    finally:
        simulation.end()
        del sys.tracebacklimit
    return world


def repro(name: str, seed: int) -> str:
    """Return the line that shows a schedule again."""
    return f"REPRO: .venv/bin/python -m tests.proof.simulation {name} --seed {seed}"


def check_reached(kind: type[World], tally: Tally) -> None:
    """Fail when an entry of the world's ledger is open, or when nothing was done."""
    if not tally.work:
        message = f"no work was done in {tally.schedules} schedules of {kind.name}"
        raise Unreached(message)
    missing = [each for each in kind.sometimes if not tally.seen[each]]
    if missing:
        message = f"{tally.schedules} schedules of {kind.name} never reached: {', '.join(missing)}"
        raise Unreached(message)
    unknown = set(tally.seen) - set(kind.sometimes)
    assert not unknown, f"not in the ledger of {kind.name}: {sorted(unknown)}"


def entry(kind: type[World], tally: Tally) -> Entry:
    """Return what the report says about a campaign."""
    return Entry(
        campaign=f"simulated schedules of {kind.name}: seeded order, time and faults, then calm"
        " (recovery in simulated seconds)",
        layer="simulation",
        claims=kind.claims,
        engine="sqlite",
        schedules=tally.schedules,
        faults=dict(tally.faults),
        lost=tally.lost,
        doubled=tally.doubled,
        work=tally.work,
        recovery_seconds=(round(tally.settled_seconds, 1),),
        reached=dict(sorted(tally.seen.items())),
    )
