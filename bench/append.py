"""Measure durable appends to a journal, beside a bare loop of write and fdatasync."""

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.table import Row, limit
from bench.timing import Run, cpu, timed, turns
from bench.units import micro, per_second
from onceward.journal import Journal

RECORD = {"id": "fb_6f1c", "createdAt": "2026-02-06T12:00:00.000Z", "notes": "y" * 200}


def bare(path: Path, count: int) -> None:
    line = b"x" * 270 + b"\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for _ in range(count):
        os.write(descriptor, line)
        os.fdatasync(descriptor)
    os.close(descriptor)


def ours(path: Path, count: int) -> None:
    journal = Journal(path)
    for _ in range(count):
        journal.append(RECORD)


def seconds(work: Callable[[Path, int], None], path: Path, appends: int, processes: int) -> float:
    """Return the time of one append of so many processes on one file, from the first's start."""
    began = time.perf_counter()
    children = []
    for _ in range(processes):
        child = os.fork()
        if child == 0:
            work(path, appends // processes)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    return (time.perf_counter() - began) / (appends // processes * processes)


def rows(run: Run) -> list[Row]:
    appends = run.size(1_600, quick=80)
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        one, loop = partial(ours, place / "cpu", 200), partial(bare, place / "bare-cpu", 200)
        mine, least = (cpu(timed(work, 200)) for work in (one, loop))
        found = turns(
            {
                "bare": partial(seconds, bare, place / "bare", appends, 1),
                "one": partial(seconds, ours, place / "one", appends, 1),
                "eight": partial(seconds, ours, place / "eight", appends, 8),
            },
            run.repetitions(5),
        )
    why = (
        f"An append takes {micro(mine)} of CPU, for the lock, the line and its checks, where the"
        f" loop takes {micro(least)}. The quicker the disk, the more that shows."
    )
    return [
        Row(
            work=f"append to a journal, {label}",
            ours=found[name],
            shown=per_second,
            besides=(limit("write and fdatasync, one writer", found["bare"], goal, why),),
            is_headline=name == "one",
        )
        for name, label, goal in (("one", "one writer", 0.7), ("eight", "eight writers", 1.0))
    ]
