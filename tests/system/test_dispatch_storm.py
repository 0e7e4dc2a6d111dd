"""Dispatching under kill -9, with real processes, in a storm."""

from pathlib import Path

import pytest

from tests.support.evidence import Entry, Evidence
from tests.support.module_processes import run_module

SEED = 20261115


@pytest.mark.prove
@pytest.mark.timeout(1200)
def test_no_message_is_lost_and_no_reply_shown_twice_whatever_dies(
    ow_url: str, tmp_path: Path, prove: bool, soak: bool, evidence: Evidence
) -> None:
    """Agents fail one time in five, the dispatcher is killed every moment: each message once."""
    seconds, groups, messages, kills = (
        (120, 50, 5000, 40) if soak else (30, 25, 1000, 10) if prove else (10, 12, 180, 4)
    )
    # Else nothing of what it is about has happened.
    done, back, kept = (50, 25, 3) if soak else (20, 5, 1)
    numbers = (SEED, seconds, groups, messages, kills, done, back, kept)
    found = run_module("tests.support.storms.dispatch", ow_url, tmp_path / "storm", *numbers)
    assert found["kills"] >= kills
    assert sum(found["messages"].values()) >= messages
    least = {"done": done, "rolled back": back, "kept": kept}
    for state, count in least.items():
        assert found["deliveries"].get(state, 0) >= count, (state, found)
    assert found["recovered"] >= kills // 2, found
    assert found["sayings"].get("sent", 0) >= done, found
    evidence.record(
        Entry(
            campaign="chats with agents that fail one time in five",
            layer="storms",
            claims=("X1", "X2", "X3", "X4"),
            engine="sqlite" if ow_url.startswith("sqlite") else "postgres",
            schedules=1,
            faults={"kill": found["kills"]},
            work=sum(found["messages"].values()),
            reached={state: found["deliveries"][state] for state in least},
        )
    )
