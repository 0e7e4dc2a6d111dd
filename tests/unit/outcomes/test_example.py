"""examples/charge_once.py, executed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "examples" / "charge_once.py"
RESULT = "{'order': 7, 'charged': 1999}"


def run(path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [sys.executable, "-W", "error", EXAMPLE, path]
    env = {**os.environ, **environment}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def test_the_bank_hears_of_it_once(tmp_path: Path) -> None:
    """Three calls, run twice: one charge, one result, and another amount is refused."""
    path = tmp_path / "shop.db"
    first = run(path).stdout.splitlines()
    assert first[:4] == ["the bank charges 1999 for order 7", RESULT, RESULT, RESULT]
    assert first[4].startswith("refused: ")
    assert run(path).stdout.splitlines() == first[1:]
    assert path.with_suffix(".bank").read_text() == "7:1999 "


def test_killed_before_its_end_was_recorded_it_does_not_charge_again(tmp_path: Path) -> None:
    """While the lease holds, the next run finds the key in flight, and charges nothing."""
    path = tmp_path / "shop.db"
    ran = run(path, ONCEWARD_CRASH="outcome.finish.before_commit:1:kill")
    assert ran.returncode == -signal.SIGKILL
    again = run(path)
    assert "KeyInFlight" in again.stderr
    assert path.with_suffix(".bank").read_text() == "7:1999 "
