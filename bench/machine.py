"""Describe the machine of a run by its hardware and versions, without its name."""

import os
import platform
import sqlite3
import statistics
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from onceward.testing.postgres import program
from onceward.version import __version__

SYNCS = 300
BLOCK = b"x" * 4096


def facts() -> dict[str, str]:
    """Return what matters for the numbers, in the order in which it is read."""
    version = subprocess.run(
        [program("postgres"), "--version"], capture_output=True, text=True, check=True
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "Onceward": __version__,
        "date": datetime.now(UTC).date().isoformat(),
        "cores": f"{len(os.sched_getaffinity(0))}, {_processor()}",
        "memory": f"{memory / 1024**3:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release().split('-')[0]} {platform.machine()}",
        "Python": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
        "PostgreSQL": f"{version.stdout.split()[-1]}, on the same machine",
        "disk": _sync_latency(),
    }


def _processor() -> str:
    """Return the kind of processor, as the kernel calls it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _sync_latency() -> str:
    """Append blocks to a file, each synced, and say how long that takes."""
    times = []
    with tempfile.TemporaryFile() as file:
        for _ in range(SYNCS):
            os.write(file.fileno(), BLOCK)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - began) * 1e6)
    slowest = statistics.quantiles(times, n=20)[-1]
    median = statistics.median(times)
    return f"a sync of 4 kB takes {median:,.0f} µs, one in twenty more than {slowest:,.0f} µs"
