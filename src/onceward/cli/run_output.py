"""Run output: print a run's progress as text or JSON lines."""

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


def _discard_stdout() -> None:
    """Discard buffered output, which would fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class RunPrinter:
    """Prints a run: a transcript with a progress line on a terminal, or JSON lines."""

    def __init__(self, *, json_output: bool) -> None:
        """Write to stdout."""
        from onceward.orchestrator.progress import Progress
        from onceward.system import SystemClock

        self._json_output = json_output
        self._progress = Progress()
        self._clock = SystemClock()
        self._live: Any = None
        self._has_reader = True

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
            with suppress(OSError):  # The terminal may be closed.
                live.stop()

    def __call__(self, record: Record) -> None:
        """Print one record."""
        from onceward.orchestrator.transcript import transcript_line

        if self._json_output:
            self.print_json(record)
            return
        self._progress.apply(record)
        line = transcript_line(record, self._progress)
        if line is not None:
            self.say(line)

    def catch_up(self, records: Sequence[Record]) -> None:
        """Take over the progress of an earlier process of the run."""
        from onceward.orchestrator.progress import Progress

        self._progress = Progress.of(records)

    def __rich__(self) -> Any:  # noqa: ANN401 - rich is imported where it is used
        """Return the progress line, as it is now."""
        from rich.text import Text

        return Text(self._progress.status_line(self._clock.now()), style="dim", no_wrap=True)

    def say(self, line: str) -> None:
        """Write a line above the progress line."""
        if self._live is None:
            self._write(lambda: print(line, flush=True))
            return
        from rich.text import Text

        self._write(lambda: self._live.console.print(Text(line), soft_wrap=True))

    def notice(self, text: str) -> None:
        """Print a line that is not part of the transcript."""
        if self._live is not None:
            self.say(text)
        else:
            # In one write: the transcript may go to the same terminal.
            print(f"{text}\n", end="", file=sys.stderr, flush=True)

    def abandon(self) -> None:
        """Show the terminal's cursor again; safe inside a signal handler."""
        if self._live is not None:
            with suppress(OSError, RuntimeError):  # Whatever was interrupted may hold the stream.
                self._live.console.show_cursor()

    def print_json(self, value: Record) -> None:
        """Write a JSON line."""
        self._write(lambda: print_json(value))

    def _write(self, write: Callable[[], None]) -> None:
        if not self._has_reader:
            return
        try:
            write()
        except OSError:
            # The reader closed the pipe; the run continues.
            self._has_reader = False
            _discard_stdout()
