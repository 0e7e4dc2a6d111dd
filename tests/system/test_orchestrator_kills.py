"""Runs under kill -9, with real processes, at any moment."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.evidence import Entry, Evidence

SEED = 20260206


@pytest.mark.prove
@pytest.mark.timeout(3600)
def test_kills_at_any_moment_change_nothing(
    tmp_path: Path, prove: bool, soak: bool, evidence: Evidence
) -> None:
    """The orchestrator, an agent or both die whenever they like: the same files in the end."""
    times = 300 if soak else 40 if prove else 8
    module = [sys.executable, "-m", "tests.support.crash_scenarios.orchestrator"]
    command = [*module, str(times), str(SEED)]
    ran = subprocess.run([*command, tmp_path], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"REPRO: {' '.join(command)} DIRECTORY\n{ran.stderr}"
    reported = json.loads(ran.stdout)
    assert reported["kills"] >= times
    evidence.record(
        Entry(
            campaign="runs whose orchestrator and agents are killed",
            layer="storms",
            claims=("O1",),
            engine="files",
            schedules=reported["runs"],
            faults={"kill": reported["kills"]},
            work=reported["commands"],
            repeated=reported["repeated"],
        )
    )


@pytest.mark.prove
@pytest.mark.timeout(3600)
def test_h70_h71_h72_kills_beside_a_person_and_impatient_runs(
    tmp_path: Path, prove: bool, soak: bool, evidence: Evidence
) -> None:
    """Nothing completed twice, nothing unapproved delivered, no byte written by hand lost."""
    if not prove:
        pytest.skip("its moments are of chance; `make prove` runs it")
    times = 600 if soak else 120
    module = [sys.executable, "-m", "tests.support.storms.orchestrator_edits"]
    command = [*module, str(times), str(SEED)]
    ran = subprocess.run([*command, tmp_path], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"REPRO: {' '.join(command)} DIRECTORY\n{ran.stderr}"
    reported = json.loads(ran.stdout)
    assert reported["kills"] >= times
    evidence.record(
        Entry(
            campaign="runs that are killed while a person edits files and other runs are started",
            layer="storms",
            claims=("O1", "O3"),
            engine="files",
            schedules=reported["runs"],
            faults={
                "kill": reported["kills"],
                "edit": reported["edits"],
                "second run": reported["refused"],
            },
            work=reported["commands"],
            repeated=reported["repeated"],
        )
    )
