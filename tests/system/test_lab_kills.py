"""The Lab with real processes: concurrent imports of one directory."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from onceward.journal import Journal
from tests.support.labs import make_run, paths_in

IMPORT = """
import sys
from pathlib import Path
from tests.support.labs import make_lab
lab = make_lab(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
print(lab.import_run(sys.argv[2]).run_id)
"""


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
