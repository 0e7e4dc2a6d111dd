"""Run output: a run as it goes on, for people or machines."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self

from onceward.cli.output import print_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from onceward.journal import Record

REFRESHES_PER_SECOND: Final = 4


def _silence() -> None:
    """Let nothing that is still buffered fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Teller:
    """Tells a run as it goes: a transcript, with a progress line on a terminal, or JSON lines."""

    def __init__(self, *, json_output: bool) -> None:
        """Write to stdout, whatever that is."""
        from onceward.orchestrator.progress import Progress
        from onceward.seams import SystemClock

        self._json_output = json_output
        self._progress = Progress()
        self._clock = SystemClock()
        self._live: Any = None
        self._is_heard = True

    def __enter__(self) -> Self:
        if not self._json_output and sys.stdout.isatty():
            from rich.console import Console
            from rich.live import Live

            console = Console(highlight=False)
            self._live = Live(
                self, console=console, refresh_per_second=REFRESHES_PER_SECOND, transient=True
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        live, self._live = self._live, None
        if live is not None:
            with suppress(OSError):  # The terminal may be gone.
                live.stop()

    def __call__(self, record: Record) -> None:
        """Tell one record."""
        from onceward.orchestrator.transcript import line_of

        if self._json_output:
            self.print_json(record)
            return
        self._progress.take(record)
        line = line_of(record, self._progress)
        if line is not None:
            self.say(line)

    def catch_up(self, records: Sequence[Record]) -> None:
        """Know what was told in an earlier life of the run."""
        from onceward.orchestrator.progress import Progress

        self._progress = Progress.of(records)

    def __rich__(self) -> Any:  # noqa: ANN401 - rich is imported where it is used
        """Return the progress line, as it is now."""
        from rich.text import Text

        return Text(self._progress.line(self._clock.now()), style="dim", no_wrap=True)

    def say(self, line: str) -> None:
        """Write a line above the progress line."""
        if self._live is None:
            self._write(lambda: print(line, flush=True))
            return
        from rich.text import Text

        self._write(lambda: self._live.console.print(Text(line), soft_wrap=True))

    def notice(self, text: str) -> None:
        """Say something that is no part of the transcript."""
        if self._live is not None:
            self.say(text)
        else:
            # In one piece: the transcript goes on meanwhile, and may go to the same place.
            print(f"{text}\n", end="", file=sys.stderr, flush=True)

    def abandon(self) -> None:
        """Give the terminal its cursor back, as far as that is possible inside a signal handler."""
        if self._live is not None:
            with suppress(OSError, RuntimeError):  # Whatever was interrupted may hold the stream.
                self._live.console.show_cursor()

    def print_json(self, value: Record) -> None:
        """Write a line for machines."""
        self._write(lambda: print_json(value))

    def _write(self, write: Callable[[], None]) -> None:
        if not self._is_heard:
            return
        try:
            write()
        except OSError:
            # Whoever read has gone; that is no reason for a run to end.
            self._is_heard = False
            _silence()
