"""Evidence: what a campaign tried and saw, written down for the report.

A campaign in which nothing happened proves nothing, so that writing it down fails.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

#: How the proof is built up, from the inside out.
LAYERS: Final = {
    "simulation": "production code under a seeded scheduler",
    "matrix": "real processes, kill -9 at every crash point",
    "disk": "failing, torn and lost writes",
    "postgres": "a server that is killed, cut off and frozen",
    "zombies": "processes that are frozen and wake up late",
    "clocks": "clocks that are wrong and jump",
    "network": "requests that are delayed, cut and duplicated",
    "neighbours": "other libraries, poolers and callers in the same process, file or socket",
    "storms": "many processes, killed at random moments",
    "values": "generated values of every type",
}
ENGINES: Final = ("sqlite", "postgres", "files")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One campaign on one engine."""

    #: What was done, in words for a reader: "kill -9 at every crash point of cursors".
    campaign: str
    #: Which layer it belongs to; `LAYERS` has them all.
    layer: str
    #: Ids of the promises it looks after, as in GUARANTEES.md.
    claims: tuple[str, ...]
    #: `sqlite`, `postgres` or `files`.
    engine: str
    #: How many different executions were checked.
    schedules: int
    #: What was done to them, by kind: {"kill": 120, "freeze": 7}.
    faults: Mapping[str, int]
    #: Acknowledged and gone; done twice. Counted by the checks, never assumed.
    lost: int = 0
    doubled: int = 0
    #: How many pieces of work were done under all this; a campaign needs some.
    work: int = 0
    #: Work that was done again after a fault, where that is allowed.
    repeated: int = 0
    #: From the restart to the next piece of work done, of each recovery that was timed.
    recovery_seconds: tuple[float, ...] = ()
    #: Interesting states and how often they were reached.
    reached: Mapping[str, int] = field(default_factory=dict)
    #: One line per cell, where a campaign has cells.
    cells: tuple[Mapping[str, Any], ...] = ()


class Evidence:
    """The entries of one test."""

    def __init__(self, test: str, file: Path | None) -> None:
        """Append to this file; to none when no report is wanted."""
        self._test, self._file = test, file

    def record(self, entry: Entry) -> None:
        """Write an entry down, if there is anything in it."""
        check(entry)
        if self._file is None:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"test": self._test, **asdict(entry)}) + "\n")


def check(entry: Entry) -> None:
    """Fail when an entry proves nothing, or something else than it claims."""
    where = entry.campaign
    assert entry.claims, f"{where}: which promise does it look after?"
    assert entry.layer in LAYERS, f"{where}: no layer is named {entry.layer!r}"
    assert entry.engine in ENGINES, f"{where}: no engine is named {entry.engine!r}"
    assert entry.schedules > 0, f"{where}: nothing was run"
    assert entry.work > 0, f"{where}: no work was done"
    assert sum(entry.faults.values()) > 0, f"{where}: no fault was hit"
    missing = [what for what, count in entry.reached.items() if not count]
    assert not missing, f"{where}: never reached {', '.join(missing)}"
    assert (entry.lost, entry.doubled) == (0, 0), (
        f"{where}: {entry.lost} lost, {entry.doubled} duplicated"
    )


class Passing:
    """Writes down which tests passed; a plugin of pytest, in its first process."""

    def __init__(self, directory: Path) -> None:
        """Write into this directory."""
        directory.mkdir(parents=True, exist_ok=True)
        self._file = directory / f"tests-{os.getpid()}.jsonl"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that ran to its end and held."""
        if report.when == "call" and report.passed:
            with self._file.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({"test": report.nodeid}) + "\n")


def lines(directory: Path, kind: str) -> Iterable[dict[str, Any]]:
    """Return what all processes of a run wrote: their `entries`, `tests` or `bugs`."""
    for file in sorted(directory.glob(f"{kind}-*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)
