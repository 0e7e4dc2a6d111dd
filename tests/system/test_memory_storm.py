"""Concurrent memory writers as real processes, killed with SIGKILL."""

from pathlib import Path

import pytest

from tests.support.evidence import Entry, Evidence
from tests.support.module_processes import run_module

SEED = 20260206


@pytest.mark.prove
def test_a_storm_of_calls_and_kills_loses_and_doubles_nothing(
    ow_url: str, tmp_path: Path, prove: bool, soak: bool, evidence: Evidence
) -> None:
    """Eight processes make mixed calls and are killed: what was acknowledged is there, once."""
    processes, calls, kills = (8, 1000, 400) if soak else (8, 200, 80) if prove else (8, 100, 24)
    numbers = (SEED, processes, calls, kills)
    summary = run_module("tests.support.storms.memory", ow_url, tmp_path, *numbers)
    # A process that is through with its calls cannot be killed any more.
    assert summary["kills"] >= kills // 2, summary
    assert summary["calls"] == processes * calls
    assert min(summary[each] for each in ("entities", "relations", "records", "deleted")) > 20
    evidence.record(
        Entry(
            campaign="mixed calls of eight processes to one memory",
            layer="storms",
            claims=("M1", "M2", "M3"),
            engine="sqlite" if ow_url.startswith("sqlite") else "postgres",
            schedules=1,
            faults={"kill": summary["kills"]},
            work=summary["calls"],
        )
    )
