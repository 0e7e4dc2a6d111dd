"""Every crash point of cursors and stores, with real processes and kill -9, on both engines."""

import json
import subprocess
import sys

import pytest

from tests.system.lease_matrix import POINTS

SEED = 20260207


@pytest.mark.prove
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_this_point_loses_and_doubles_nothing(
    point: str, ow_url: str, prove: bool
) -> None:
    """Killed again and again at one point, with recovery in between, every promise holds."""
    if point.startswith("sqlite.") and not ow_url.startswith("sqlite"):
        return  # This point is SQLite's own.
    times = 200 if prove else 2
    command = [sys.executable, "-m", "tests.system.lease_matrix", point, str(times), str(SEED)]
    ran = subprocess.run([*command, ow_url], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"REPRO: {' '.join(command)} URL\n{ran.stderr}"
    summary = json.loads(ran.stdout)
    assert summary["kills"] == times
    assert summary["acknowledged"] > 0, summary
