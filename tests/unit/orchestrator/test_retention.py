"""What a workspace keeps of old runs: it does not grow with every state of its files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from onceward.orchestrator import retention
from onceward.orchestrator.ledger import Ledger, Read
from onceward.orchestrator.replay import RunState, replay
from onceward.seams import SystemClock, SystemFiles
from tests.unit.orchestrator.test_life import broken
from tests.unit.orchestrator.theatre import FIRST, SECOND, Theatre, play


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs whose ledgers are read."""
    found: list[str] = []
    original = Ledger.read

    def noted(ledger: Ledger) -> Read:
        found.append(ledger.path.stem)
        return original(ledger)

    monkeypatch.setattr(Ledger, "read", noted)
    return found


def manifests(theatre: Theatre) -> set[str]:
    names = (each.name for each in (theatre.workspace / "snapshots").iterdir())
    return {each.removesuffix(".manifest.json") for each in names}


def state(path: Path) -> RunState:
    return replay(Ledger(path, files=SystemFiles(), clock=SystemClock()).read().records)


def runs(theatre: Theatre) -> list[Path]:
    return sorted((theatre.workspace / "events").iterdir())


def change(theatre: Theatre, text: str) -> None:
    """Let the next run begin with files that no run has seen."""
    (theatre.workspace / "notes.txt").write_text(text)


def test_a_new_run_reads_no_ledger_of_a_finished_one(theatre: Theatre, read: list[str]) -> None:
    """What a run costs at its start does not grow with the runs before it."""
    for _ in range(3):
        theatre.run()
    assert read == []
    theatre.plays = broken
    failed = theatre.run(SECOND).run_id
    theatre.plays = play
    theatre.run()
    assert read == [failed]


def test_an_unfinished_run_of_long_ago_keeps_what_it_needs(
    theatre: Theatre, read: list[str]
) -> None:
    """A resume must not do finished work again, however many runs came since."""
    theatre.limits = replace(theatre.limits, runs_kept=2)
    theatre.plays = broken
    for _ in range(4):
        theatre.run(SECOND)
    read.clear()
    unfinished = [each.stem for each in runs(theatre)]
    theatre.run(SECOND)
    assert read == unfinished


def test_a_cached_state_that_cannot_be_read_costs_a_look_into_the_ledger(
    theatre: Theatre, read: list[str]
) -> None:
    """The ledger is the truth, and the cache only saves reading it."""
    done = theatre.run().run_id
    (theatre.workspace / "state" / "runs" / f"{done}.json").write_text("[torn")
    theatre.run()
    assert read == [done]


def test_manifests_of_old_runs_are_removed(
    theatre: Theatre, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the latest runs stay, so that a resume can still say which files differ."""
    theatre.limits = replace(theatre.limits, runs_kept=2)
    for number in range(4):
        change(theatre, str(number))
        theatre.run(FIRST)
    before = manifests(theatre)
    change(theatre, "the last")
    theatre.run(FIRST)
    assert before <= manifests(theatre), "there are not too many yet"
    monkeypatch.setattr(retention, "MANIFESTS_MAX", 3)
    before, kept = manifests(theatre), retention.snapshots_of(map(state, runs(theatre)[-2:]))
    theatre.run(FIRST)
    assert before & manifests(theatre) >= kept
    new = retention.snapshots_of(map(state, runs(theatre)))
    assert before - manifests(theatre) == before - kept - (manifests(theatre) & new)
    assert before - manifests(theatre)
    for path in runs(theatre):
        assert theatre.orchestrator().verify(path.stem).findings == (), "old lists are not missed"


def test_a_failed_run_can_be_resumed_after_others_were_pruned(
    theatre: Theatre, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own lists and results are not among those that go."""
    monkeypatch.setattr(retention, "MANIFESTS_MAX", 0)
    theatre.run(FIRST)
    theatre.plays = broken
    failed = theatre.run(SECOND)
    assert failed.status == "failed"
    theatre.plays = play
    assert theatre.resume(failed.run_id, retry=True).status == "done"
