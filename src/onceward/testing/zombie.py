"""Zombie: a real worker process that is frozen until its lease is taken over, then resumed.

A frozen process keeps its memory, its connections and its lease object; a killed one does not.
Freezing tests fencing, killing tests crash recovery.
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
    """A child process, such as a `subprocess.Popen`."""

    @property
    def pid(self) -> int:
        """Return its process id."""


def freeze(process: Child) -> None:
    """Stop a child with SIGSTOP; when this returns, none of its threads runs."""
    os.kill(process.pid, signal.SIGSTOP)
    _await(process, os.WSTOPPED)


def wake(process: Child) -> None:
    """Resume a frozen child with SIGCONT."""
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
    """Freeze a process while the block runs, then resume it.

    With a process that you started: inside the block, let its lease expire and another worker take
    over. After the block, check that the resumed process has no further effect.

    With a function of a `Trial`: the function runs in a process of its own and is frozen at its
    first statement, or at the place `at`. The block gets a `Frozen`; see `frozen`.
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
    # Does not reap the child, so that its parent can still wait for it.
    found = os.waitid(os.P_PID, process.pid, change | os.WEXITED | os.WNOWAIT)
    assert found is not None
    ended = found.si_code in (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)
    assert not ended, f"process {process.pid} has ended"
