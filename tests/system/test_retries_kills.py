"""Every crash point of retries, dead letters and dual cursors, with real kills, on both engines."""

import json
import subprocess
import sys

import pytest

from onceward.crash import POINTS
from tests.system.retries_matrix import SCENARIOS

SEED = 20261115
OURS = [point for point in POINTS if point.startswith(tuple(SCENARIOS))]


@pytest.mark.prove
@pytest.mark.parametrize("point", OURS)
def test_a_kill_at_this_point_loses_and_doubles_nothing(
    point: str, ow_url: str, prove: bool
) -> None:
    """Killed again and again at one point, with recovery in between, every promise holds."""
    times = 200 if prove else 1
    command = [sys.executable, "-m", "tests.system.retries_matrix", point, str(times), str(SEED)]
    ran = subprocess.run([*command, ow_url], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"REPRO: {' '.join(command)} URL\n{ran.stderr}"
    summary = json.loads(ran.stdout)
    assert summary["kills"] == times
    assert summary["acknowledged"] > 0, summary
