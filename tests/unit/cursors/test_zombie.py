"""Zombies: a real process that is frozen and goes on where it stood."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceward.testing import zombie
from onceward.testing.zombie import freeze, wake

ECHO = "import sys\nfor line in sys.stdin: sys.stdout.write(line), sys.stdout.flush()"


@pytest.fixture
def echo() -> Iterator[subprocess.Popen[str]]:
    """A process that echoes its input."""
    with subprocess.Popen(
        [sys.executable, "-c", ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def state_of(process: subprocess.Popen[str]) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_frozen_process_does_nothing_until_it_is_woken(echo: subprocess.Popen[str]) -> None:
    """Input that it gets meanwhile is handled afterwards."""
    assert echo.stdin is not None
    assert echo.stdout is not None
    with zombie(echo):
        assert state_of(echo) == "T"
        echo.stdin.write("hello\n")
        echo.stdin.flush()
    assert echo.stdout.readline() == "hello\n"
    assert state_of(echo) in "SR"


def test_it_can_be_frozen_again_and_waited_for(echo: subprocess.Popen[str]) -> None:
    """The process that started it can still wait for its end."""
    assert echo.stdin is not None
    for _ in range(3):
        freeze(echo)
        wake(echo)
    echo.stdin.close()
    assert echo.wait() == 0


def test_a_process_that_ended_cannot_be_frozen(echo: subprocess.Popen[str]) -> None:
    """A test that relies on a zombie fails when there is none."""
    assert echo.stdin is not None
    assert echo.stdout is not None
    echo.stdin.close()
    echo.stdout.read()
    with pytest.raises((AssertionError, ProcessLookupError)):
        while True:
            freeze(echo)
            wake(echo)
