"""Background thread: run a loop in a thread while a block runs; never delays process exit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def background_thread(name: str, loop: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run `loop` in a thread; at the end of the block its event is set and the thread joined."""
    stop = threading.Event()
    thread = threading.Thread(target=loop, args=(stop,), name=f"onceward-{name}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        if thread is not threading.current_thread():
            thread.join()
