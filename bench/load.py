"""Measure the throughput of worker processes that work on one store at full speed.

As a program, `python -m bench.load URL NAME BATCH PARTS`, this module is one of these processes.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench import messages
from bench.peer import ROOT
from bench.timing import Run
from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.workers import Worker

WARM_SECONDS, WINDOW_SECONDS = 1.0, 4.0
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
READY = b"ready\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """Work that several processes share."""

    #: What its messages are, for people.
    work: str
    engine: str
    #: Of its consumer.
    name: str
    #: Messages in a batch; 0 for one by one.
    batch: int = 0
    #: Whether each key has a cursor of its own.
    has_parts: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Carried:
    """What so many processes did."""

    messages_per_second: float
    #: Cores that the workers kept busy, and those of the server.
    worker_cores: float
    server_cores: float


def carried(run: Run, ow: Onceward, url: str, load: Load, processes: int) -> Carried:
    """Start so many processes, let them come up, and count for some seconds."""
    _start_over(ow)
    server = _server(ow)
    name = f"{load.name}{processes}"
    words = [url, name, str(load.batch), str(int(load.has_parts))]
    with ExitStack() as stack:
        workers = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "bench.load", *words], cwd=ROOT, stdout=subprocess.PIPE
                )
            )
            for _ in range(processes)
        ]
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == READY
        time.sleep(0.2 if run.is_quick else WARM_SECONDS)
        pids = [worker.pid for worker in workers]
        began, before = time.perf_counter(), _count(ow)
        used, used_there = _cpu_seconds(pids), _cpu_seconds(server)
        time.sleep(0.5 if run.is_quick else WINDOW_SECONDS)
        took, after = time.perf_counter() - began, _count(ow)
        used, used_there = _cpu_seconds(pids) - used, _cpu_seconds(server) - used_there
        for worker in workers:
            worker.terminate()
    # Else they had nothing to do for a part of that time.
    assert after < ow.store.select("select count(*) from source")[0][0]
    return Carried(
        messages_per_second=(after - before) / took,
        worker_cores=used / took,
        server_cores=used_there / took,
    )


def _start_over(ow: Onceward) -> None:
    with ow.transaction() as tx:
        tx.execute("delete from effects" if ow.store.engine == "sqlite" else "truncate effects")


def _count(ow: Onceward) -> int:
    return int(ow.store.select("select count(*) from effects")[0][0])


def _server(ow: Onceward) -> list[int]:
    """Return the process that all of PostgreSQL's are children of; none on SQLite."""
    if ow.store.engine == "sqlite":
        return []
    backend = ow.store.select("select pg_backend_pid()")[0][0]
    return [int(_stat(backend)[1])]


def _cpu_seconds(pids: Iterable[int]) -> float:
    """Return what these processes and their children have used so far."""
    ticks = 0
    for pid in pids:
        ticks += sum(map(int, _stat(pid)[11:15]))  # Its own, and of children that ended.
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ticks += sum(sum(map(int, _stat(int(child))[11:13])) for child in children)
    return ticks / TICKS_PER_SECOND


def _stat(pid: int) -> list[str]:
    """Return what the kernel says of a process, from its state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def main(url: str, name: str, batch: str, parts: str) -> None:
    with open_handle(url) as ow:
        app = messages.app(ow, name, batch=int(batch) or None, has_parts=parts == "1")
        worker = Worker(app)
        signal.signal(signal.SIGTERM, lambda *_: worker.stop())
        print(READY.decode(), end="", flush=True)
        worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
