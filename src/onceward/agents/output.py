"""Output: what a program prints, as events for those who watch and as lines of the log.

Owns how much of it is told. Everything goes to the log, without secrets; events are few, since each
of them is kept for ever.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

from onceward.seams import Clock
from onceward.secrets import Redactor

#: So many lines are told at once, then so many a second, and so many in all.
BURST_LINES: Final = 20
LINES_PER_SECOND: Final = 2.0
LINES_MAX: Final = 500
LINE_CHARACTERS_MAX: Final = 500


class Output:
    """The output of one program."""

    def __init__(self, tell: Callable[[str], None], redactor: Redactor, clock: Clock) -> None:
        """Tell lines through this."""
        self._tell = tell
        self._lines = redactor.lines()
        self._clock = clock
        self._allowed = float(BURST_LINES)
        self._seen_at = clock.monotonic()
        self._told = 0
        self._left_out = 0
        self._last = ""

    def line(self, text: str) -> None:
        """Take the next line."""
        shown = self._lines.line(text)
        sys.stderr.write(shown + "\n")
        now = self._clock.monotonic()
        gained = (now - self._seen_at) * LINES_PER_SECOND
        self._allowed = min(BURST_LINES, self._allowed + gained)
        self._seen_at = now
        self._last = shown
        if self._allowed < 1 or self._told >= LINES_MAX:
            self._left_out += 1
            return
        self._allowed -= 1
        self._emit()

    def end(self) -> None:
        """Tell the last line, if it was left out so far: it is often the one that matters."""
        if self._left_out:
            self._left_out -= 1
            self._emit()

    def _emit(self) -> None:
        text = self._last
        if len(text) > LINE_CHARACTERS_MAX:
            text = text[:LINE_CHARACTERS_MAX] + "…"
        if self._left_out:
            text = f"… {self._left_out} lines left out …\n{text}"
            self._left_out = 0
        self._told += 1
        self._tell(text)
