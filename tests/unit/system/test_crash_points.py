"""Crash points kill, freeze or fail a process exactly where and when they are armed."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from onceward.errors import InvalidArgument
from onceward.system import crash_points
from onceward.system.crash_points import POINTS, Crashed, arm, crash_point

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

POINT, OTHER = sorted(POINTS)[:2]
PASS_THRICE = f"""
from onceward.system.crash_points import crash_point
for _ in range(3):
    crash_point({POINT!r})
"""
PASS_IN_A_FORK = f"""
import os
from onceward.system.crash_points import arm, crash_point
arm({POINT!r} + ":1")
child = os.fork()
if not child:
    crash_point({POINT!r})
    os._exit(1)
os._exit(os.WTERMSIG(os.waitpid(child, 0)[1]))
"""
STOP_IN_A_THREAD = f"""
import os, threading
from onceward.system.crash_points import crash_point
def work():
    crash_point({POINT!r})
    os.write(1, b"x")
    over.set()
def spin():
    while not over.is_set():
        pass
over = threading.Event()
for each in (spin, work):
    threading.Thread(target=each).start()
over.wait()
"""


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    """Disarm every point after the test."""
    arm(None)
    yield
    arm(None)


def run(code: str, spec: str | None) -> tuple[int, int]:
    """Run code in a fresh process and return its id and its first change of state."""
    environment = {key: value for key, value in os.environ.items() if key != "ONCEWARD_CRASH"}
    if spec is not None:
        environment["ONCEWARD_CRASH"] = spec
    quiet = (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)
    pid = os.posix_spawn(
        sys.executable, [sys.executable, "-c", code], environment, file_actions=[quiet]
    )
    return os.waitpid(pid, os.WUNTRACED)


def test_unarmed_point_does_nothing() -> None:
    """Without a spec every point is passed as if it were not there."""
    for name in POINTS:
        crash_point(name)


def test_point_acts_at_its_nth_pass_only() -> None:
    """Two passes do nothing, the third one acts, the fourth does nothing again."""
    arm(f"{POINT}:3:raise")
    crash_point(POINT)
    crash_point(POINT)
    with pytest.raises(Crashed, match=f"^{POINT}$"):
        crash_point(POINT)
    crash_point(POINT)


def test_other_points_are_not_counted() -> None:
    """Only the named point brings the crash nearer."""
    arm(f"{POINT}:1:raise")
    for _ in range(5):
        crash_point(OTHER)
    with pytest.raises(Crashed):
        crash_point(POINT)


def test_raised_crash_passes_except_exception() -> None:
    """Code that survives every error does not survive a crash."""
    arm(f"{POINT}:1:raise")
    with pytest.raises(Crashed):
        _survive_errors()


def _survive_errors() -> None:
    try:
        crash_point(POINT)
    except Exception:  # noqa: BLE001 - what must not catch it
        pytest.fail("a crash was taken for an error")


def test_disarming_undoes_arming() -> None:
    """No spec, no crash."""
    arm(f"{POINT}:1:raise")
    arm(None)
    crash_point(POINT)
    assert crash_points._armed is None


@pytest.mark.parametrize("spec", ["{point}:2", "{point}:2:kill"])
def test_kill_ends_a_fresh_process_at_once(spec: str) -> None:
    """Armed through the environment, the process dies of SIGKILL; that is also the default."""
    _, status = run(PASS_THRICE, spec.format(point=POINT))
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL


def test_stop_freezes_a_process_that_can_go_on() -> None:
    """The process is stopped, and finishes normally when it is woken up."""
    pid, status = run(PASS_THRICE, f"{POINT}:2:stop")
    assert os.WIFSTOPPED(status)
    assert os.WSTOPSIG(status) == signal.SIGSTOP
    os.kill(pid, signal.SIGCONT)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_stop_freezes_the_thread_that_passes_before_anything_else(tmp_path: Path) -> None:
    """Whichever thread it is, not one line after the point is run before the process wakes."""
    printed = tmp_path / "printed"
    for _ in range(10):
        with printed.open("wb") as file:
            actions = [(os.POSIX_SPAWN_DUP2, file.fileno(), 1)]
            command = [sys.executable, "-c", STOP_IN_A_THREAD]
            variables = {**os.environ, "ONCEWARD_CRASH": f"{POINT}:1:stop"}
            pid = os.posix_spawn(sys.executable, command, variables, file_actions=actions)
        _, status = os.waitpid(pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        written = printed.read_bytes()
        os.kill(pid, signal.SIGCONT)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert (written, printed.read_bytes()) == (b"", b"x")


def test_raise_fails_a_fresh_process() -> None:
    """Raised and not caught, the crash ends the program with an error."""
    _, status = run(PASS_THRICE, f"{POINT}:3:raise")
    assert os.waitstatus_to_exitcode(status) == 1


@pytest.mark.parametrize("spec", [None, "", "{point}:4"])
def test_process_that_is_not_armed_for_this_pass_finishes(spec: str | None) -> None:
    """No spec, an empty spec, or a pass that never comes: nothing happens."""
    _, status = run(PASS_THRICE, spec and spec.format(point=POINT))
    assert os.waitstatus_to_exitcode(status) == 0


def test_forked_child_inherits_the_armed_point() -> None:
    """A child made by fork dies at the point, and its parent lives to see it."""
    _, status = run(PASS_IN_A_FORK, None)
    assert os.waitstatus_to_exitcode(status) == signal.SIGKILL


def test_misspelt_point_stops_a_fresh_process_at_its_start() -> None:
    """A crash test with a typing error must not pass by doing nothing."""
    _, status = run(PASS_THRICE, "no.such.point:1")
    assert os.waitstatus_to_exitcode(status) == 1


def test_unknown_point_is_refused() -> None:
    """The message says where the names are listed."""
    with pytest.raises(InvalidArgument, match=r"no crash point is named 'nowhere'") as caught:
        arm("nowhere:1")
    assert "POINTS" in caught.value.fix


@pytest.mark.parametrize(
    "rest", ["", ":", ":0", ":-1", ":1.5", ":x", ":²", ":1:explode", ":1:kill:twice"]
)
def test_malformed_spec_is_refused(rest: str) -> None:
    """The message shows the form that a spec must have."""
    with pytest.raises(InvalidArgument) as caught:
        arm(f"{POINT}{rest}")
    assert "name:nth[:kill|stop|raise]" in caught.value.fix


def test_refused_spec_leaves_the_armed_point_alone() -> None:
    """A mistake does not disarm what was armed before."""
    arm(f"{POINT}:1:raise")
    with pytest.raises(InvalidArgument, match="nowhere"):
        arm("nowhere:1")
    with pytest.raises(Crashed):
        crash_point(POINT)


def test_every_point_separates_two_states() -> None:
    """The registry says of each point what is done before it and what is not yet."""
    assert all(states.count(" | ") == 1 for states in POINTS.values())
