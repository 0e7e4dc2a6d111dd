"""Opening: the memory that a command works with."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onceward.memory import Memory


def open_memory(store: str | None, *, source: str = "cli", **options: Any) -> Memory:  # noqa: ANN401 - those of Memory
    """Open the memory of a store; what its log would say is told as errors are."""
    from onceward.memory import Memory

    # Without anybody who listens, Python itself would print what was refused.
    logging.getLogger("onceward.memory").addHandler(logging.NullHandler())
    from onceward.memory.capture.checkouts import current_root

    return Memory.open(store, source=source, root=current_root(), **options)
