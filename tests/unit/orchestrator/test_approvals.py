"""What is delivered is what was approved: after a redo, an edit by hand, or an accepted change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from onceward.agents.protocol import Message
from onceward.errors import Conflict
from onceward.journal import Record
from onceward.orchestrator import next_step, orchestrator, task_flow
from onceward.orchestrator.ledger_replay import replay
from onceward.orchestrator.models import RunLimits
from onceward.system import crash_points
from tests.support.function_agents import (
    FIRST,
    SECOND,
    STAGES,
    OrchestratorHarness,
    SimulatedCrash,
    play,
    stage,
)
from tests.support.simulated_run import SimulatedRun, approving


def died(harness: OrchestratorHarness, point: str) -> None:
    """Run two tasks, and die at a point of the first."""
    crash_points.arm(f"{point}:raise")
    try:
        with pytest.raises(crash_points.Crashed):
            harness.run(FIRST, SECOND)
    finally:
        crash_points.arm(None)
    harness.asked.clear()


def otherwise(command: Message, workspace: Path) -> Record:
    """Build something else than the first time."""
    said = play(command, workspace)
    if command["action"] == "implement" and command["task_id"] == "T-1":
        (workspace / "src/T-1.txt").write_text("another build\n")
    return said


def asked(harness: OrchestratorHarness) -> list[tuple[str, str]]:
    return [(each["task_id"], each["action"]) for each in harness.asked]


def once(harness: OrchestratorHarness, action: str, act: Callable[[], object]) -> None:
    """Do something when an action is first asked for, while its agent works."""

    def before(command: Message) -> None:
        if command["action"] == action:
            harness.before = lambda _: None
            act()

    harness.before = before


@pytest.mark.parametrize(
    "point", ["orchestrator.receipt.after_record:2", "orchestrator.task.after_complete:1"]
)
def test_h71_a_redo_with_another_result_is_reviewed_again(
    point: str, harness: OrchestratorHarness
) -> None:
    """Before the end of its task or after it: the review gets a new key and sees the new build."""
    died(harness, point)
    (harness.workspace / "src/T-1.txt").unlink()
    harness.plays = otherwise
    assert harness.resume().status == "done"
    assert asked(harness)[:3] == [("T-1", name) for name in STAGES]
    first, again = [
        each["command"]["inputs"]["previous"]
        for each in harness.records("command")
        if each["stage"] == "review" and each["command"]["task_id"] == "T-1"
    ]
    assert first != again
    assert len({each["command"]["idempotency_key"] for each in harness.records("command")}) == len(
        harness.records("command")
    )
    verified = harness.orchestrator().verify(harness.ledger().stem)
    assert (verified.ok, verified.is_as_approved) == (True, True)


def test_h71_a_redo_that_reports_something_else_is_reviewed_again(
    harness: OrchestratorHarness,
) -> None:
    """The files are the same, but the reviewer approved a build with another report."""
    died(harness, "orchestrator.task.after_complete:1")
    (harness.workspace / "src/T-1.txt").unlink()

    def reporting(command: Message, workspace: Path) -> Record:
        answer = play(command, workspace)
        if command["action"] == "implement":
            answer["payload"] = {"tests": {"status": "pass", "skipped": 7}}
        return answer

    harness.plays = reporting
    assert harness.resume().status == "done"
    assert asked(harness)[:2] == [("T-1", "implement"), ("T-1", "review")]


def test_h71_a_redo_with_the_same_result_keeps_its_approval(harness: OrchestratorHarness) -> None:
    """The reviewer saw exactly this: the key is the same, and it is not asked again."""
    died(harness, "orchestrator.task.after_complete:1")
    (harness.workspace / "src/T-1.txt").unlink()
    assert harness.resume().status == "done"
    assert asked(harness) == [("T-1", "implement"), *(("T-2", name) for name in STAGES)]


def test_h71_every_command_but_the_first_names_what_it_follows(
    harness: OrchestratorHarness,
) -> None:
    """From round 1 on, and without ids and times: two workspaces give the same digests."""
    harness.run()
    first, *others = harness.asked
    assert "previous" not in first["inputs"]
    assert all(len(each["inputs"]["previous"]) == 64 for each in others)
    assert "round" not in others[0]["inputs"]


@pytest.mark.parametrize("action", ["review", "update_spec"])
def test_h71_an_edit_during_or_after_a_review_is_reviewed(
    action: str, harness: OrchestratorHarness
) -> None:
    """A person saves a file while the agent works: the approval does not cover it."""
    once(harness, action, lambda: (harness.workspace / "src/T-1.txt").write_text("mine"))
    assert harness.run().status == "done"
    assert harness.stages().count("review") == 2
    assert harness.stages()[-2:] == ["review", "update_spec"]
    assert (harness.workspace / "src/T-1.txt").read_text() == "mine"
    (withdrawn,) = harness.records("approval.withdrawn")
    assert withdrawn["paths"] == ["src/T-1.txt"]
    assert harness.orchestrator().verify(harness.ledger().stem).is_as_approved


def test_h71_accepted_changes_are_reviewed_before_they_are_delivered(
    harness: OrchestratorHarness,
) -> None:
    """All tasks were complete when a file was changed: the last one is reviewed again."""
    crash_points.arm("orchestrator.run.before_complete:1:raise")
    try:
        with pytest.raises(crash_points.Crashed):
            harness.run()
    finally:
        crash_points.arm(None)
    (harness.workspace / "src/T-1.txt").write_text("mine")
    assert harness.resume(accept_drift=True).status == "done"
    assert harness.stages() == [*STAGES, "review", "update_spec"]
    assert (harness.workspace / "src/T-1.txt").read_text() == "mine"


def test_h71_a_spec_maintainer_that_changes_a_build_is_reviewed(
    harness: OrchestratorHarness,
) -> None:
    """It may write a specification unseen, and nothing that a builder made."""

    def meddling(command: Message, workspace: Path) -> Record:
        said = play(command, workspace)
        if command["action"] == "update_spec" and "round" not in command["inputs"]:
            (workspace / "src/T-1.txt").write_text("improved")
            said["paths"] = [*said["paths"], "src/T-1.txt"]
        return said

    harness.plays = meddling
    assert harness.run().status == "done"
    assert harness.stages() == [*STAGES, "review", "update_spec"]


def test_h71_an_approval_from_before_a_crash_counts_for_what_it_saw(
    harness: OrchestratorHarness,
) -> None:
    """Died over the review and edited: an agent may answer what it thought of the old files."""
    harness.die_at("review")
    with pytest.raises(SimulatedCrash):
        harness.run()
    (harness.workspace / "src/T-1.txt").write_text("mine")
    assert harness.resume().status == "done"
    assert harness.stages() == ["implement", "review", "review", "review", "update_spec"]
    assert (harness.workspace / "src/T-1.txt").read_text() == "mine"


@pytest.mark.parametrize("path", ["src/T-1.txt", "notes.txt"])
def test_h71_verify_finds_what_was_delivered_without_approval(
    path: str, harness: OrchestratorHarness
) -> None:
    """Any file that differs from the approved tree, whatever changed it, is named."""
    run_id = harness.run().run_id
    (harness.workspace / path).write_text("slipped in")
    found = harness.orchestrator().verify(run_id)
    assert (found.ok, found.is_as_approved) == (False, False)
    assert path in [each.path for each in found.findings]
    harness.run(SECOND)
    assert harness.orchestrator().verify(run_id).is_as_approved, "a later run changes files"


@pytest.mark.prove
def test_h71_a_crash_after_any_record_of_a_redo_ends_with_an_approved_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prove: bool
) -> None:
    """Wherever it dies, the next resume asks for the review that is missing."""
    step = 1 if prove else 3
    count = 1
    last = 0
    while last < count:
        harness = stage(OrchestratorHarness(tmp_path / str(last)), monkeypatch)
        died(harness, "orchestrator.task.after_complete:1")
        (harness.workspace / "src/T-1.txt").unlink()
        harness.plays = otherwise
        begun = len(harness.records())
        if last:
            harness.last = begun + last
            with pytest.raises(SimulatedCrash):
                harness.resume()
            harness.last = None
        assert harness.resume().status == "done", last
        verified = harness.orchestrator().verify(harness.ledger().stem)
        assert (verified.ok, verified.is_as_approved) == (True, True), last
        assert ("T-1", "review") in asked(harness)
        count = count if last else len(harness.records()) - begun
        last += step if last else 1


def test_the_first_record_pins_flow_and_rules(
    harness: OrchestratorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run goes on by the stages that it was started with, whatever a later version has."""
    harness.die_at("review")
    with pytest.raises(SimulatedCrash):
        harness.run()
    (started,) = harness.records("run.started")
    assert started["rules"] == 1
    assert task_flow.flow_from_record(started["flow"]) == task_flow.FLOW
    monkeypatch.setattr(task_flow, "FLOW", {})
    assert replay(harness.records()).flow == task_flow.flow_from_record(started["flow"])
    monkeypatch.setattr(orchestrator, "RULES_VERSION", 2)
    with pytest.raises(Conflict, match="version 1 of the key rules"):
        harness.resume()
    monkeypatch.undo()


def test_a_ledger_without_an_outdated_approval_decides_as_before() -> None:
    """A step that is done again with the same answer withdraws nothing."""
    paper = SimulatedRun()
    paper.run(approving, steps=9)
    paper.note("redo", step=1, path="a.py", problem="gone")
    steps = []
    while paper.state.status == "running":
        steps.append(next_step.next_step(paper.state, RunLimits()))
        paper.step(approving, RunLimits())
    assert not [each for each in steps if isinstance(each, next_step.WithdrawApproval)]
