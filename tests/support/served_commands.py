"""Served: commands that say in one line where they serve, and the browser that they open."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Served:
    """A command that serves, and what it said of that."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.line = process.stdout.readline()
        assert self.line, process.communicate()
        self.announced = json.loads(self.line) if self.line.startswith("{") else {}

    @property
    def url(self) -> str:
        found: str = self.announced["url"]
        return found


@contextmanager
def started(command: list[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Start a command; end it and all its processes afterwards."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **{**pipes, **options}) as process:
        try:
            yield process
        finally:
            process.kill()


def browser_in(directory: Path, then: str = "") -> tuple[Path, dict[str, str]]:
    """Return a pipe with the address that a browser is opened with, and how it is made known."""
    called = directory / "called"
    os.mkfifo(called)
    script = directory / "browser"
    script.write_text(f'#!/bin/sh\necho "$1" > {called}\n{then}\n')
    script.chmod(0o700)
    return called, {"BROWSER": f"{script} %s"}
