"""Opening: the memory that a command works with."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from onceward.memory import Memory
    from onceward.memory.buffer import Buffer
    from onceward.stores import Store

#: How long a command writes what others left, before it does what it was called for.
REPLAY_SECONDS_MAX: Final = 10.0


def open_memory(store: str | None, *, source: str = "cli", **options: Any) -> Memory:  # noqa: ANN401 - those of Memory
    """Open the memory of a store; what its log would say is told as errors are."""
    from onceward.memory import Memory

    # Without anybody who listens, Python itself would print what was refused.
    logging.getLogger("onceward.memory").addHandler(logging.NullHandler())
    from onceward.memory.capture.checkouts import current_root

    memory = Memory.open(store, source=source, root=current_root(), **options)
    replay_waiting(memory)
    return memory


def buffer_of(store: Store) -> Buffer:
    """Return where records for a store wait while it is away."""
    from onceward.memory.buffer import Buffer, directory_for
    from onceward.stores.opening import home

    return Buffer(directory_for(home(), store.address))


def replay_waiting(memory: Memory) -> None:
    """Write what waited for this store; what cannot be written now waits on."""
    from onceward.memory.replaying import of_same_store, replay

    with contextlib.suppress(Exception):
        make = of_same_store(memory)
        buffer = buffer_of(memory.graph.store)
        buffer.replay(lambda call: replay(call, make), seconds_max=REPLAY_SECONDS_MAX)
