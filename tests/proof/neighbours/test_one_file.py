"""One SQLite file that the program around Onceward uses, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.evidence import Entry, Evidence
from tests.support.module_processes import run_module


@pytest.mark.prove
@pytest.mark.timeout(2400)
def test_h46_other_connections_of_the_process_corrupt_nothing(
    tmp_path: Path, prove: bool, soak: bool, evidence: Evidence
) -> None:
    """Other libraries open, write and close the file: it stays whole, and nothing is lost."""
    calls = 20_000 if soak else 2_500 if prove else 60
    processes = 3 if prove else 1
    module = "tests.proof.neighbours.one_file"
    said = run_module(module, tmp_path, calls, processes, seconds_max=1800)
    assert said["integrity"] == ["ok"]
    assert said["errors"] == {}
    assert said["acknowledged"] == 5 * calls * (1 + processes)
    evidence.record(
        Entry(
            campaign="sqlite3 and SQLAlchemy on the store's file, in its process and beside it",
            layer="neighbours",
            claims=("D1",),
            engine="sqlite",
            schedules=1 + processes,
            faults={"foreign connection opened and closed": 2 * calls * (1 + processes)},
            lost=said["lost"],
            doubled=said["doubled"],
            work=said["acknowledged"],
        )
    )
    assert (said["lost"], said["doubled"]) == (0, 0)
