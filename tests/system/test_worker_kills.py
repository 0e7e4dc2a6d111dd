"""Worker processes killed where it hurts, with real threads and real kills, on both engines."""

import json
import subprocess
import sys

import pytest

from onceward.crash import POINTS
from tests.system.worker_matrix import SCENARIOS

SEED = 20261115
#: Its own points, and those below it that a worker passes at every message.
OURS = [point for point in POINTS if point.startswith(tuple(SCENARIOS))]
BELOW = ["transaction.before_commit", "transaction.after_commit", "retries.park.after_insert"]


@pytest.mark.prove
@pytest.mark.parametrize("point", OURS + BELOW)
def test_a_killed_worker_loses_and_doubles_nothing(point: str, ow_url: str, prove: bool) -> None:
    """Killed again and again at one point, every message has one effect, waits, or is dead."""
    times = 200 if prove else 1
    command = [sys.executable, "-m", "tests.system.worker_matrix", point, str(times), str(SEED)]
    ran = subprocess.run([*command, ow_url], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"REPRO: {' '.join(command)} URL\n{ran.stderr}"
    summary = json.loads(ran.stdout)
    assert summary["kills"] == times
    assert summary["processed"] > 0, summary
