"""Crash points where a process is not killed, but stands still."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onceward.journal import Journal

APPEND = """
import sys
from onceward.journal import Journal
Journal(sys.argv[1]).append({"id": sys.argv[2]})
"""


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
    assert frozen.wait(timeout=60) == 0
    assert waiting.wait(timeout=60) == 0
    assert [item["id"] for item in Journal(path).read().items] == ["frozen", "waiting"]
