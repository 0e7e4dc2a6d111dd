"""What a workspace keeps of old runs: it does not grow with every state of its files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from onceward.orchestrator import run_retention
from onceward.orchestrator.ledger import Ledger, LedgerContents
from onceward.orchestrator.ledger_replay import RunState, replay
from onceward.system import SystemClock, SystemFiles
from tests.support.function_agents import FIRST, SECOND, OrchestratorHarness, play
from tests.unit.orchestrator.test_run_loop import broken


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs whose ledgers are read."""
    found: list[str] = []
    original = Ledger.read

    def noted(ledger: Ledger) -> LedgerContents:
        found.append(ledger.path.stem)
        return original(ledger)

    monkeypatch.setattr(Ledger, "read", noted)
    return found


def manifests(harness: OrchestratorHarness) -> set[str]:
    names = (each.name for each in (harness.workspace / "snapshots").iterdir())
    return {each.removesuffix(".manifest.json") for each in names}


def state(path: Path) -> RunState:
    return replay(Ledger(path, files=SystemFiles(), clock=SystemClock()).read().records)


def runs(harness: OrchestratorHarness) -> list[Path]:
    return sorted((harness.workspace / "events").iterdir())


def change(harness: OrchestratorHarness, text: str) -> None:
    """Let the next run begin with files that no run has seen."""
    (harness.workspace / "notes.txt").write_text(text)


def test_a_new_run_reads_no_ledger_of_a_finished_one(
    harness: OrchestratorHarness, read: list[str]
) -> None:
    """What a run costs at its start does not grow with the runs before it."""
    for _ in range(3):
        harness.run()
    assert read == []
    harness.plays = broken
    failed = harness.run(SECOND).run_id
    harness.plays = play
    harness.run()
    assert read == [failed]


def test_an_unfinished_run_of_long_ago_keeps_what_it_needs(
    harness: OrchestratorHarness, read: list[str]
) -> None:
    """A resume must not do finished work again, however many runs came since."""
    harness.limits = replace(harness.limits, runs_kept=2)
    harness.plays = broken
    for _ in range(4):
        harness.run(SECOND)
    read.clear()
    unfinished = [each.stem for each in runs(harness)]
    harness.run(SECOND)
    assert read == unfinished


def test_a_cached_state_that_cannot_be_read_costs_a_look_into_the_ledger(
    harness: OrchestratorHarness, read: list[str]
) -> None:
    """The ledger is the truth, and the cache only saves reading it."""
    done = harness.run().run_id
    (harness.workspace / "state" / "runs" / f"{done}.json").write_text("[torn")
    harness.run()
    assert read == [done]


def test_manifests_of_old_runs_are_removed(
    harness: OrchestratorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the latest runs stay, so that a resume can still say which files differ."""
    harness.limits = replace(harness.limits, runs_kept=2)
    for number in range(4):
        change(harness, str(number))
        harness.run(FIRST)
    before = manifests(harness)
    change(harness, "the last")
    harness.run(FIRST)
    assert before <= manifests(harness), "there are not too many yet"
    monkeypatch.setattr(run_retention, "MANIFESTS_MAX", 3)
    before, kept = manifests(harness), run_retention.snapshots_of(map(state, runs(harness)[-2:]))
    harness.run(FIRST)
    assert before & manifests(harness) >= kept
    new = run_retention.snapshots_of(map(state, runs(harness)))
    assert before - manifests(harness) == before - kept - (manifests(harness) & new)
    assert before - manifests(harness)
    for path in runs(harness):
        assert harness.orchestrator().verify(path.stem).findings == (), "old lists are not missed"


def test_a_failed_run_can_be_resumed_after_others_were_pruned(
    harness: OrchestratorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own lists and results are not among those that go."""
    monkeypatch.setattr(run_retention, "MANIFESTS_MAX", 0)
    harness.run(FIRST)
    harness.plays = broken
    failed = harness.run(SECOND)
    assert failed.status == "failed"
    harness.plays = play
    assert harness.resume(failed.run_id, retry=True).status == "done"
