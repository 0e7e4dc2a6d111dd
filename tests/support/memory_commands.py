"""Memory commands: run `onceward memory …` in a directory that has a memory of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

COMMAND = [sys.executable, "-m", "onceward", "memory"]
END_SECONDS_MAX = 60
SECRET = "correct-horse-battery"


class MemoryDirectory:
    """A directory with a memory of its own, and commands that run in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {
            **os.environ,
            "ONCEWARD_STORE": f"sqlite:///{directory / 'memory.db'}",
            "NO_COLOR": "1",
        }

    def run(
        self, *words: str, stdin: str = "", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *words],
            cwd=self.directory,
            env={**self.environment, **variables},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=END_SECONDS_MAX,
        )

    def capture(self, *words: str, **options: str) -> subprocess.CompletedProcess[str]:
        return self.run("capture", "--", *words, **options)

    def start(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        given = {**pipes, "cwd": self.directory, "env": self.environment, **options}
        return subprocess.Popen([*COMMAND, *words], **given)

    def json(self, *words: str) -> Any:
        ran = self.run(*words, "--json")
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)


@pytest.fixture
def place(tmp_path: Path) -> MemoryDirectory:
    return MemoryDirectory(tmp_path)


def python(program: str) -> tuple[str, ...]:
    return (sys.executable, "-u", "-c", program)
