"""Zombies: processes frozen wherever it hurts, on both engines, and what they do when they wake."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from tests.support.evidence import Entry, Evidence

#: A cell waits for one lease or two; the rest is for a busy machine.
SECONDS_MAX = 600.0
FAMILIES = {
    "leases": ("F1", "F2", "D1"),
    "moments": ("F1", "F2", "D1"),
    "once": ("I1", "I3", "I4"),
    "http": ("I1", "I3", "I5"),
    "chat": ("F1", "X1", "X3"),
}
CAMPAIGNS = {
    "leases": "a worker frozen with a lease in hand, taken over, and woken",
    "moments": "a busy worker frozen at random moments, taken over, and woken",
    "once": "a function with one outcome frozen between its effect and its end",
    "http": "a server frozen inside an answer, while another serves the retry",
    "chat": "a dispatcher frozen with replies on their way",
}


def family_of(cell: str) -> str:
    first = cell.partition("-")[0]
    return {"step": "once", "moment": "moments"}.get(
        first, first if first in FAMILIES else "leases"
    )


def frozen(url: str, *options: str) -> list[dict[str, Any]]:
    """Freeze, wake and judge in a process that may fork; its failure says how to repeat it."""
    command = [sys.executable, "-m", "tests.proof.zombies", *options, "--url", url]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS_MAX)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_a_frozen_process_is_replaced_and_changes_nothing_when_it_wakes(
    ow_url: str, prove: bool, evidence: Evidence
) -> None:
    """Wherever it froze: others go on or wait, it is refused, nothing is lost or doubled."""
    rows = frozen(ow_url, *([] if prove else ["--quick"]))
    for family, claims in FAMILIES.items():
        found = [row for row in rows if family_of(row["cell"]) == family]
        if not found:
            assert not prove, family
            continue
        record(family, claims, found, evidence)


def record(
    family: str, claims: tuple[str, ...], rows: list[dict[str, Any]], evidence: Evidence
) -> None:
    cells = tuple(
        {name: row[name] for name in ("point", "engine", "nth", "then", "recover_ms", "repeated")}
        for row in rows
    )
    evidence.record(
        Entry(
            campaign=CAMPAIGNS[family],
            layer="zombies",
            claims=claims,
            engine=rows[0]["engine"],
            schedules=len(rows),
            faults={"freeze": len(rows)},
            lost=sum(row["lost"] for row in rows),
            doubled=sum(row["doubled"] for row in rows),
            work=sum(row["work"] for row in rows),
            repeated=sum(row["repeated"] for row in rows),
            recovery_seconds=tuple(
                row["takeover_seconds"] for row in rows if row["takeover_seconds"] is not None
            ),
            reached=dict(Counter(each for row in rows for each in row["reached"])),
            cells=cells if family != "moments" else (),
        )
    )
