"""Fleets: children that are started, asked to stop, and never outlive their parent."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import until

SECONDS_MAX = 60.0
#: Starts so many children that run until a signal, and says so for each.
MANY = """
import signal, sys
from onceward.workers.worker_processes import WorkerSupervisor

def work():
    signal.sigwait({signal.SIGTERM})
    return 0

def calm():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    return work()

fleet = WorkerSupervisor([calm] * int(sys.argv[1]), once=False)
started = fleet._telemetry.log_info
def note(action, **facts):
    started(action, **facts)
    print(action, facts["pid"], flush=True)
fleet._telemetry.log_info = note
sys.exit(fleet.run())
"""


@pytest.mark.parametrize("after", [1, 2, 5, 19, 20])
def test_a_signal_while_a_fleet_starts_ends_all_of_it(after: int) -> None:
    """Started children are asked to stop, others are not started any more, and the parent ends."""
    with subprocess.Popen(
        [sys.executable, "-c", MANY, "20"], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        lines = [parent.stdout.readline() for _ in range(after)]
        parent.send_signal(signal.SIGTERM)
        try:
            assert parent.wait(SECONDS_MAX) == 0
        finally:
            parent.kill()
            lines += parent.stdout.readlines()
    pids = [int(line.split()[1]) for line in lines if line.startswith("worker_process_started")]
    assert len(pids) >= after
    until(lambda: not any(map(_is_there, pids)))


#: Signals itself between two steps, then has the first child end.
BETWEEN = """
import os, signal, sys
from onceward.workers import worker_processes

waitpid = os.waitpid
def reaped(pid, options):
    found = waitpid(pid, options)
    if found[0]:
        os.kill(os.getpid(), signal.SIGTERM)
    return found
os.waitpid = reaped
sys.exit(worker_processes.WorkerSupervisor([lambda: 0], once=True).run())
"""


def test_a_signal_while_a_child_is_reaped_is_dropped() -> None:
    """Its number may be another process's by then."""
    done = subprocess.run([sys.executable, "-c", BETWEEN], timeout=SECONDS_MAX, check=False)
    assert done.returncode == 0


#: The first process to come leaves something; one that comes when others have ended does not.
LEAVING = """
import os, sys, time
from pathlib import Path
from onceward.workers.worker_processes import WorkerSupervisor

place = Path(sys.argv[1])
def work():
    (place / str(os.getpid())).touch()
    return int(len(list(place.iterdir())) <= 3)
sys.exit(WorkerSupervisor([work] * 3, once=True).run())
"""


def test_one_looks_again_at_what_the_others_left(tmp_path: Path) -> None:
    """Alone, and its exit code is that of all."""
    done = subprocess.run(
        [sys.executable, "-c", LEAVING, str(tmp_path)], timeout=SECONDS_MAX, check=False
    )
    assert done.returncode == 0
    assert len(list(tmp_path.iterdir())) == 4


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
