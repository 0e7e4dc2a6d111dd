"""Stage: what a scripted agent does to the world: bytes on the wire, lines in files, its own end.

Owns which steps have had their one time. Knows neither commands nor chats.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from onceward.agents.scenarios import Step
from onceward.journal.locked import give_back, open_locked
from onceward.seams import Clock, Files, SystemClock, SystemFiles

_FLOOD_BATCH: Final = 256


class Stage:
    """All that steps touch, whatever they answer."""

    def __init__(
        self, *, wire: BinaryIO, notes: Path, clock: Clock | None = None, files: Files | None = None
    ) -> None:
        """Send on this wire, and note in this file what happens once."""
        self.clock = clock or SystemClock()
        self.files = files or SystemFiles()
        self._wire = wire
        self._notes = notes

    def is_due(self, step: Step, key: str) -> bool:
        """Say whether to do a step; what happens once is noted first, as it may be the end."""
        if not step.is_once:
            return True
        note = f"{key} {step.place}"
        if self._notes.is_file() and note in self._notes.read_text(encoding="utf-8").splitlines():
            return False
        self.add_line(self._notes, note)
        return True

    def add_line(self, path: Path, line: str) -> None:
        """Add a line to a file, on disk when this returns."""
        file, _ = open_locked(path, self.files)
        try:
            file.write(line.encode() + b"\n")
            file.sync()
        finally:
            give_back(file)

    def send(self, data: bytes) -> None:
        """Send bytes that need not be a message."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._wire.write(rest) :]

    def flood(self, value: Mapping[str, Any]) -> None:
        """Send many lines that say nothing, on the wire or for the log."""
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
        """Send a line that is no message."""
        self.send(text.encode() + b"\n")

    def oversized(self, size: int) -> None:
        """Send a line of so many bytes."""
        self.send(b"x" * (size - 1) + b"\n")

    def crash(self, how: str) -> None:
        """End this process."""
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(int(how.removeprefix("exit:")))

    def fall_silent(self, _: object = None) -> None:
        """Stop the whole process, heartbeat and all; only a signal from outside helps."""
        os.kill(os.getpid(), signal.SIGSTOP)
