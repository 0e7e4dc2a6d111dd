"""Zombie: a real worker process that is frozen until its lease is taken over, then resumed.

A frozen process keeps its memory, its connections and its belief that it holds a lease; a killed
one does not. That is the difference between a test of fencing and a test of crashes.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol, overload

if TYPE_CHECKING:
    from onceward.testing.frozen import Frozen


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


@overload
def zombie(what: Child, /) -> AbstractContextManager[None]: ...
@overload
def zombie(
    what: Callable[..., Any],
    /,
    **options: Any,  # noqa: ANN401 - those of `frozen`
) -> AbstractContextManager[Frozen]: ...
def zombie(what: Any, /, **options: Any) -> AbstractContextManager[Any]:
    """Freeze a process while the block runs, then wake it.

    With a process that you started: inside the block let its lease run out and another worker take
    over; behind it, make sure that nothing the woken process does has an effect.

    With a function of a `Trial`: it is started in a process of its own, frozen at its first
    statement or at the place `at`, and the block gets it; see `frozen`.
    """
    if callable(what):
        from onceward.testing.frozen import frozen  # noqa: PLC0415 - it needs a store's modules

        return frozen(what, **options)
    return _stopped(what, **options)


@contextmanager
def _stopped(process: Child) -> Iterator[None]:
    freeze(process)
    try:
        yield
    finally:
        wake(process)


def _await(process: Child, change: int) -> None:
    # The child is not reaped, so its parent can still wait for its end.
    found = os.waitid(os.P_PID, process.pid, change | os.WEXITED | os.WNOWAIT)
    assert found is not None
    ended = found.si_code in (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)
    assert not ended, f"process {process.pid} has ended"
