"""Script effects: the side effects of a scripted agent: raw output, lines in files, crashes.

Remembers which `once` steps have run. Knows neither commands nor chats.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from onceward.agents.scenarios import ScenarioStep
from onceward.journal.file_lock import open_locked, unlock_and_close
from onceward.system import Clock, Files, SystemClock, SystemFiles

_FLOOD_BATCH: Final = 256


class ScriptEffects:
    """The side effects that steps of all scripted agents share."""

    def __init__(
        self,
        *,
        wire: BinaryIO,
        once_file: Path,
        clock: Clock | None = None,
        files: Files | None = None,
    ) -> None:
        """Write raw output to `wire`; record in `once_file` which `once` steps have run."""
        self.clock = clock or SystemClock()
        self.files = files or SystemFiles()
        self._wire = wire
        self._once_file = once_file

    def is_due(self, step: ScenarioStep, key: str) -> bool:
        """Return whether to run a step. A `once` step is recorded first, since it may crash."""
        if not step.is_once:
            return True
        note = f"{key} {step.location}"
        if (
            self._once_file.is_file()
            and note in self._once_file.read_text(encoding="utf-8").splitlines()
        ):
            return False
        self.add_line(self._once_file, note)
        return True

    def add_line(self, path: Path, line: str) -> None:
        """Append a line to a file durably."""
        file, _ = open_locked(path, self.files)
        try:
            file.write(line.encode() + b"\n")
            file.sync()
        finally:
            unlock_and_close(file)

    def send(self, data: bytes) -> None:
        """Send bytes that need not be a valid message."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._wire.write(rest) :]

    def flood(self, value: Mapping[str, Any]) -> None:
        """Send many meaningless lines to stdout or stderr."""
        count, size = value["lines"], value["bytes"]
        line = b"x" * (size - 1) + b"\n"
        for start in range(0, count, _FLOOD_BATCH):
            batch = line * min(_FLOOD_BATCH, count - start)
            if value.get("to") == "stderr":
                sys.stderr.buffer.write(batch)
            else:
                self.send(batch)
        sys.stderr.buffer.flush()

    def garbage(self, text: str) -> None:
        """Send a line that is not a message."""
        self.send(text.encode() + b"\n")

    def oversized(self, size: int) -> None:
        """Send a line of `size` bytes."""
        self.send(b"x" * (size - 1) + b"\n")

    def crash(self, how: str) -> None:
        """Kill this process, or exit with a code."""
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(int(how.removeprefix("exit:")))

    def freeze(self, _: object = None) -> None:
        """Stop the process including its heartbeats, until it gets a signal."""
        os.kill(os.getpid(), signal.SIGSTOP)
