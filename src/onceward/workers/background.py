"""Background: a thread that lives as long as a block, and never keeps a process from ending."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def running(name: str, loop: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run `loop` in a thread of its own; at the end of the block its event is set, and it ends."""
    stop = threading.Event()
    thread = threading.Thread(target=loop, args=(stop,), name=f"onceward-{name}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        if thread is not threading.current_thread():
            thread.join()
