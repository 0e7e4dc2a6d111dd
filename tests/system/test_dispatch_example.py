"""The example of a dispatcher: five scenarios, each checked by itself."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "dispatch" / "main.py"


def test_all_five_scenarios_are_as_promised() -> None:
    """Delivery, rollback, independence, recovery after a kill, and no second answer."""
    command = [sys.executable, "-W", "error", str(EXAMPLE)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=250)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    lines = ran.stdout.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [
        "1. Normal delivery",
        "2. Failure and rollback",
        "3. Two groups are independent",
        "4. Crash and recovery at start",
        "5. Failure after output was sent",
        "all five as promised",
    ]
    assert lines.count("   as it should be") == 5
