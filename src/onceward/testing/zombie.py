"""Zombie: a real worker process that is frozen, left behind by the world, and woken again.

A frozen process keeps its memory, its connections and its belief that it holds a lease; a killed
one does not. That is the difference between a test of fencing and a test of crashes.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Child(Protocol):
    """A process that this one started: a `subprocess.Popen` is one."""

    @property
    def pid(self) -> int:
        """Return its process id."""


def freeze(process: Child) -> None:
    """Stop a child with SIGSTOP; when this returns, none of its threads runs."""
    os.kill(process.pid, signal.SIGSTOP)
    _await(process, os.WSTOPPED)


def wake(process: Child) -> None:
    """Let a frozen child go on where it stood."""
    os.kill(process.pid, signal.SIGCONT)
    _await(process, os.WCONTINUED)


@contextmanager
def zombie(process: Child) -> Iterator[None]:
    """Freeze a child while the block runs, then wake it.

    Inside the block let its lease run out and another worker take over; behind it, make sure that
    nothing the woken process does has an effect.
    """
    freeze(process)
    try:
        yield
    finally:
        wake(process)


def _await(process: Child, change: int) -> None:
    # The child is not reaped, so whoever started it can still wait for its end.
    found = os.waitid(os.P_PID, process.pid, change | os.WEXITED | os.WNOWAIT)
    assert found is not None
    ended = found.si_code in (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)
    assert not ended, f"process {process.pid} has ended"
