"""Processes that share server sessions through PgBouncer in transaction mode."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from typing import Any, NamedTuple

import psycopg
import pytest

from tests.proof.postgres.conftest import NewDatabase
from tests.support.evidence import Entry, Evidence
from tests.support.pgbouncer import PgBouncer

PROCESSES = 4
#: Whether a statement is missing is chance; after so many loads without one, none can be.
LOADS_MAX = 10
MODULE = "tests.proof.postgres.pooler_load"


class Seen(NamedTuple):
    """What became of the rows of all processes."""

    acknowledged: int
    lost: int
    doubled: int
    #: Rows that another process's statement wrote, or wrote into another process's table.
    misplaced: int
    #: Rows that were written in a session which other processes used, too.
    shared: int
    refused: Counter[str]
    are_pooled: list[bool]


def load(direct: str, url: str, rows: int) -> Seen:
    """Let all processes write, and compare what was acknowledged with what is there."""
    with psycopg.connect(direct, autocommit=True) as connection:
        for number in range(PROCESSES):
            columns = "process bigint, number bigint, backend bigint"
            sql = f"create table if not exists own_{number} ({columns})"
            connection.execute(sql.encode())
    commands = [
        [sys.executable, "-m", MODULE, url, str(number), str(rows // PROCESSES)]
        for number in range(PROCESSES)
    ]
    running = [subprocess.Popen(each, stdout=subprocess.PIPE, text=True) for each in commands]
    reported = [each.communicate()[0] for each in running]
    assert [each.returncode for each in running] == [0] * PROCESSES
    return compared(direct, [json.loads(each) for each in reported])


def compared(direct: str, reported: list[dict[str, Any]]) -> Seen:
    """Compare what the processes say with the rows in their tables."""
    lost = doubled = misplaced = 0
    users: dict[int, set[int]] = {}
    backends: list[int] = []
    with psycopg.connect(direct) as connection:
        for number, said in enumerate(reported):
            sql = f"select process, number, backend from own_{number}"
            found = connection.execute(sql.encode()).fetchall()
            misplaced += sum(process != number for process, _, _ in found)
            counts = Counter(row for process, row, _ in found if process == number)
            lost += sum(row not in counts for row in said["acknowledged"])
            doubled += sum(count - 1 for count in counts.values())
            backends += [backend for _, _, backend in found]
            for backend in {backend for _, _, backend in found}:
                users.setdefault(backend, set()).add(number)
    return Seen(
        acknowledged=sum(len(each["acknowledged"]) for each in reported),
        lost=lost,
        doubled=doubled,
        misplaced=misplaced,
        shared=sum(len(users[each]) > 1 for each in backends),
        refused=sum((Counter(each["refused"]) for each in reported), Counter()),
        are_pooled=[each["is_pooled"] for each in reported],
    )


@pytest.mark.prove
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("setting", ["", "?pooler=none"], ids=["detected", "undetected"])
def test_h48_no_statement_runs_that_its_caller_did_not_send(
    pgbouncer: PgBouncer, new_database: NewDatabase, prove: bool, evidence: Evidence, setting: str
) -> None:
    """Rows are in their own process's table, or refused; without detection some are refused."""
    rows = 5_000 if prove else 400
    for _ in range(LOADS_MAX):
        with new_database() as direct:
            seen = load(direct, pgbouncer.url(direct) + setting, rows)
        assert (seen.lost, seen.doubled, seen.misplaced) == (0, 0, 0), seen
        assert seen.acknowledged == rows
        if not setting or "26000" in seen.refused:
            break
    # Without detection a statement that is missing tells that there is a pooler.
    assert ("26000" in seen.refused) == bool(setting), seen
    assert any(seen.are_pooled) if setting else all(seen.are_pooled), seen
    evidence.record(
        Entry(
            campaign="four processes share sessions through PgBouncer in transaction mode, "
            + ("which is not detected" if setting else "which is detected"),
            layer="postgres",
            claims=("D1", "I1", "W1"),
            engine="postgres",
            schedules=PROCESSES,
            faults={"session of another process": seen.shared, **seen.refused},
            lost=seen.lost + seen.misplaced,
            doubled=seen.doubled,
            work=seen.acknowledged,
        )
    )
