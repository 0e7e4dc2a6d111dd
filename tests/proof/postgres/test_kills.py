"""PostgreSQL is killed again and again under clients that write."""

from __future__ import annotations

import pytest

from tests.support.evidence import Entry, Evidence
from tests.support.module_processes import run_module

SEED = 20261116


@pytest.mark.prove
@pytest.mark.timeout(2400)
def test_the_server_is_killed_under_load(prove: bool, soak: bool, evidence: Evidence) -> None:
    """Acknowledged is there once, refused is not there, and whatever is unknown is there or not."""
    seconds = 1800 if soak else 60 if prove else 2
    words = [seconds, SEED, *(() if prove else ("fast",))]
    module = "tests.proof.postgres.kill_loop"
    said = run_module(module, *words, seconds_max=seconds + 180)
    reached = {"refused, and absent": said["refused"]}
    if prove:
        reached["outcome unknown"] = said["unknown"]
        assert said["kills"] >= seconds // 10
    evidence.record(
        Entry(
            campaign="kill -9 of PostgreSQL and its children under clients that write",
            layer="postgres",
            claims=("D1", "F2", "I1", "I3", "M1", "M2", "M3"),
            engine="postgres",
            schedules=said["kills"],
            faults={"kill": said["kills"]},
            lost=said["lost"],
            doubled=said["doubled"],
            work=said["ok"],
            recovery_seconds=tuple(said["recoveries"]),
            reached=reached,
        )
    )
