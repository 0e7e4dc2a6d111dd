"""Durable appends, beside the bare loop of write and fdatasync."""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bench.table import Row
from onceward.journal import Journal

RECORD = {"id": "fb_6f1c", "createdAt": "2026-02-06T12:00:00.000Z", "notes": "y" * 200}
APPENDS = 1500
ROUNDS = 5


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


def per_second(work: Callable[[Path, int], None], path: Path, processes: int) -> float:
    """Return appends a second of so many processes on one file, from the start of the first."""
    began = time.perf_counter()
    children = []
    for _ in range(processes):
        child = os.fork()
        if child == 0:
            work(path, APPENDS // processes)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    return APPENDS // processes * processes / (time.perf_counter() - began)


def rows() -> list[Row]:
    results: dict[str, list[float]] = {"bare": [], "one": [], "eight": []}
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        for _ in range(ROUNDS):
            results["bare"].append(per_second(bare, place / "bare", 1))
            results["one"].append(per_second(ours, place / "one", 1))
            results["eight"].append(per_second(ours, place / "eight", 8))
    rates = {name: median(each) for name, each in results.items()}
    return [
        Row(
            work=f"append, {label}",
            ours=f"{rates[name]:.0f}/s",
            peer=f"bare write+fdatasync, one writer {rates['bare']:.0f}/s",
            ratio=rates[name] / rates["bare"],
            goal=goal,
        )
        for name, label, goal in (("one", "one writer", 0.7), ("eight", "eight writers", 1.0))
    ]
