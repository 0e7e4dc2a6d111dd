"""SQLite stores on a disk that fails, fills up, tears, loses its power, or kills."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.proof.disk.faulty_disk import DYING, ERRORS, KILLS
from tests.proof.disk.scenarios import SCENARIOS
from tests.proof.disk.vfs import UNREACHABLE, library
from tests.support.evidence import Entry, Evidence

if library() is None:
    pytest.skip(UNREACHABLE, allow_module_level=True)

ROOT: Final = Path(__file__).parents[3]
#: Which faults each operation can meet.
KINDS: Final = {
    "write": (*ERRORS, *KILLS),
    "sync": ("eio", "eio-lasting", *DYING, "before", "after"),
    "truncate": ("eio", "full", "before", "after"),
    "delete": ("eio", "before", "after"),
    "open": ("eio", "eio-lasting"),
    "read": ("eio", "eio-lasting"),
}
#: At full length every so manieth operation meets each kind, so that each one meets some.
STRIDES: Final = {"write": 4, "sync": 2, "truncate": 1, "delete": 1, "open": 1, "read": 9}
CUT_STRIDE: Final = 2
#: Making a database from nothing has so many operations that each kind meets fewer of them.
LONG_STRIDE: Final = 3
#: A slice has a few of each, of some kinds.
SLICE_STRIDE: Final = 97
SLICE_KINDS: Final = 5
SLICE_CUT_STRIDE: Final = 29
PROVE_SECONDS_MAX: Final = 1_500


def faults_of(name: str, *, prove: bool, soak: bool) -> list[str]:
    """Return what a scenario meets: each kind from a place of its own on."""
    kinds = [(operation, kind) for operation, each in KINDS.items() for kind in each]
    if not prove:
        kinds = kinds[list(SCENARIOS).index(name) % SLICE_KINDS :: SLICE_KINDS]
    found = []
    for number, (operation, kind) in enumerate(kinds):
        full = STRIDES[operation] * (1 if SCENARIOS[name].is_prepared else LONG_STRIDE)
        stride = 1 if soak else full if prove else SLICE_STRIDE
        first = 1 + number % stride if prove else 1 + 7 * number % 20
        found.append(f"every={stride}={operation}:{first}:{kind}:0")
    return found


def cuts_of(name: str, *, prove: bool, soak: bool) -> list[str]:
    """Return where the power goes."""
    if soak:
        return [f"every=1=any:1:cut:{seed * 100_000}" for seed in range(20)]
    length = 1 if SCENARIOS[name].is_prepared else LONG_STRIDE
    stride = length * (CUT_STRIDE if prove else SLICE_CUT_STRIDE)
    return [f"every={stride}=any:{1 + list(SCENARIOS).index(name)}:cut:0"]


def run(directory: Path, name: str, synchronous: str, faults: list[str]) -> dict[str, Any]:
    """Run a campaign in a process that has nothing open, and return what it saw."""
    module = "tests.proof.disk.sqlite_campaign"
    command = [sys.executable, "-m", module, str(directory), name, synchronous, *faults]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


@pytest.mark.prove
@pytest.mark.timeout(PROVE_SECONDS_MAX)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_bad_disk_leaves_the_state_before_a_step_or_after_it(
    name: str, tmp_path: Path, prove: bool, soak: bool, evidence: Evidence
) -> None:
    """The n-th operation fails, tears, kills or cuts the power: no half steps, only our errors."""
    faults = [*faults_of(name, prove=prove, soak=soak), *cuts_of(name, prove=prove, soak=soak)]
    seen = run(tmp_path, name, "full", faults)
    if seen["broken"]:
        pytest.fail(seen["broken"][0], pytrace=False)
    assert seen["acknowledged"] > 0
    entry = Entry(
        campaign=f"SQLite on a disk that fails, dies or loses its power: {name}",
        layer="disk",
        claims=SCENARIOS[name].claims,
        engine="sqlite",
        schedules=seen["lives"],
        faults=seen["faults"],
        lost=seen["lost"],
        doubled=seen["doubled"],
        work=seen["work"],
        # A slice is too short to come everywhere.
        reached=seen["reached"] if prove else {},
    )
    evidence.record(entry)


@pytest.mark.prove
def test_commits_that_do_not_wait_for_the_disk_would_be_noticed(
    tmp_path: Path, prove: bool
) -> None:
    """The check above can fail: with a weaker setting acknowledged steps are lost."""
    for synchronous in ("off", "normal") if prove else ("off",):
        seen = run(tmp_path, "cursor", synchronous, ["every=3=any:5:cut:0"])
        assert seen["lost"] > 0
        assert any("acknowledged steps" in each and "REPRO: " in each for each in seen["broken"])
