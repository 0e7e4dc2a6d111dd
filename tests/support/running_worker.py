"""A worker in this process, for tests that watch it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from onceward.workers import App, Worker

PATIENCE_SECONDS = 60.0


def drain(app: App, threads: int = 2) -> Any:
    return Worker(app, threads=threads).run(once=True)


@contextmanager
def at_work(app: App, threads: int = 2) -> Iterator[Worker]:
    worker = Worker(app, threads=threads, stop_seconds=5.0)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
