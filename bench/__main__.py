"""Run the benchmarks: `python -m bench [--quick] [--json] [NAME …]`.

Exit 0 when everything ran, goals met or not; 1 when a peer could not be had or a part failed.
"""

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from bench import (
    append,
    canonical,
    cells,
    costs,
    dispatch,
    kept_keys,
    lab,
    machine,
    memory,
    once,
    orchestrator,
    pages,
    poll,
    scan,
    start,
    workers,
)
from bench.table import Row
from bench.timing import Run

#: By name: the part of Onceward that it is about, and what measures it.
BENCHMARKS: dict[str, tuple[str, Callable[[Run], list[Row]]]] = {
    "canonical": ("Keys", canonical.rows),
    "append": ("Journals", append.rows),
    "poll": ("Journals", poll.rows),
    "scan": ("Journals", scan.rows),
    "once": ("Once", once.rows),
    "kept": ("Once", kept_keys.rows),
    "workers": ("Workers", workers.rows),
    "lab": ("Experiment Lab", lab.rows),
    "orchestrator": ("Orchestrator", orchestrator.rows),
    "memory": ("Memory", memory.rows),
    "dispatch": ("Dispatch", dispatch.rows),
    "start": ("Start", start.rows),
}
COSTS = "costs"


class Found:
    """What came out so far."""

    def __init__(self) -> None:
        """Have nothing."""
        self.parts: dict[str, list[Row]] = {}
        self.costs: costs.Costs | None = None
        self.failed: list[str] = []

    @property
    def is_whole(self) -> bool:
        """Return whether nothing failed and no peer was missing."""
        missing = any(row.missing for rows in self.parts.values() for row in rows)
        return not (self.failed or missing)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    names = [*BENCHMARKS, COSTS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    parser.add_argument(
        "--quick", action="store_true", help="small counts; only shows that it runs"
    )
    parser.add_argument("--json", action="store_true", help="print one object, for machines")
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in names]:
        print(f"error: no benchmark is named {unknown[0]!r}", file=sys.stderr)
        print(f"fix: choose from {', '.join(names)}", file=sys.stderr)
        sys.exit(2)
    return given


def measure(run: Run, names: list[str]) -> Found:
    """Do one after the other; one that fails does not keep the others from it."""
    found = Found()
    for name in names:
        print(f"{name} …", file=sys.stderr, flush=True)
        began = time.monotonic()
        try:
            if name == COSTS:
                found.costs = costs.measure(run)
            else:
                part, rows = BENCHMARKS[name]
                found.parts.setdefault(part, []).extend(rows(run))
        except Exception:  # noqa: BLE001 - reported, and the others go on
            traceback.print_exc()
            found.failed.append(name)
        print(f"  {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return found


def show(facts: dict[str, str], found: Found) -> None:
    """Print everything for people."""
    for name, fact in facts.items():
        print(f"{name + ':':12}{fact}")
    if found.parts:
        print(f"\n{aligned(found)}\n\n{cells.tally(found.parts)}")
    for missed in cells.misses(found.parts):
        print(f"missed: {missed}")
    if found.costs is not None:
        print(f"\n{found.costs.markdown('this machine')}")


def aligned(found: Found) -> str:
    """Return the table with its columns under one another, without empty ones."""
    lines = [list(cells.HEADS)]
    lines += [cells.cells(row) for rows in found.parts.values() for row in rows]
    used = [at for at in range(len(cells.HEADS)) if any(line[at] for line in lines[1:])]
    widths = {at: max(len(line[at]) for line in lines) for at in used}
    return "\n".join(
        "  ".join(line[at].ljust(widths[at]) for at in used).rstrip() for line in lines
    )


def as_json(facts: dict[str, str], found: Found) -> dict[str, Any]:
    """Return everything for machines."""
    return {
        "machine": facts,
        "rows": [cells.record(part, row) for part, rows in found.parts.items() for row in rows],
        "costs": None if found.costs is None else found.costs.record(),
        "failed": found.failed,
    }


def main() -> int:
    given = arguments()
    facts = machine.facts()
    found = measure(Run(is_quick=given.quick), given.names or [*BENCHMARKS, COSTS])
    if given.json:
        print(json.dumps(as_json(facts, found), indent=1))
    else:
        show(facts, found)
    if found.failed:
        print(f"error: failed: {', '.join(found.failed)}", file=sys.stderr)
    if not given.names and not given.quick:
        if found.is_whole and found.costs is not None:
            written = pages.write(facts, found.parts, found.costs)
            print(f"written: {', '.join(written)}", file=sys.stderr)
        else:
            print("no page is written: not everything ran", file=sys.stderr)
    return 0 if found.is_whole else 1


if __name__ == "__main__":
    sys.exit(main())
