"""Simulated schedules: every world holds, reaches what it is there for, and obeys its seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.proof.simulation import __main__ as command
from tests.proof.simulation.campaign import (
    Tally,
    Unreached,
    World,
    check_reached,
    entry,
    run,
    run_one,
)
from tests.proof.simulation.leases import Leases
from tests.proof.simulation.scheduler import Process, Simulation, Stuck
from tests.proof.simulation.simulated_stores import SimulatedStores, simulated_stores
from tests.proof.simulation.worlds import WORLDS
from tests.support.evidence import Evidence

#: How many schedules of a world `make test` runs: twice as many as reach all that they should.
SLICES = {"leases": 250, "outcomes": 250}
SLICE = 100
CHUNK = 4_500
#: How many chunks of a world a full proof has, and how many times as many a soak.
CHUNKS = {"leases": 11, "parked": 3, "outcomes": 7, "dual": 2}
CHUNKS_ELSE = 2
SOAK = 10
SEEDS = Path(__file__).parent / "simulation" / "seeds.txt"


def chunks(name: str, *, prove: bool, soak: bool) -> int:
    """Return into how many tests the campaign of a world is cut."""
    return CHUNKS.get(name, CHUNKS_ELSE) * (SOAK if soak else 1) if prove else 1


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Cut campaigns into chunks, so that several processes share them."""
    if "chunk" not in metafunc.fixturenames:
        return
    soak = bool(metafunc.config.getoption("--soak"))
    prove = soak or bool(metafunc.config.getoption("--prove"))
    cut = [
        (name, chunk) for name in WORLDS for chunk in range(chunks(name, prove=prove, soak=soak))
    ]
    metafunc.parametrize(("world", "chunk"), cut)


def kept_seeds() -> list[tuple[str, int]]:
    lines = SEEDS.read_text(encoding="utf-8").splitlines()
    kept = [line.split(maxsplit=2) for line in lines if line and not line.startswith("#")]
    return [(world, int(seed)) for world, seed, _ in kept]


@pytest.mark.parametrize(("world", "seed"), kept_seeds())
def test_schedules_that_once_failed_hold(world: str, seed: int) -> None:
    """What was found once is looked at first, every time."""
    run(WORLDS[world], [seed])


@pytest.mark.prove
@pytest.mark.timeout(3600)
def test_every_schedule_holds(world: str, chunk: int, prove: bool, evidence: Evidence) -> None:
    """Whatever order, time and faults: nothing is lost or duplicated, and all comes to rest."""
    kind, size = WORLDS[world], CHUNK if prove else SLICES.get(world, SLICE)
    tally = run(kind, range(chunk * size, (chunk + 1) * size))
    check_reached(kind, tally)
    evidence.record(entry(kind, tally))


def test_a_full_proof_is_long_enough() -> None:
    """All worlds together have at least 100,000 schedules."""
    assert sum(chunks(name, prove=True, soak=False) for name in WORLDS) * CHUNK >= 100_000


# --- governed by the seed ------------------------------------------------------------------------


@pytest.mark.parametrize("world", WORLDS)
def test_a_seed_gives_the_same_schedule(world: str) -> None:
    """Again, after other seeds, and in another process with other hashes."""
    kind, seeds = WORLDS[world], range(40, 50)
    first = run(kind, seeds)
    again = Tally(world)
    with simulated_stores(kind.tables) as stores:
        run_one(kind, 7, stores)
        for seed in seeds:
            again.add(run_one(kind, seed, stores, is_verbose=True))
    assert again == first
    environment = {**os.environ, "PYTHONHASHSEED": "4321"}
    line = [sys.executable, "-m", "tests.proof.simulation", world, "--seed", "40", "--count", "10"]
    root = Path(__file__).parents[2]
    found = subprocess.run(
        line, cwd=root, env=environment, capture_output=True, text=True, check=True
    )
    assert f"fingerprint: {first.fingerprint:08x}" in found.stdout


def test_other_seeds_give_other_schedules() -> None:
    """What two schedules share is not their fingerprint."""
    prints = [run(Leases, [seed]).fingerprint for seed in range(10)]
    assert len(set(prints)) == len(prints)


# --- campaigns that prove nothing ----------------------------------------------------------------


class Impossible(Leases):
    """Leases, and a state that cannot be reached."""

    sometimes = (*Leases.sometimes, "pigs flew")


def test_an_open_entry_fails_a_campaign() -> None:
    """A state that was never reached was never looked at."""
    with pytest.raises(Unreached, match="60 schedules of leases never reached: .*pigs flew"):
        check_reached(Impossible, run(Impossible, range(60)))


def test_a_state_outside_the_ledger_fails_a_campaign() -> None:
    """A typing error would else leave an entry open for ever."""
    tally = Tally("leases", schedules=1, work=1)
    tally.seen.update([*Leases.sometimes, "a lease was taken ovre"])
    with pytest.raises(AssertionError, match="ovre"):
        check_reached(Leases, tally)


class Empty(World):
    """A process that does nothing."""

    name = "empty"
    claims = ("D1",)
    sometimes = ()

    def __init__(self, simulation: Simulation, stores: SimulatedStores) -> None:
        super().__init__(simulation, stores)
        simulation.add("idle", self.idle)

    def idle(self, process: Process) -> None:
        """Be there."""

    def is_settled(self) -> bool:
        return all(each.is_done for each in self.simulation.processes)

    def check(self) -> None:
        """Find nothing wrong."""


def test_a_campaign_in_which_nothing_happened_fails(tmp_path: Path) -> None:
    """Neither its ledger nor the report takes it."""
    tally = run(Empty, range(5))
    with pytest.raises(Unreached, match="no work"):
        check_reached(Empty, tally)
    with pytest.raises(AssertionError, match="no work"):
        Evidence("x", tmp_path / "x.jsonl").record(entry(Empty, tally))


class Waiting(Empty):
    """A process that waits for what never comes."""

    def idle(self, process: Process) -> None:
        while not process.is_done:
            self.simulation.sleep(1.0)


class Ended(Empty):
    """A process that ended before the work was done."""

    def is_settled(self) -> bool:
        return False


@pytest.mark.parametrize("kind", [Waiting, Ended])
def test_a_stuck_world_is_found(kind: type[World]) -> None:
    """Work that does not end once the faults have stopped is a failure with a REPRO line."""
    with pytest.raises(Stuck) as stuck:
        run(kind, [3])
    notes = "\n".join(stuck.value.__notes__)
    assert notes.count("REPRO: ") == 1
    assert notes.endswith("-m tests.proof.simulation empty --seed 3")


class Slow(Leases):
    """Leases that would have to be done with at once."""

    settle_seconds_max = 0.001


def test_work_that_takes_too_long_is_found() -> None:
    """Coming to rest some day is not enough."""
    with pytest.raises(AssertionError, match="after the last fault, not within"):
        run(Slow, range(30))


# --- the command ---------------------------------------------------------------------------------


def test_the_command_prints_options_first(capsys: pytest.CaptureFixture[str]) -> None:
    """Then every step if asked for, and what came of it."""
    assert command.main(["leases", "--seed", "3", "--trace"]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("seed 3: Options(kill=")
    assert last.startswith("  ")


def test_the_command_reports_a_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every step, the error, and one line that shows it again."""
    monkeypatch.setitem(WORLDS, "leases", Slow)
    assert command.main(["leases", "--seed", "0", "--count", "30"]) == 1
    said = capsys.readouterr().out
    assert "transaction.before_commit" in said
    assert "AssertionError: settled" in said
    assert said.count("REPRO: .venv/bin/python -m tests.proof.simulation leases --seed ") == 1


def test_the_command_lists_worlds(capsys: pytest.CaptureFixture[str]) -> None:
    """Without arguments; its help has an example."""
    assert command.main([]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == sorted(WORLDS)
    with pytest.raises(SystemExit):
        command.main(["--help"])
    assert "python -m tests.proof.simulation leases --seed 7" in capsys.readouterr().out
