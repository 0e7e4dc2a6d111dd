"""Forks: what a forked child must forget before it does anything.

A child has its parent's memory but not its threads, and shares its sockets and locks. It is reset
at once, while it has one thread, so that nobody meets a half-forgotten store.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    """Something that belongs to the process that made it."""

    def after_fork(self) -> None:
        """Forget, in the child, what is the parent's."""


_all: WeakSet[Forked] = WeakSet()


def reset_after_fork(thing: Forked) -> None:
    """Let this be reset in every child that is forked from now on."""
    _all.add(thing)


#: Differs in every forked child. Read it as `forks.number`: an imported name would keep its value.
number = 0


def _reset_all() -> None:
    global number  # noqa: PLW0603 - once in each process, before it has another thread
    number += 1
    for thing in list(_all):
        thing.after_fork()


os.register_at_fork(after_in_child=_reset_all)
