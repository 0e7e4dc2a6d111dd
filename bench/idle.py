"""Measure the CPU share of a worker that has very many idle cursors."""

import resource
import threading
import time

from bench import messages
from bench.timing import Run, Seconds
from onceward.client import open as open_handle
from onceward.workers import Worker

#: A partition is measured for so long after its last work.
SETTLING_SECONDS = 31.0
WINDOW_SECONDS = 7.0


def shares(run: Run, url: str, cursors: int) -> Seconds:
    """Return how much of a core one worker takes, in several windows of time."""
    with open_handle(url) as ow:
        messages.tables(ow, cursors, cursors)
        worker = Worker(messages.app(ow, "idle", batch=10, has_parts=True), threads=4)
        thread = threading.Thread(target=worker.run)
        thread.start()
        while ow.store.select("select count(*) from effects")[0][0] < cursors:
            time.sleep(0.2)
        time.sleep(1.0 if run.is_quick else SETTLING_SECONDS)
        found = []
        for _ in range(run.repetitions(3)):
            before, began = _cpu_seconds(), time.perf_counter()
            time.sleep(1.0 if run.is_quick else WINDOW_SECONDS)
            found.append((_cpu_seconds() - before) / (time.perf_counter() - began))
        worker.stop()
        thread.join()
    return tuple(found)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
