"""Program output: forward what a program prints to the log and, rate limited, as progress events.

The log gets everything, redacted. Events are limited, since each of them is stored permanently.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

from onceward.system import Clock
from onceward.system.redaction import Redactor

#: Rate limit of events: burst, rate per second, and total.
BURST_LINES: Final = 20
LINES_PER_SECOND: Final = 2.0
LINES_MAX: Final = 500
LINE_CHARACTERS_MAX: Final = 500


class ProgramOutput:
    """The output of one program."""

    def __init__(self, emit: Callable[[str], None], redactor: Redactor, clock: Clock) -> None:
        """Send progress events with `emit`."""
        self._emit_line = emit
        self._lines = redactor.lines()
        self._clock = clock
        self._tokens = float(BURST_LINES)
        self._seen_at = clock.monotonic()
        self._emitted = 0
        self._omitted = 0
        self._last = ""

    def line(self, text: str) -> None:
        """Log a line, and emit it unless the rate limit is reached."""
        shown = self._lines.line(text)
        sys.stderr.write(shown + "\n")
        now = self._clock.monotonic()
        gained = (now - self._seen_at) * LINES_PER_SECOND
        self._tokens = min(BURST_LINES, self._tokens + gained)
        self._seen_at = now
        self._last = shown
        if self._tokens < 1 or self._emitted >= LINES_MAX:
            self._omitted += 1
            return
        self._tokens -= 1
        self._flush()

    def end(self) -> None:
        """Emit the last line if it was omitted: it is often the important one."""
        if self._omitted:
            self._omitted -= 1
            self._flush()

    def _flush(self) -> None:
        text = self._last
        if len(text) > LINE_CHARACTERS_MAX:
            text = text[:LINE_CHARACTERS_MAX] + "…"
        if self._omitted:
            text = f"… {self._omitted} lines omitted …\n{text}"
            self._omitted = 0
        self._emitted += 1
        self._emit_line(text)
