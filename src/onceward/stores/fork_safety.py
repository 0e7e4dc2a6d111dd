"""Fork safety: reset inherited state in forked children before they use a store.

A child has its parent's memory but not its threads, and shares its sockets and locks. It is reset
during the fork, while it has one thread, so no thread sees a store that is half reset.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class ForkAware(Protocol):
    """An object that is valid only in the process that created it."""

    def after_fork(self) -> None:
        """Drop, in the child, the state that belongs to the parent."""


_all: WeakSet[ForkAware] = WeakSet()


def reset_after_fork(thing: ForkAware) -> None:
    """Call `after_fork` of this object in every child that is forked from now on."""
    _all.add(thing)


#: Differs in every forked child. Read it as `fork_safety.number`: an imported name keeps its value.
number = 0


def _reset_all() -> None:
    global number  # noqa: PLW0603 - once in each process, before it has another thread
    number += 1
    for thing in list(_all):
        thing.after_fork()


os.register_at_fork(after_in_child=_reset_all)
