"""Outcomes with real processes and real kill -9, on both engines."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onceward.client import Onceward
from onceward.client import open as open_handle
from onceward.errors import KeyAmbiguous, KeyInFlight
from onceward.outcomes import OutcomeState
from onceward.testing.moving_time import MovingTime
from tests.support.crash_scenarios.outcomes import LifeClock
from tests.support.evidence import Entry, Evidence
from tests.support.module_processes import run_module

SEED = 20261115
SHOP = """
import os, sys
from onceward.client import open
from tests.support.crash_scenarios.outcomes import LifeClock

ow = open(sys.argv[1], clock=LifeClock(0))

def write(text):
    with __builtins__.open(sys.argv[2], "a") as bank:
        bank.write(text)

@ow.once(key=lambda order: f"charge#{order}", scope="shop.charge")
def charge(order):
    write("charged ")
    if "die" in sys.argv:
        os.kill(os.getpid(), 9)
    return {"order": order}

@ow.once(key=lambda order: f"charge#{order}", scope="shop.charge_in")
def charge_in(order, tx):
    tx.execute("insert into charges values (?)", [order])
    if "die" in sys.argv:
        os.kill(os.getpid(), 9)
    return {"order": order}

print((charge_in if "tx" in sys.argv else charge)(7))
"""


@pytest.mark.prove
def test_a_storm_of_callers_and_kills_gives_every_key_one_outcome(
    ow_url: str, tmp_path: Path, prove: bool, soak: bool, evidence: Evidence
) -> None:
    """64 threads in 4 processes want 1,000 keys: every effect once, every caller the same."""
    visits, kills = (1000, 40) if soak else (300, 20) if prove else (60, 8)
    module = "tests.support.storms.outcomes"
    summary = run_module(module, ow_url, tmp_path, SEED, visits, kills)
    # When every key has its outcome no process passes a crash point any more.
    assert summary["kills"] >= 4
    assert summary["keys"] > 900
    assert summary["results"] >= 64 * visits
    evidence.record(
        Entry(
            campaign="64 callers who want the same keys",
            layer="storms",
            claims=("I1", "I3", "I4"),
            engine="sqlite" if ow_url.startswith("sqlite") else "postgres",
            schedules=1,
            faults={"kill": summary["kills"]},
            work=summary["results"],
        )
    )


def shop(url: str, bank: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SHOP, url, str(bank), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def later(url: str) -> Onceward:
    """Open the store when every lease of before is over."""
    ow = open_handle(url, clock=LifeClock(1))
    if ow.store.engine == "postgres":
        MovingTime(ow.store).advance(seconds=61)
    return ow


def cli(url: str, *words: str) -> Any:
    command = [sys.executable, "-m", "onceward", "outcomes", *words, "--store", url, "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)


@pytest.mark.parametrize("verdict", ["done", "not done"])
def test_a_charge_killed_in_the_middle_waits_for_a_person(
    ow_url: str, tmp_path: Path, verdict: str
) -> None:
    """It is ambiguous, listed, and not run again until an operator has decided."""
    bank = tmp_path / "bank"
    assert shop(ow_url, bank, "die").returncode == -signal.SIGKILL
    with later(ow_url) as ow:
        charge = ow.once(key=lambda order: f"charge#{order}", scope="shop.charge")(_charge(bank))
        for _ in range(3):
            with pytest.raises(KeyAmbiguous):
                charge(7)
        (found,) = ow.outcomes.list(state="ambiguous")
        assert found.key == "charge#7"
        listed = cli(ow_url, "list", "--state", "ambiguous")["outcomes"]
        assert [each["key"] for each in listed] == ["charge#7"]
        assert bank.read_text() == "charged "
        words = ["reconcile", "shop.charge", "charge#7", "--reason", "asked the bank"]
        said = ["--done", '{"order": 7}'] if verdict == "done" else ["--not-done"]
        assert cli(ow_url, *words, *said)["applied"] is False
        with pytest.raises(KeyAmbiguous):
            charge(7)
        assert cli(ow_url, *words, *said, "--yes")["applied"] is True
        assert charge(7) == charge(7) == {"order": 7}
    assert bank.read_text() == "charged " * (1 if verdict == "done" else 2)


def _charge(bank: Path) -> Any:
    def charge(order: int) -> dict[str, int]:
        with bank.open("a") as file:
            file.write("charged ")
        return {"order": order}

    return charge


def test_a_charge_with_tx_killed_in_the_middle_is_run_again_and_charged_once(
    ow_url: str, tmp_path: Path
) -> None:
    """Nothing of the first attempt is left, and no caller has to wait or decide."""
    bank = tmp_path / "bank"
    with open_handle(ow_url) as ow, ow.transaction() as tx:
        tx.execute("create table charges (number bigint)")
    assert shop(ow_url, bank, "tx", "die").returncode == -signal.SIGKILL
    for _ in range(2):
        ran = shop(ow_url, bank, "tx")
        assert ran.stdout == "{'order': 7}\n", ran.stderr
    with open_handle(ow_url) as ow:
        with ow.transaction() as tx:
            assert tx.execute("select number from charges") == [(7,)]
        assert [each.state for each in ow.outcomes.list()] == [OutcomeState.DONE]


def test_a_frozen_holder_that_wakes_up_late_changes_nothing(ow_url: str, tmp_path: Path) -> None:
    """Stopped after its effect, replaced by a verdict, and woken, it is refused."""
    bank = tmp_path / "bank"
    spec = "outcome.finish.before_commit:1:stop"
    frozen = subprocess.Popen(
        [sys.executable, "-c", SHOP, ow_url, str(bank)],
        env={**os.environ, "ONCEWARD_CRASH": spec},
        stderr=subprocess.PIPE,
        text=True,
    )
    _, status = os.waitpid(frozen.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    with open_handle(ow_url, clock=LifeClock(0)) as ow, pytest.raises(KeyInFlight):
        ow.once(key=lambda order: f"charge#{order}", scope="shop.charge")(_charge(bank))(7)
    with later(ow_url) as ow:
        words: dict[str, Any] = {"actor": "ann", "reason": "asked the bank"}
        ow.outcomes.reconcile("shop.charge", "charge#7", done="by hand", **words)
        os.kill(frozen.pid, signal.SIGCONT)
        _, errors = frozen.communicate(timeout=60)
        assert "FenceLost" in errors
        (found,) = ow.outcomes.list()
        assert found.result == b'"by hand"'
