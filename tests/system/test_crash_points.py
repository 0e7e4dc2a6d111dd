"""Every crash point, with real processes and real kill -9."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onceward.crash import POINTS
from onceward.journal import Journal
from tests.system.crash_matrix import SCENARIOS

SEED = 20260206
#: Those of files; the points of a store have matrices of their own.
OURS = [point for point in POINTS if point.startswith(tuple(SCENARIOS))]
APPEND = """
import sys
from onceward.journal import Journal
from tests.system.crash_matrix import SCENARIOS
Journal(sys.argv[1]).append({"id": sys.argv[2]})
"""


@pytest.mark.prove
@pytest.mark.parametrize("point", OURS)
def test_a_kill_at_this_point_loses_and_doubles_nothing(
    point: str, tmp_path: Path, prove: bool
) -> None:
    """Killed again and again at one point, with recovery in between, every promise holds."""
    times = 200 if prove else 1
    command = [sys.executable, "-m", "tests.system.crash_matrix", point, str(times), str(SEED)]
    ran = subprocess.run([*command, tmp_path], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"REPRO: {' '.join(command)} DIRECTORY\n{ran.stderr}"
    summary = json.loads(ran.stdout)
    assert summary["kills"] == times
    assert summary["acknowledged"] > 0, summary


def test_a_writer_frozen_inside_the_lock_delays_and_loses_nothing(tmp_path: Path) -> None:
    """While a writer is stopped others wait; when it wakes, both records are there."""
    path = tmp_path / "journal.jsonl"
    frozen = subprocess.Popen(
        [sys.executable, "-c", APPEND, path, "frozen"],
        env={**os.environ, "ONCEWARD_CRASH": "journal.append.before_write:1:stop"},
    )
    _, status = os.waitpid(frozen.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    waiting = subprocess.Popen([sys.executable, "-c", APPEND, path, "waiting"])
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(timeout=0.5)
    assert Journal(path).read().items == []
    os.kill(frozen.pid, signal.SIGCONT)
    assert frozen.wait(timeout=20) == 0
    assert waiting.wait(timeout=20) == 0
    assert [item["id"] for item in Journal(path).read().items] == ["frozen", "waiting"]
