"""Memory under kill -9, with real processes: at every crash point, and in a storm."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onceward.crash import POINTS
from tests.system.memory_matrix import SCENARIOS

SEED = 20260206
OURS = [point for point in POINTS if point.startswith(tuple(SCENARIOS))]


def run_module(name: str, *words: object) -> dict[str, Any]:
    command = [sys.executable, "-m", name, *map(str, words)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"REPRO: {' '.join(command)}\n{ran.stderr[-4000:]}"
    summary: dict[str, Any] = json.loads(ran.stdout)
    return summary


@pytest.mark.prove
@pytest.mark.parametrize("point", OURS)
def test_a_kill_at_this_point_loses_and_doubles_nothing(
    point: str, ow_url: str, prove: bool
) -> None:
    """Killed again and again at one point, with recovery in between, every promise holds."""
    times = 200 if prove else 1
    summary = run_module("tests.system.memory_matrix", point, times, SEED, ow_url)
    assert summary["kills"] == times
    assert summary["acknowledged"] > 0, summary


@pytest.mark.prove
def test_a_storm_of_calls_and_kills_loses_and_doubles_nothing(
    ow_url: str, tmp_path: Path, prove: bool
) -> None:
    """Eight processes make mixed calls and are killed: what was acknowledged is there, once."""
    processes, calls, kills = (8, 1000, 400) if prove else (8, 100, 24)
    numbers = (SEED, processes, calls, kills)
    summary = run_module("tests.system.memory_storm", ow_url, tmp_path, *numbers)
    # A process that is through with its calls cannot be killed any more.
    assert summary["kills"] >= kills // 2, summary
    assert summary["calls"] == processes * calls
    assert min(summary[each] for each in ("entities", "relations", "records", "deleted")) > 20
