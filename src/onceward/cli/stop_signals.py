"""Stop signals: what a command does on SIGINT and SIGTERM."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from onceward.system.signals import on_stop_signal


@contextmanager
def until_stopped() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the block, and print that it was stopped."""
    with on_stop(interrupt):
        with suppress(KeyboardInterrupt):
            yield
        print("stopped", file=sys.stderr)


def interrupt() -> NoReturn:
    """Raise KeyboardInterrupt in this thread."""
    raise KeyboardInterrupt


@contextmanager
def on_stop(act: Callable[[], object]) -> Iterator[None]:
    """Call `act` on SIGINT and SIGTERM while the block runs."""
    with on_stop_signal(lambda _: act()):
        yield
