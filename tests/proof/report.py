"""Report: what a run of all campaigns saw, by promise; the pages about it are made from it.

No number is typed in: `reliability-report.json` is put together from what the campaigns wrote
down, and `docs/evidence.md` and a part of `GUARANTEES.md` from that.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sqlite3
import statistics
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from onceward.testing.postgres import program
from tests.support import evidence

ROOT: Final = Path(__file__).parents[2]
REPORT: Final = ROOT / "reliability-report.json"
GUARANTEES: Final = ROOT / "GUARANTEES.md"
#: A row of a table whose first cell is an id: "| D1 | What was …".
#: What stands between these is written by the run.
BEGIN: Final = "<!-- evidence: made by `make prove`, not by hand -->"
END: Final = "<!-- end of evidence -->"
_PROMISE: Final = re.compile(r"^\| ([A-Z]\d+) \| ([^|]+) \| ([^|]*) \| ([^|]*) \|", re.MULTILINE)

Json = dict[str, Any]


@dataclass(frozen=True)
class Promise:
    """One line of GUARANTEES.md."""

    id: str
    text: str
    survives: str
    defended_by: str

    @property
    def tests(self) -> tuple[str, ...]:
        """Return the files and directories of tests that it names, a bare name among them."""
        found: list[Path] = []
        for name in re.findall(r"`([^`]+)`", self.defended_by):
            if name.endswith(".py") or "/" in name:
                matching = [*ROOT.glob(name if "/" in name else f"tests/**/{name}")]
                assert matching, f"{self.id} names {name}, which is not there"
                found += matching
        return tuple(sorted(str(path.relative_to(ROOT)) for path in found))

    @property
    def holes(self) -> tuple[str, ...]:
        """Return the failure modes that it names: h01, or h01 to h05."""
        found: list[str] = []
        for first, last in re.findall(r"\bh(\d\d)(?: to h(\d\d))?", self.defended_by):
            found += [f"h{each:02}" for each in range(int(first), int(last or first) + 1)]
        return tuple(found)


def promises() -> list[Promise]:
    """Return what is promised, in the order in which it stands there."""
    head, _, rest = GUARANTEES.read_text().partition(BEGIN)
    said = head + rest.partition(END)[2]
    return [Promise(*map(str.strip, each)) for each in _PROMISE.findall(said)]


def tests_of(hole: str) -> list[str]:
    """Return the tests of one failure mode, which bear its name."""
    found = [
        f"{file.relative_to(ROOT)}::{name}"
        for file in sorted((ROOT / "tests").rglob("test_*.py"))
        for name in re.findall(
            rf"^(?:async )?def (test_{hole}_\w+)", file.read_text(), re.MULTILINE
        )
    ]
    assert found, f"no test is named after {hole}"
    return found


def made_of(directory: Path, seconds: float) -> Json:
    """Put together what the processes of one run wrote down."""
    entries = list(evidence.lines(directory, "entries"))
    bugs = list(evidence.lines(directory, "bugs"))
    passed = [str(each["test"]) for each in evidence.lines(directory, "tests")]
    known = {each.id for each in promises()}
    unknown = {claim for entry in entries for claim in entry["claims"]} - known
    assert not unknown, f"not in GUARANTEES.md: {sorted(unknown)}"
    return {
        "about": _about(seconds),
        "totals": _sums(entries) | {"tests": len(passed), "bugs": len(bugs)},
        "claims": {each.id: _claim(each, entries, passed, bugs) for each in promises()},
        "campaigns": [_campaign(entry) for entry in _joined(entries)],
        "bugs": sorted(bugs, key=lambda bug: str(bug["bug"])),
        "cells": [cell for entry in entries for cell in entry["cells"]],
    }


def _about(seconds: float) -> Json:
    """Say what was run, when, and on what; nothing that names a machine."""
    head = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "commit": head.stdout.strip() or "unknown",
        "date": datetime.now(UTC).date().isoformat(),
        "seconds": round(seconds),
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.release().split('-')[0]} {platform.machine()}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "postgres": _postgres_version(),
    }


def _postgres_version() -> str:
    found = subprocess.run(
        [program("postgres"), "--version"], capture_output=True, text=True, check=True
    )
    return found.stdout.split()[-1]


def _claim(promise: Promise, entries: list[Json], passed: list[str], bugs: list[Json]) -> Json:
    mine = [entry for entry in entries if promise.id in entry["claims"]]
    return _sums(mine) | {
        "campaigns": sorted({entry["campaign"] for entry in mine}),
        "tests": sum(1 for test in passed if _defends(test, promise)),
        "bugs": sorted(str(bug["bug"]) for bug in bugs if bug["claim"] == promise.id),
    }


def _defends(test: str, promise: Promise) -> bool:
    return test.startswith(promise.tests) or any(
        re.search(rf"test_{hole}_", test) for hole in promise.holes
    )


def _joined(entries: list[Json]) -> list[Json]:
    """Join the parts of campaigns that were run in parts."""
    parts: dict[tuple[str, str, str], list[Json]] = {}
    for entry in entries:
        key = (entry["layer"], entry["campaign"], entry["engine"])
        parts.setdefault(key, []).append(entry)
    order = list(evidence.LAYERS)
    return [
        {
            "layer": layer,
            "campaign": campaign,
            "engine": engine,
            "claims": sorted({claim for entry in found for claim in entry["claims"]}),
            "reached": dict(sum((Counter(entry["reached"]) for entry in found), Counter())),
            "parts": found,
        }
        for (layer, campaign, engine), found in sorted(
            parts.items(), key=lambda each: (order.index(each[0][0]), each[0][1:])
        )
    ]


def _campaign(joined: Json) -> Json:
    parts = joined.pop("parts")
    return joined | _sums(parts)


def _sums(entries: list[Json]) -> Json:
    # Simulated seconds are no seconds.
    real = [entry for entry in entries if entry["layer"] != "simulation"]
    recoveries = sorted(each for entry in real for each in entry["recovery_seconds"])
    faults: Counter[str] = sum((Counter(entry["faults"]) for entry in entries), Counter())
    return {
        "schedules": sum(entry["schedules"] for entry in entries),
        "work": sum(entry["work"] for entry in entries),
        "faults": dict(sorted(faults.items())),
        "lost": sum(entry["lost"] for entry in entries),
        "doubled": sum(entry["doubled"] for entry in entries),
        "repeated": sum(entry["repeated"] for entry in entries),
        "recoveries": len(recoveries),
        "recovery_median_seconds": round(statistics.median(recoveries), 3) if recoveries else None,
        "recovery_max_seconds": round(recoveries[-1], 3) if recoveries else None,
    }


def write(report: Json) -> None:
    """Keep a report; one campaign, claim or cell a line, so that a change of it can be read."""

    def lines(values: Iterable[str]) -> str:
        return ",\n  ".join(values)

    def compact(value: object) -> str:
        return json.dumps(value, ensure_ascii=False)

    parts = [
        f'"about": {compact(report["about"])}',
        f'"totals": {compact(report["totals"])}',
        '"claims": {\n  '
        + lines(f"{compact(key)}: {compact(value)}" for key, value in report["claims"].items())
        + "\n}",
    ]
    parts += [
        f'"{name}": [\n  ' + lines(map(compact, report[name])) + "\n]"
        for name in ("campaigns", "bugs", "cells")
    ]
    REPORT.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def read() -> Json:
    """Return the report of the last run that was kept."""
    report: Json = json.loads(REPORT.read_text(encoding="utf-8"))
    return report
