"""Process: the log of an agent has a limit, and nothing an agent plants there leads us astray."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceward.agents.agent_process import AgentLog, AgentProcess
from onceward.system import SystemFiles, process_stat
from onceward.system.redaction import Redactor
from onceward.testing import CrashFiles

ECHO = "import sys\nfor line in sys.stdin: print(line.strip(), flush=True)"


@pytest.fixture
def log(tmp_path: Path) -> AgentLog:
    return AgentLog(tmp_path / "logs" / "builder" / "run.log", files=SystemFiles(), bytes_max=200)


def test_a_log_is_made_with_its_first_line(log: AgentLog) -> None:
    """Nothing said, nothing there; then a file that only its owner reads."""
    assert not log.path.exists()
    log.write("one")
    log.write("two \ud800")
    log.close()
    assert log.path.read_text() == "one\ntwo \\ud800\n"
    assert log.path.stat().st_mode & 0o777 == 0o600


def test_a_log_has_a_limit(log: AgentLog) -> None:
    """A full log says so once and takes no more, in this life and in the next."""
    for _ in range(50):
        log.write("x" * 20)
    log.close()
    content = log.path.read_text()
    assert content.endswith("[this log is full; nothing more is kept]\n")
    assert len(content) < 300
    again = AgentLog(log.path, files=SystemFiles(), bytes_max=200)
    again.write("surplus")
    again.close()
    assert "surplus" not in log.path.read_text()


def test_a_link_in_place_of_a_log_is_not_followed(log: AgentLog, tmp_path: Path) -> None:
    """A link that an agent puts in place of its log has no effect, and stops no process."""
    log.path.parent.mkdir(parents=True)
    log.path.symlink_to(tmp_path / "target")
    log.write("secret")
    assert log.is_closed
    assert not (tmp_path / "target").exists()


def test_a_full_disk_stops_the_log_only(tmp_path: Path) -> None:
    """When the disk refuses a write, the log ends, and no error is raised."""
    files = CrashFiles()
    files.fail("write", nth=1)
    log = AgentLog(tmp_path / "run.log", files=files)
    log.write("lost")
    assert log.is_closed
    log.write("lost too")
    log.close()


@pytest.fixture
def echo(log: AgentLog, tmp_path: Path) -> Iterator[AgentProcess]:
    process = AgentProcess(
        [sys.executable, "-I", "-S", "-c", ECHO], env={}, cwd=tmp_path, log=log, redactor=Redactor()
    )
    yield process
    process.kill()


def test_lines_go_in_and_come_out(echo: AgentProcess) -> None:
    """What is sent is heard, and what is said is received."""
    echo.send(b"hello\n")
    assert echo.messages(60) == [b"hello"]
    assert not echo.has_exited


def test_a_process_is_known_by_pid_and_start(echo: AgentProcess) -> None:
    """It leads a group of its own, and its start is the kernel's."""
    found = process_stat(echo.pid)
    assert found
    assert (found.group, found.started_ticks) == (echo.pid, echo.identity.started_ticks)


def test_the_end_of_stdin_ends_it(echo: AgentProcess) -> None:
    """An agent that reads to the end leaves with its own exit code; killing it again is nothing."""
    echo.send(b"last words\n")
    echo.close_stdin()
    assert echo.wait(60)
    assert echo.has_exited
    assert echo.kill() == 0
    assert echo.messages(0) == [b"last words"]
    assert echo.kill() == 0
    assert echo.has_exited


def test_killing_returns_the_signal(echo: AgentProcess) -> None:
    """The code of a killed process is minus its signal, and nothing of it is left."""
    assert echo.kill() == -signal.SIGKILL
    assert process_stat(echo.pid) is None
