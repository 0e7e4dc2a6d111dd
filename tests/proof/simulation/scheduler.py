"""Scheduler: several processes in one thread, one step of one of them at a time, all by a seed.

A process is a greenlet that runs production code on a real SQLite store of its own; all stores
share one file. It gives way wherever it reads the time, waits for the writers' queue, or passes a
crash point, and there it may be killed, frozen, refused by the store, or lose the answer to its
commit. The same seed gives the same schedule, down to the last step, in every process.
"""

from __future__ import annotations

import math
import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]

from onceward.errors import OutcomeUnknown
from onceward.system.crash_points import Crashed
from tests.support.sqlite_errors import sqlite_error

#: A schedule that takes more steps than this is stuck.
STEPS_MAX: Final = 8_000
#: Once the faults have stopped, a step takes no longer than this on average, in seconds.
CALM_STEP_SECONDS: Final = 0.1
#: How many lines of what happened are kept.
TRACE_LINES_MAX: Final = 400


class Stuck(AssertionError):
    """After the faults had stopped, the work did not come to an end."""


@dataclass(kw_only=True)
class Options:
    """How this seed torments its processes: some seeds hardly, some in one way, some in all."""

    #: Chances at each step, at each write, and at each commit.
    kill: float = 0.0
    freeze: float = 0.0
    refuse: float = 0.0
    lost_commit: float = 0.0
    #: How long a step takes on average, and a frozen process sleeps, in seconds.
    step_seconds: float = 0.1
    freeze_seconds: float = 90.0
    #: How far wall clocks are off, in seconds.
    skew_seconds: float = 0.0
    #: How many steps the faults go on.
    fault_steps: int = 300

    @classmethod
    def drawn(cls, source: random.Random) -> Options:
        """Draw a swarm: each kind of fault is off in some seeds, so that others get their turn."""

        def chance(most: float) -> float:
            return source.choice((0.0, 0.0, most / 10, most / 3, most))

        return cls(
            kill=chance(0.06),
            freeze=chance(0.06),
            refuse=chance(0.1),
            lost_commit=chance(0.1),
            step_seconds=source.choice((0.01, 0.1, 1.0, 5.0)),
            freeze_seconds=source.choice((5.0, 70.0, 200.0)),
            skew_seconds=source.choice((0.0, 0.0, 3600.0)),
            fault_steps=source.choice((60, 150, 400)),
        )


@dataclass
class Lock:
    """The queue of writers of one file."""

    holder: object = None


class Process:
    """One simulated process: what it runs, and whether it can go on."""

    def __init__(self, simulation: Simulation, name: str, main: Callable[[Process], None]) -> None:
        self.simulation, self.name, self._main = simulation, name, main
        #: How often it was started; worker ids and the like should carry it.
        self.life = 0
        self.wakes = 0.0
        self.waits_for: Lock | None = None
        self.is_done = False
        self._is_dying = False
        self.skew = timedelta(0)
        self._run: greenlet | None = None

    @property
    def id(self) -> str:
        """Return what tells this life from all others."""
        return f"{self.name}.{self.life}"

    @property
    def can_run(self) -> bool:
        """Say whether a step of it is possible now."""
        if self.is_done or self.wakes > self.simulation.now:
            return False
        return self.waits_for is None or self.waits_for.holder is None

    def step(self) -> None:
        """Let it go on until it gives way; a dead one is started again."""
        if self._run is None:
            self.life += 1
            self._run = greenlet(self._live)
        self._run.switch()
        if self._run.dead:
            self._run = None
            self._is_dying = False

    def kill(self) -> None:
        """Die wherever it stands, from outside."""
        self._is_dying = True
        if self._run is not None:
            self._run.switch()
            assert self._run.dead, f"{self.name} lives on"
        self._run = None

    def _live(self) -> None:
        try:
            self._main(self)
        except Crashed:
            return
        self.is_done = True

    def gave_way(self, where: str) -> None:
        """Come back from giving way; the dead do nothing more, however they try."""
        if self._is_dying:
            raise Crashed(where)

    def die(self, where: str) -> None:
        """Be killed here; nothing that its blocks do on their way out reaches the store."""
        self._is_dying = True
        raise Crashed(where)


class Simulation:
    """A world's time, its processes, and what happened to them."""

    def __init__(
        self, seed: int, options: Options | None = None, *, is_verbose: bool = False
    ) -> None:
        """Draw everything from this seed; if verbose, every step is in the trace."""
        self.seed = seed
        self._is_verbose = is_verbose
        self.random = random.Random(f"schedule {seed}")
        self.options = options or Options.drawn(random.Random(f"options {seed}"))
        self._step_seconds = self.options.step_seconds
        self.now = 1000.0
        self.steps = 0
        self.is_healed = False
        self.processes: list[Process] = []
        self.faults: Counter[str] = Counter()
        #: Where processes were killed and frozen: the name of a crash point, `time` or `lock`.
        self.killed_at: Counter[str] = Counter()
        self.frozen_at: Counter[str] = Counter()
        #: When the faults stopped, and how long the work went on from there.
        self.healed_at = 0.0
        self.settled_seconds = 0.0
        #: Which interesting states were reached.
        self.seen: Counter[str] = Counter()
        #: The last things that happened, for the reader of a failure.
        self.trace: list[str] = []
        self._current: Process | None = None

    def fingerprint(self) -> str:
        """Return, at the end, what two equal schedules share, and two others hardly ever."""
        return f"{self.steps} {self.now!r} {self.random.random()!r} {sum(self.faults.values())}"

    def add(self, name: str, main: Callable[[Process], None]) -> Process:
        """Add a process; `main` is run again in every life, and ends it by returning."""
        process = Process(self, name, main)
        skew = self.options.skew_seconds
        process.skew = timedelta(seconds=self.random.uniform(-skew, skew))
        self.processes.append(process)
        return process

    def sometimes(self, what: str) -> None:
        """Note that an interesting state was reached."""
        self.seen[what] += 1

    def note(self, what: str) -> None:
        """Keep a line for the reader of a failure."""
        who = self._current.id if self._current else "-"
        self.trace.append(f"{self.steps:5} {self.now:9.2f} {who:8} {what}")
        if not self._is_verbose:
            del self.trace[:-TRACE_LINES_MAX]

    def run(self, is_settled: Callable[[], bool], after_step: Callable[[], None]) -> None:
        """Torment until all is done or it is enough; heal; see everything come to its end."""
        while self.steps < self.options.fault_steps and not is_settled():
            if all(each.is_done for each in self.processes):
                break
            self._step(after_step)
        self.is_healed, self.healed_at = True, self.now
        self._step_seconds = min(self._step_seconds, CALM_STEP_SECONDS)
        for process in self.processes:
            process.wakes = min(process.wakes, self.now)
        self.note("healed")
        while not is_settled():
            if self.steps > STEPS_MAX or all(each.is_done for each in self.processes):
                message = f"not settled {self.steps} steps after the beginning"
                raise Stuck(message)
            self._step(after_step)
        self.settled_seconds = self.now - self.healed_at

    def end(self) -> None:
        """Let every process that is still under way die, so that nothing of it is left."""
        self.is_healed = True
        for process in self.processes:
            self._current = process
            process.kill()
        self._current = None

    def _step(self, after_step: Callable[[], None]) -> None:
        able = [each for each in self.processes if each.can_run]
        if not able:
            self.now = self._next_wake()
            return
        self.steps += 1
        chance = self.random.random
        self.now -= self._step_seconds * math.log(1.0 - chance())
        self._current = able[int(chance() * len(able))] if len(able) > 1 else able[0]
        self._current.step()
        self._current = None
        after_step()

    def _next_wake(self) -> float:
        wakes = [each.wakes for each in self.processes if not each.is_done and not each.waits_for]
        if not wakes:
            message = "every process waits for another"
            raise Stuck(message)
        return max(self.now, min(wakes))

    # --- where a process gives way ------------------------------------------------------------

    @property
    def current(self) -> Process | None:
        """Return the process that runs now; None while the world itself looks at its store."""
        return self._current

    def give_way(self, where: str) -> None:
        """Let others go on; on the way a fault may come."""
        process = self._current
        if process is None:
            return
        process.gave_way(where)
        if self._is_verbose:
            self.note(where)
        self._torment(process, where)
        self._yield(process)
        process.gave_way(where)

    def sleep(self, seconds: float) -> None:
        """Let the running process wait."""
        process = self._current
        assert process is not None
        process.gave_way("sleep")
        process.wakes = self.now + seconds
        self._yield(process)
        process.gave_way("sleep")

    def wait_for(self, lock: Lock) -> None:
        """Let the running process wait for its turn to write."""
        process = self._current
        assert process is not None
        while lock.holder is not None:
            process.waits_for = lock
            self._yield(process)
            process.waits_for = None
            process.gave_way("lock")

    def _yield(self, process: Process) -> None:
        parent = getcurrent().parent
        assert parent is not None
        parent.switch()
        self._current = process

    def _torment(self, process: Process, where: str) -> None:
        options, chance = self.options, self.random.random
        if self.is_healed:
            return
        if options.kill and chance() < options.kill:
            self.faults["kill"] += 1
            self.killed_at[where] += 1
            self.note(f"killed at {where}")
            process.die(where)
        if options.freeze and chance() < options.freeze:
            self.faults["freeze"] += 1
            self.frozen_at[where] += 1
            self.note(f"frozen at {where}")
            process.wakes = self.now + self.random.expovariate(1 / options.freeze_seconds)

    def refuse(self) -> None:
        """Let SQLite refuse a transaction before it begins, from time to time."""
        if self._strikes(self.options.refuse, "refused"):
            raise sqlite_error(sqlite3.SQLITE_BUSY, "the simulated store is busy")

    def lose_answer(self) -> None:
        """Let the answer to a commit that happened get lost, from time to time."""
        if self._strikes(self.options.lost_commit, "ambiguous, committed"):
            message = "the answer to the simulated commit is lost"
            raise OutcomeUnknown(message, fix="look")

    def lose(self) -> None:
        """Let a commit get lost on its way, from time to time; its outcome is unknown."""
        if self._strikes(self.options.lost_commit / 2, "ambiguous, not committed"):
            message = "the simulated commit is lost"
            raise OutcomeUnknown(message, fix="look")

    def _strikes(self, chance: float, what: str) -> bool:
        process = self._current
        if self.is_healed or process is None or process._is_dying:
            return False
        is_struck = self.random.random() < chance
        if is_struck:
            self.faults[what] += 1
            self.note(what)
        return is_struck
