"""PostgreSQL is killed again and again under clients that write."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.proof.evidence import Entry, Evidence

SEED = 20261116


@pytest.mark.prove
@pytest.mark.timeout(2400)
def test_the_server_is_killed_under_load(prove: bool, soak: bool, evidence: Evidence) -> None:
    """Acknowledged is there once, refused is not there, and whatever is unknown is there or not."""
    seconds = 1800 if soak else 60 if prove else 2
    command = [sys.executable, "-m", "tests.proof.postgres.kill_loop", str(seconds), str(SEED)]
    if not prove:
        command.append("fast")
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=seconds + 180
    )
    words = " ".join(["python", *command[1:]])
    assert ran.returncode == 0, f"{ran.stderr[-5000:]}\nREPRO: {words}"
    said = json.loads(ran.stdout)
    reached = {"refused, and absent": said["refused"]}
    if prove:
        reached["nobody knew"] = said["unknown"]
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
