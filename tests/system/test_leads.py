"""The lead platform, as an example and under fire."""

import pytest

from tests.support.evidence import Entry, Evidence
from tests.support.module_processes import run_module

SEED = 20261115


@pytest.mark.prove
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_h19_every_lead_is_assigned_and_billed_once_whatever_dies(
    engine: str, prove: bool, soak: bool, evidence: Evidence
) -> None:
    """Three workers, one killed every moment, PostgreSQL twice: none lost or doubled, in order."""
    seconds, kills, leads = (120, 100, 1000) if soak else (25, 16, 100) if prove else (10, 8, 30)
    module = "tests.support.storms.leads"
    summary = run_module(module, engine, seconds, SEED, kills, leads, seconds_max=seconds + 600)
    takeovers = summary.pop("takeover_seconds")
    assert summary["kills"] >= kills
    assert summary["server_kills"] == (2 if engine == "postgres" else 0)
    assert summary["leads"] > leads
    assert summary["takeovers"] > 0
    # Its own check has compared every lead with its assignments and charges.
    faults = {"kill of a worker": summary["kills"]}
    if engine == "postgres":
        faults["kill of PostgreSQL"] = summary["server_kills"]
    evidence.record(
        Entry(
            campaign="a lead platform whose workers and database are killed",
            layer="storms",
            claims=("D1", "F1", "I1", "W1"),
            engine=engine,
            schedules=sum(faults.values()),
            faults=faults,
            lost=summary["lost"],
            doubled=summary["doubled"],
            work=summary["leads"],
            recovery_seconds=tuple(takeovers),
            reached={"taken over": summary["takeovers"]},
        )
    )
