"""Programs: one run of a command line, from its start to the end of its whole group."""

import fcntl
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from onceward.agents.program_lock import end_orphaned_program
from onceward.agents.program_output import (
    BURST_LINES,
    LINE_CHARACTERS_MAX,
    LINES_MAX,
    ProgramOutput,
)
from onceward.agents.program_run import (
    LINES_AT_ONCE_MAX,
    OUTPUT_BYTES_MAX,
    TAIL_LINES_MAX,
    Program,
    ProgramRefused,
    ProgramResult,
    run_program,
)
from onceward.keys import compact_json
from onceward.system import Clock, ManualClock, ProcessIdentity, SystemClock
from onceward.system.redaction import Redactor
from tests.support.agent_processes import is_running
from tests.support.waiting import until


def run(
    *command: str, lines: list[str] | None = None, clock: Clock | None = None, **fields: Any
) -> ProgramResult:
    given = {"directory": Path("/"), "environment": os.environ, "seconds": 60.0, **fields}
    heard = [] if lines is None else lines
    return run_program(Program(command=command, **given), on_line=heard.append, clock=clock)


def test_both_outputs_are_heard_line_by_line() -> None:
    """Only standard output is kept whole; a carriage return ends a line, colours are left out."""
    lines: list[str] = []
    program = "printf 'one\\rtwo\\n\\n\\033[1mthree\\033[0m'; echo four >&2; exit 5"
    ended = run("sh", "-c", program, lines=lines)
    assert (ended.exit_code, ended.signal, ended.has_timed_out) == (5, None, False)
    assert sorted(lines) == ["four", "one", "three", "two"]
    assert sorted(ended.tail) == sorted(lines)
    assert ended.stdout == "onetwo\n\nthree"


def test_memory_is_bounded_whatever_is_printed() -> None:
    """The end of the output is kept, the flood in between is named."""
    lines: list[str] = []
    ended = run("sh", "-c", "yes | head -c 3000000; echo; echo last", lines=lines)
    assert len(ended.stdout) <= OUTPUT_BYTES_MAX
    assert len(ended.tail) == TAIL_LINES_MAX
    assert ended.tail[-1] == "last"
    assert len(lines) < 3_000_000 / 65_536 * 2 * (LINES_AT_ONCE_MAX + 1)
    assert any("lines omitted" in line for line in lines)
    ended = run("sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x")
    assert set(ended.stdout) == {"x"}


@pytest.mark.parametrize("size", [0, 10, 5_000_000])
def test_a_prompt_of_any_size_goes_in(size: int) -> None:
    """Whether it is read or not."""
    assert run("wc", "-c", stdin="x" * size).stdout.strip() == str(size)
    assert run("true", stdin="x" * size).exit_code == 0


def test_what_a_program_leaves_running_is_ended(tmp_path: Path) -> None:
    """A process that left the group is not waited for."""
    ended = run("sh", "-c", "sleep 100 & echo $!")
    until(lambda: not is_running(int(ended.stdout)))
    left = tmp_path / "left"
    leaving = f"setsid sh -c 'echo $$ > {left}; exec sleep 100' &"
    ended = run("sh", "-c", f"{leaving} until [ -s {left} ]; do sleep 0.01; done; echo done")
    assert ended.stdout == "done\n"
    assert is_running(int(left.read_text())), "it was waited for, or ended"
    os.kill(int(left.read_text()), signal.SIGKILL)


def test_signals_are_as_programs_expect_them() -> None:
    """Python ignores the signal of a broken pipe; a program does not."""
    assert run("bash", "-c", "yes | head -1; echo ${PIPESTATUS[0]}").stdout == "y\n141\n"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("no-such-program",), "cannot start no-such-program: No such file or directory"),
        (("/etc/passwd",), "cannot start /etc/passwd: Permission denied"),
        (("true", "x" * 200_000), "Argument list too long"),
        (("true", "a\0b"), "null byte"),
    ],
)
def test_what_cannot_start_says_why(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], says: str
) -> None:
    """With what to do about it."""
    # A directory on the path that this user cannot search would be the reason.
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(ProgramRefused, match=says) as caught:
        run(*command)
    assert caught.value.fix


def test_a_lock_keeps_two_programs_apart(tmp_path: Path) -> None:
    """The second begins when the group of the first is gone."""
    lock, log = tmp_path / "lock", tmp_path / "log"
    program = f"echo begun >> {log}; sleep 0.3; echo ended >> {log}"
    child = os.fork()
    if child == 0:
        run("sh", "-c", program, lock=lock)
        os._exit(0)
    run("sh", "-c", program, lock=lock)
    os.waitpid(child, 0)
    assert log.read_text().split() == ["begun", "ended"] * 2


def test_a_process_that_waits_for_a_lock_ends_with_its_agent(tmp_path: Path) -> None:
    """No process remains that would start the program once the lock is free."""
    lock, ran = tmp_path / "lock", tmp_path / "ran"
    held = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(held, fcntl.LOCK_EX)
    child = os.fork()
    if child == 0:
        run("touch", str(ran), lock=lock, clock=_Telling(tmp_path / "waits"))
        os._exit(0)
    until((tmp_path / "waits").exists)
    assert not _children(child)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(held)
    assert not ran.exists()


class _Telling(ManualClock):
    """Makes a file when something waits."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def sleep(self, seconds: float) -> None:
        self._path.touch()
        time.sleep(seconds)


def _children(pid: int) -> str:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text()


def test_a_wait_for_a_lock_ends_with_the_time_of_the_program(tmp_path: Path) -> None:
    """As a program that is too slow, and without a start."""
    lock, ran = tmp_path / "lock", tmp_path / "ran"
    held = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(held, fcntl.LOCK_EX)
    ended = run("touch", str(ran), lock=lock, clock=ManualClock())
    assert (ended.exit_code, ended.signal, ended.has_timed_out) == (None, None, True)
    os.close(held)
    assert not ran.exists()


def test_h70_a_program_whose_leader_was_killed_too_is_ended_before_the_next_begins(
    tmp_path: Path,
) -> None:
    """Its group is named in the lock file; after a normal end the file names none."""
    lock, started = tmp_path / "lock", tmp_path / "pid"
    environment = {**os.environ, "ONCEWARD_RUN": "run-1"}
    child = os.fork()
    if child == 0:
        script = f"echo $$ > {started}.new; mv {started}.new {started}; sleep 100"
        run("sh", "-c", script, lock=lock, environment=environment)
        os._exit(1)
    until(started.exists)
    old = int(started.read_text())
    os.kill(child, signal.SIGSTOP)  # It would end the program.
    os.kill(os.getpgid(old), signal.SIGKILL)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert is_running(old)
    ended = run("cat", f"/proc/{old}/stat", lock=lock, environment=environment)
    assert ended.exit_code == 1 or ") Z " in ended.stdout
    assert lock.read_bytes() == b""


@pytest.mark.parametrize("is_elsewhere", [True, False])
def test_only_a_program_that_could_be_ended_is_forgotten(
    is_elsewhere: bool, tmp_path: Path
) -> None:
    """One in another pid namespace may still run, and can be ended from there only."""
    with subprocess.Popen(["true"]) as gone:
        fields = ProcessIdentity.of_child(gone.pid).to_fields()
    namespace = fields["pid_namespace"] + is_elsewhere
    record = compact_json({**fields, "pid_namespace": namespace, "run_id": "run-1"})
    lock = tmp_path / "program.lock"
    lock.write_bytes(record)
    end_orphaned_program(lock, clock=SystemClock())
    assert lock.read_bytes() == (record if is_elsewhere else b"")


def test_output_is_reported_at_a_limited_rate() -> None:
    """A burst, then a few a second, and the last line in any case; all of it is logged."""
    reported: list[str] = []
    clock = ManualClock()
    output = ProgramOutput(reported.append, Redactor(["hunter2"]), clock)
    for number in range(100):
        output.line(f"line {number} hunter2 " + "x" * 1000)
    assert len(reported) == BURST_LINES
    assert all(len(line) <= LINE_CHARACTERS_MAX + 1 for line in reported)
    clock.advance(seconds=1)
    output.line("later")
    assert reported[-1] == f"… {100 - BURST_LINES} lines omitted …\nlater"
    for number in range(100):
        output.line(f"more {number}")
    output.end()
    assert reported[-1] == "… 98 lines omitted …\nmore 99"
    assert not any("hunter2" in line for line in reported)
    for _ in range(10 * LINES_MAX):
        clock.advance(seconds=1)
        output.line("x")
    assert len(reported) == LINES_MAX
