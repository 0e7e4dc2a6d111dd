"""Stopping: what a command does when somebody asks its process to stop."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from onceward.signals import on_stop_signal


@contextmanager
def until_stopped() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the block, whatever it is at, and say that it was stopped."""
    with on_stop(interrupt):
        with suppress(KeyboardInterrupt):
            yield
        print("stopped", file=sys.stderr)


def interrupt() -> NoReturn:
    """End whatever this thread is at."""
    raise KeyboardInterrupt


@contextmanager
def on_stop(act: Callable[[], object]) -> Iterator[None]:
    """Do this when somebody asks the process to stop, for as long as the block lasts."""
    with on_stop_signal(lambda _: act()):
        yield
