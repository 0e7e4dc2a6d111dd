"""What is delivered is what was approved: after a redo, an edit by hand, or an accepted change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from onceward import crash
from onceward.agents.messages import Message
from onceward.errors import Conflict
from onceward.journal import Record
from onceward.orchestrator import deciding, flow, orchestrator
from onceward.orchestrator.models import RunLimits
from onceward.orchestrator.replay import replay
from tests.unit.orchestrator.paper import Paper, approving
from tests.unit.orchestrator.theatre import FIRST, SECOND, STAGES, Died, Theatre, play, stage


def died(theatre: Theatre, point: str) -> None:
    """Run two tasks, and die at a point of the first."""
    crash.arm(f"{point}:raise")
    try:
        with pytest.raises(crash.Crashed):
            theatre.run(FIRST, SECOND)
    finally:
        crash.arm(None)
    theatre.asked.clear()


def otherwise(command: Message, workspace: Path) -> Record:
    """Build something else than the first time."""
    said = play(command, workspace)
    if command["action"] == "implement" and command["task_id"] == "T-1":
        (workspace / "src/T-1.txt").write_text("another build\n")
    return said


def asked(theatre: Theatre) -> list[tuple[str, str]]:
    return [(each["task_id"], each["action"]) for each in theatre.asked]


def once(theatre: Theatre, action: str, act: Callable[[], object]) -> None:
    """Do something when an action is first asked for, while its agent works."""

    def before(command: Message) -> None:
        if command["action"] == action:
            theatre.before = lambda _: None
            act()

    theatre.before = before


@pytest.mark.parametrize(
    "point", ["orchestrator.receipt.after_record:2", "orchestrator.task.after_complete:1"]
)
def test_h71_a_redo_with_another_result_is_reviewed_again(point: str, theatre: Theatre) -> None:
    """Before the end of its task or after it: the review gets a new key and sees the new build."""
    died(theatre, point)
    (theatre.workspace / "src/T-1.txt").unlink()
    theatre.plays = otherwise
    assert theatre.resume().status == "done"
    assert asked(theatre)[:3] == [("T-1", name) for name in STAGES]
    first, again = [
        each["command"]["inputs"]["previous"]
        for each in theatre.records("command")
        if each["stage"] == "review" and each["command"]["task_id"] == "T-1"
    ]
    assert first != again
    assert len({each["command"]["idempotency_key"] for each in theatre.records("command")}) == len(
        theatre.records("command")
    )
    verified = theatre.orchestrator().verify(theatre.ledger().stem)
    assert (verified.ok, verified.is_as_approved) == (True, True)


def test_h71_a_redo_with_the_same_result_keeps_its_approval(theatre: Theatre) -> None:
    """The reviewer saw exactly this: the key is the same, and it is not asked again."""
    died(theatre, "orchestrator.task.after_complete:1")
    (theatre.workspace / "src/T-1.txt").unlink()
    assert theatre.resume().status == "done"
    assert asked(theatre) == [("T-1", "implement"), *(("T-2", name) for name in STAGES)]


def test_h71_every_command_but_the_first_names_what_it_follows(theatre: Theatre) -> None:
    """From round 1 on, and without ids and times: two workspaces give the same digests."""
    theatre.run()
    first, *others = theatre.asked
    assert "previous" not in first["inputs"]
    assert all(len(each["inputs"]["previous"]) == 64 for each in others)
    assert "round" not in others[0]["inputs"]


@pytest.mark.parametrize("action", ["review", "update_spec"])
def test_h71_an_edit_beside_a_review_or_behind_it_is_reviewed(
    action: str, theatre: Theatre
) -> None:
    """A person saves a file while the agent works: the approval does not cover it."""
    once(theatre, action, lambda: (theatre.workspace / "src/T-1.txt").write_text("mine"))
    assert theatre.run().status == "done"
    assert theatre.stages().count("review") == 2
    assert theatre.stages()[-2:] == ["review", "update_spec"]
    assert (theatre.workspace / "src/T-1.txt").read_text() == "mine"
    (withdrawn,) = theatre.records("approval.withdrawn")
    assert withdrawn["paths"] == ["src/T-1.txt"]
    assert theatre.orchestrator().verify(theatre.ledger().stem).is_as_approved


def test_h71_accepted_changes_are_reviewed_before_they_are_delivered(theatre: Theatre) -> None:
    """All tasks were complete when a file was changed: the last one is reviewed again."""
    crash.arm("orchestrator.run.before_complete:1:raise")
    try:
        with pytest.raises(crash.Crashed):
            theatre.run()
    finally:
        crash.arm(None)
    (theatre.workspace / "src/T-1.txt").write_text("mine")
    assert theatre.resume(accept_drift=True).status == "done"
    assert theatre.stages() == [*STAGES, "review", "update_spec"]
    assert (theatre.workspace / "src/T-1.txt").read_text() == "mine"


def test_h71_a_spec_maintainer_that_changes_a_build_is_reviewed(theatre: Theatre) -> None:
    """It may write a specification unseen, and nothing that a builder made."""

    def meddling(command: Message, workspace: Path) -> Record:
        said = play(command, workspace)
        if command["action"] == "update_spec" and "round" not in command["inputs"]:
            (workspace / "src/T-1.txt").write_text("improved")
            said["paths"] = [*said["paths"], "src/T-1.txt"]
        return said

    theatre.plays = meddling
    assert theatre.run().status == "done"
    assert theatre.stages() == [*STAGES, "review", "update_spec"]


def test_h71_an_approval_from_before_a_crash_counts_for_what_it_saw(theatre: Theatre) -> None:
    """Died over the review and edited: an agent may answer what it thought of the old files."""
    theatre.die_at("review")
    with pytest.raises(Died):
        theatre.run()
    (theatre.workspace / "src/T-1.txt").write_text("mine")
    assert theatre.resume().status == "done"
    assert theatre.stages() == ["implement", "review", "review", "review", "update_spec"]
    assert (theatre.workspace / "src/T-1.txt").read_text() == "mine"


@pytest.mark.parametrize("path", ["src/T-1.txt", "notes.txt"])
def test_h71_verify_finds_what_was_delivered_without_approval(path: str, theatre: Theatre) -> None:
    """Any file that differs from the approved tree, whoever made it, is named."""
    run_id = theatre.run().run_id
    (theatre.workspace / path).write_text("slipped in")
    found = theatre.orchestrator().verify(run_id)
    assert (found.ok, found.is_as_approved) == (False, False)
    assert path in [each.path for each in found.findings]
    theatre.run(SECOND)
    assert theatre.orchestrator().verify(run_id).is_as_approved, "a later run changes files"


def test_h71_a_death_behind_any_record_of_a_redo_ends_with_an_approved_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it dies, the next resume asks for the review that is missing."""
    count = 1
    last = 0
    while last < count:
        theatre = stage(Theatre(tmp_path / str(last)), monkeypatch)
        died(theatre, "orchestrator.task.after_complete:1")
        (theatre.workspace / "src/T-1.txt").unlink()
        theatre.plays = otherwise
        begun = len(theatre.records())
        if last:
            theatre.last = begun + last
            with pytest.raises(Died):
                theatre.resume()
            theatre.last = None
        assert theatre.resume().status == "done", last
        verified = theatre.orchestrator().verify(theatre.ledger().stem)
        assert (verified.ok, verified.is_as_approved) == (True, True), last
        assert ("T-1", "review") in asked(theatre)
        count = count if last else len(theatre.records()) - begun
        last += 1


def test_the_first_record_pins_flow_and_rules(
    theatre: Theatre, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run goes on by the stages that it was started with, whatever a later version has."""
    theatre.die_at("review")
    with pytest.raises(Died):
        theatre.run()
    (started,) = theatre.records("run.started")
    assert started["rules"] == 1
    assert flow.flow_of(started["flow"]) == flow.FLOW
    monkeypatch.setattr(flow, "FLOW", {})
    assert replay(theatre.records()).flow == flow.flow_of(started["flow"])
    monkeypatch.setattr(orchestrator, "RULES_VERSION", 2)
    with pytest.raises(Conflict, match="rules 1 of keys"):
        theatre.resume()
    monkeypatch.undo()


def test_a_ledger_without_an_outdated_approval_decides_as_before() -> None:
    """A step that is done again with the same answer withdraws nothing."""
    paper = Paper()
    paper.run(approving, steps=9)
    paper.note("redo", step=1, path="a.py", problem="gone")
    steps = []
    while paper.state.status == "running":
        steps.append(deciding.decide(paper.state, RunLimits()))
        paper.step(approving, RunLimits())
    assert not [each for each in steps if isinstance(each, deciding.Withdraw)]
