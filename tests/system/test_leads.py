"""The lead platform, as an example and under fire."""

import json
import subprocess
import sys

import pytest

SEED = 20261115


@pytest.mark.prove
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_h19_every_lead_is_assigned_and_billed_once_whatever_dies(
    engine: str, prove: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three workers, one killed every moment, PostgreSQL twice: none lost or doubled, in order."""
    seconds, kills = (120, 100) if prove else (10, 8)
    command = [sys.executable, "-m", "tests.system.leads_chaos", engine, str(seconds), str(SEED)]
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=seconds + 120
    )
    assert ran.returncode == 0, f"REPRO: {' '.join(command)}\n{ran.stderr[-20000:]}"
    summary = json.loads(ran.stdout)
    with capsys.disabled():
        sys.stdout.write(f"\n{engine}: {summary}\n")
    assert summary["kills"] >= kills
    assert summary["server_kills"] == (2 if engine == "postgres" else 0)
    assert summary["leads"] > 100
    assert summary["takeovers"] > 0
