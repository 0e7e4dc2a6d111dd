"""Dispatching under kill -9, with real processes: at every crash point, and in a storm."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onceward.crash import POINTS
from tests.system.dispatch_matrix import SCENARIOS

SEED = 20261115
OURS = [point for point in POINTS if point.startswith(tuple(SCENARIOS))]


def run_module(name: str, *words: object) -> dict[str, Any]:
    command = [sys.executable, "-m", name, *map(str, words)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"REPRO: {' '.join(command)}\n{ran.stderr[-6000:]}"
    summary: dict[str, Any] = json.loads(ran.stdout)
    return summary


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_a_kill_at_any_point_loses_and_doubles_nothing(
    ow_url: str, tmp_path: Path, prove: bool
) -> None:
    """Killed at one point after the other, every message is dealt with once, every answer shown."""
    times = 30 if prove else 1
    words = ("dispatch.", times, SEED, ow_url, tmp_path / "home")
    summary = run_module("tests.system.dispatch_matrix", *words)
    assert summary["points"] == len(OURS)
    assert summary["kills"] == len(OURS) * times
    assert summary["acknowledged"] > summary["kills"], summary
    assert {"done", "kept"} <= set(summary["fates"]), summary


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_no_message_is_lost_and_no_reply_shown_twice_whatever_dies(
    ow_url: str, tmp_path: Path, prove: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Agents fail one time in five, the dispatcher is killed every moment: each message once."""
    seconds, groups, messages, kills = (120, 50, 5000, 40) if prove else (10, 12, 300, 4)
    numbers = (SEED, seconds, groups, messages)
    found = run_module("tests.system.dispatch_storm", ow_url, tmp_path / "storm", *numbers)
    with capsys.disabled():
        sys.stdout.write(f"\n{ow_url.partition(':')[0]}: {found}\n")
    assert found["kills"] >= kills
    assert sum(found["messages"].values()) == messages
    # Else nothing of what it is about has happened.
    # A busy machine hands out more at a time, and so less often.
    done, back, kept = (50, 25, 3) if prove else (20, 5, 1)
    least = {"done": done, "rolled back": back, "kept": kept}
    for state, count in least.items():
        assert found["deliveries"].get(state, 0) >= count, (state, found)
    assert found["recovered"] >= kills // 2, found
    assert found["sayings"].get("sent", 0) >= done, found
