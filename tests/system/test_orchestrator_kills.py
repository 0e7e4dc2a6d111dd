"""Runs under kill -9, with real processes: at every crash point, and at any moment."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from onceward.crash import POINTS
from tests.system.orchestrator_matrix import SCENARIOS

SEED = 20260206
OURS = [point for point in POINTS if point.startswith(tuple(SCENARIOS))]
#: Points that share a process and its run in peace, so that these are not paid for each time.
TOGETHER = 6
GROUPS = [OURS[start : start + TOGETHER] for start in range(0, len(OURS), TOGETHER)]


def kill(points: list[str], times: int, directory: Path) -> dict[str, dict[str, int]]:
    """Kill so often at each point; return what was counted."""
    module = [sys.executable, "-m", "tests.system.orchestrator_matrix"]
    command = [*module, ",".join(points), str(times), str(SEED)]
    ran = subprocess.run([*command, directory], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"REPRO: {' '.join(command)} DIRECTORY\n{ran.stderr}"
    told: dict[str, dict[str, int]] = json.loads(ran.stdout)
    return told


@pytest.mark.prove
@pytest.mark.parametrize("points", GROUPS, ids=lambda points: points[0])
def test_a_kill_at_these_points_changes_nothing(
    points: list[str], tmp_path: Path, prove: bool
) -> None:
    """Three tasks with rounds, killed and resumed, end as if nobody had died; nothing is redone."""
    times = 200 if prove else 1
    told = kill(points, times, tmp_path)
    assert {point: each["kills"] for point, each in told.items()} == dict.fromkeys(points, times)


@pytest.mark.prove
def test_kills_at_any_moment_change_nothing(tmp_path: Path, prove: bool) -> None:
    """The orchestrator, an agent or both die whenever they like: the same files in the end."""
    times = 300 if prove else 15
    assert kill(["random"], times, tmp_path)["random"]["kills"] >= times
