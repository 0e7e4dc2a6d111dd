"""Every crash point of the console's actions, with real kills, on both engines."""

import json
import subprocess
import sys

import pytest

from onceward.crash import POINTS
from tests.system.console_matrix import SCENARIOS

SEED = 20261116
OURS = [point for point in POINTS if point.startswith(tuple(SCENARIOS))]


@pytest.mark.prove
@pytest.mark.parametrize("point", OURS)
def test_a_button_pressed_again_after_a_kill_acts_once(
    point: str, ow_url: str, prove: bool
) -> None:
    """Killed again and again in an action, each button has acted once and is recorded once."""
    times = 200 if prove else 2
    command = [sys.executable, "-m", "tests.system.console_matrix", point, str(times), str(SEED)]
    ran = subprocess.run([*command, ow_url], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"REPRO: {' '.join(command)} URL\n{ran.stderr}"
    summary = json.loads(ran.stdout)
    assert summary["kills"] == times
    assert summary["acknowledged"] > 0, summary
