"""Memory loader: open the memory for a command."""

from __future__ import annotations

import contextlib
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from onceward.memory import Memory
    from onceward.memory.offline_buffer import Buffer
    from onceward.stores import Store

#: How long a command replays records buffered by other processes before its own work.
REPLAY_SECONDS_MAX: Final = 10.0


def open_memory(store: str | None, *, source: str = "cli", **options: Any) -> Memory:  # noqa: ANN401 - those of Memory
    """Open the memory of a store, and replay buffered records; log lines are not printed."""
    from onceward.memory import Memory

    # Without a handler Python's last-resort handler would print warnings.
    logging.getLogger("onceward.memory").addHandler(logging.NullHandler())
    from onceward.memory.capture.command_capture import current_root

    memory = Memory.open(store, source=source, root=current_root(), **options)
    replay_buffered(memory)
    return memory


def buffer_of(store: Store) -> Buffer:
    """Return the offline buffer of a store."""
    from onceward.memory.offline_buffer import Buffer, directory_for
    from onceward.stores.store_urls import home

    return Buffer(directory_for(home(), store.address))


def replay_buffered(memory: Memory) -> None:
    """Replay buffered records of this store; those that fail stay buffered."""
    from onceward.memory.buffered_records import replay
    from onceward.memory.client import in_context

    with contextlib.suppress(Exception):
        buffer = buffer_of(memory.graph.store)
        buffer.replay(
            lambda call: replay(call, partial(in_context, memory)), seconds_max=REPLAY_SECONDS_MAX
        )
