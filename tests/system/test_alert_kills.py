"""Every crash point of alerts, with real kills, on both engines."""

import json
import subprocess
import sys

import pytest

from onceward.crash import POINTS
from tests.system.alert_matrix import SCENARIOS

SEED = 20261115
OURS = [point for point in POINTS if point.startswith(tuple(SCENARIOS))]


@pytest.mark.prove
@pytest.mark.parametrize("point", OURS)
def test_a_kill_at_this_point_rings_once_and_tells_it(point: str, ow_url: str, prove: bool) -> None:
    """Killed again and again at one point, each trouble is one alert, and it is told."""
    times = 200 if prove else 1
    command = [sys.executable, "-m", "tests.system.alert_matrix", point, str(times), str(SEED)]
    ran = subprocess.run([*command, ow_url], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"REPRO: {' '.join(command)} URL\n{ran.stderr}"
    summary = json.loads(ran.stdout)
    assert summary["kills"] == times
    assert summary["acknowledged"] > 0, summary
