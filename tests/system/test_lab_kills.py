"""The Lab under kill -9, with real processes: at every crash point, and at the same door."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from onceward.crash import POINTS
from onceward.journal import Journal
from tests.system.lab_matrix import SCENARIOS
from tests.unit.lab.labs import make_run, paths_in

SEED = 20260206
OURS = [point for point in POINTS if point.startswith(tuple(SCENARIOS))]
IMPORT = """
import sys
from pathlib import Path
from tests.unit.lab.labs import make_lab
lab = make_lab(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
print(lab.import_run(sys.argv[2]).run_id)
"""


@pytest.mark.prove
@pytest.mark.parametrize("point", OURS)
def test_a_kill_at_this_point_loses_and_doubles_nothing(
    point: str, tmp_path: Path, prove: bool
) -> None:
    """Killed again and again at one point, with recovery in between, every promise holds."""
    times = 200 if prove else 1
    command = [sys.executable, "-m", "tests.system.lab_matrix", point, str(times), str(SEED)]
    ran = subprocess.run([*command, tmp_path], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"REPRO: {' '.join(command)} DIRECTORY\n{ran.stderr}"
    summary = json.loads(ran.stdout)
    assert summary["kills"] == times
    assert summary["acknowledged"] > 0, summary


def test_h11_processes_that_import_one_directory_at_once_get_one_run(tmp_path: Path) -> None:
    """Four processes start together: one run id, one line."""
    place = make_run(tmp_path)
    command = [sys.executable, "-c", IMPORT, tmp_path, place]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(4)]  # type: ignore[call-overload]
    for each in processes:
        assert each.stdout.readline() == "ready\n"
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda each: each.communicate("\n")[0].strip(), processes))
    assert len(set(answers)) == 1
    (line,) = Journal(paths_in(tmp_path).runs).read().items
    assert line["runId"] == answers[0]
