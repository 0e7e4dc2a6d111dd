"""Receipts: what was made, whether it is still there, and what is done again when it is not."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from onceward.agents import artifacts
from onceward.agents.protocol import Message
from onceward.errors import Drifted
from onceward.journal import Record
from onceward.orchestrator import receipts
from onceward.orchestrator.ledger_replay import RECEIVED, RunState
from onceward.orchestrator.workspace import Workspace
from onceward.orchestrator.workspace_tree import WorkspaceTree
from onceward.system import ManualClock, SystemFiles, crash_points
from tests.support.function_agents import (
    FIRST,
    SECOND,
    OrchestratorHarness,
    SimulatedCrash,
    complaining,
    play,
)


def dead_between_commands(harness: OrchestratorHarness) -> None:
    """Leave a run that died after the receipts of its first task, before the second."""
    with pytest.raises(crash_points.Crashed):
        _armed(harness, "orchestrator.task.after_complete:1:raise")
    harness.asked.clear()


def _armed(harness: OrchestratorHarness, spec: str) -> None:
    crash_points.arm(spec)
    try:
        harness.run(FIRST, SECOND)
    finally:
        crash_points.arm(None)


def test_a_receipt_says_what_was_asked_and_what_came_of_it(harness: OrchestratorHarness) -> None:
    """Key, snapshot, answer, artifacts, tree and times, in a file that only its owner reads."""
    harness.run()
    path = harness.workspace / "receipts" / "T-1" / f"{harness.ledger().stem}-step-1.json"
    found = json.loads(path.read_text())
    (asked, *_) = harness.asked
    assert found["idempotency_key"] == asked["idempotency_key"]
    assert found["snapshot_id"] == asked["version"]["snapshot_id"]
    assert (found["stage"], found["round"], found["event"]) == (
        *("implement", 1, "builder.completed"),
    )
    assert [each["path"] for each in found["artifacts"]] == ["src/T-1.txt"]
    assert (harness.workspace / "snapshots" / f"{found['tree']}.manifest.json").is_file()
    assert found["asked_at"] <= found["completed_at"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("damage", ["changed", "deleted", "a link", "a directory"])
def test_h30_an_artifact_that_is_not_as_it_was_is_made_again_and_only_that(
    damage: str, harness: OrchestratorHarness
) -> None:
    """The step that made it is asked again under its key; all other receipts stand."""
    dead_between_commands(harness)
    path = harness.workspace / "src/T-1.txt"
    before = path.read_bytes()
    path.unlink()
    if damage == "changed":
        path.write_bytes(before[::-1])
    elif damage == "a link":
        path.symlink_to(harness.workspace / "SPEC.md")
    elif damage == "a directory":
        path.mkdir()
    if damage != "deleted":
        with pytest.raises(Drifted, match="src/T-1.txt|1 file differs"):
            harness.resume()
    harness.resume(redo=damage != "deleted")
    assert [(each["task_id"], each["action"]) for each in harness.asked] == [
        ("T-1", "implement"),
        *(("T-2", stage) for stage in ("implement", "review", "update_spec")),
    ]
    (redo,) = harness.records("redo")
    assert (redo["step"], redo["path"]) == (1, "src/T-1.txt")
    assert path.read_bytes() == before
    assert not path.is_symlink()
    assert harness.orchestrator().verify(harness.ledger().stem).ok


def test_h30_the_last_round_that_made_a_file_makes_it_again(harness: OrchestratorHarness) -> None:
    """A file that three rounds wrote is the work of the third; only that one is repeated."""
    harness.plays = complaining
    dead_between_commands(harness)
    (harness.workspace / "src/T-1.txt").unlink()
    harness.resume()
    assert harness.records("redo")[0]["step"] == 6
    assert [each["inputs"].get("round") for each in harness.asked][:2] == [2, None]
    assert (harness.workspace / "src/T-1.txt").read_text() == "implement_changes 2\n"


def test_h30_an_answer_without_a_receipt_is_checked_before_it_gets_one(
    harness: OrchestratorHarness,
) -> None:
    """Died between the answer and its receipt, and the file is gone: the same command again."""
    with pytest.raises(crash_points.Crashed):
        _armed(harness, "orchestrator.answer.after_record:1:raise")
    (harness.workspace / "src/T-1.txt").unlink()
    assert harness.resume().status == "done"
    first, again = [each for each in harness.asked if each["action"] == "implement"][:2]
    assert first["idempotency_key"] == again["idempotency_key"]
    assert [each["code"] for each in harness.records("command.failed")] == ["BAD_ARTIFACT"]
    assert harness.records("redo") == []


def test_h30_an_earlier_step_is_redone_while_an_answer_waits_for_its_receipt(
    harness: OrchestratorHarness,
) -> None:
    """The review is answered, the built file is gone: built again, and not reviewed again."""
    with pytest.raises(crash_points.Crashed):
        _armed(harness, "orchestrator.answer.after_record:2:raise")
    harness.asked.clear()
    (harness.workspace / "src/T-1.txt").unlink()
    assert harness.resume().status == "done"
    assert harness.stages()[:2] == ["implement", "update_spec"]


def test_h30_unfinished_work_of_a_pending_command_is_not_taken_for_damage(
    harness: OrchestratorHarness,
) -> None:
    """A builder died over its changes: its command comes again, the first one does not."""
    harness.plays = complaining
    harness.die_at("implement_changes")
    with pytest.raises(SimulatedCrash):
        harness.run()
    (harness.workspace / "src/T-1.txt").write_text("half a cha")
    asked = len(harness.asked)
    assert harness.resume().status == "done"
    assert harness.stages(asked)[:2] == ["implement_changes", "review"]
    assert harness.records("redo") == []


def test_h30_damage_is_noticed_after_a_command_that_was_pending(
    harness: OrchestratorHarness,
) -> None:
    """Died over the review, and the built file is gone: built again, then reviewed again."""
    harness.die_at("review")
    with pytest.raises(SimulatedCrash):
        harness.run()
    (harness.workspace / "src/T-1.txt").unlink()
    assert harness.resume().status == "done"
    # The second review saw no file: what it approved is unknown.
    again = ["implement", "review", "update_spec"]
    assert harness.stages() == ["implement", "review", "review", *again]
    assert (harness.workspace / "src/T-1.txt").read_text() == "implement 1\n"
    assert harness.orchestrator().verify(harness.ledger().stem).ok


def test_damage_does_not_hide_other_changes(harness: OrchestratorHarness) -> None:
    """An artifact is gone and another file changed: both are asked about, and decided together."""
    dead_between_commands(harness)
    (harness.workspace / "src/T-1.txt").unlink()
    (harness.workspace / "mine.txt").write_text("by hand")
    with pytest.raises(Drifted, match="2 files differ") as refused:
        harness.resume()
    assert refused.value.context["changes"] == ["added mine.txt", "removed src/T-1.txt"]
    assert harness.resume(redo=True).status == "done"
    stages = ["implement", "review", "update_spec"]
    assert harness.stages() == [*stages, *stages]  # The file by hand is reviewed with the first.
    assert (harness.workspace / "mine.txt").read_text() == "by hand"


@pytest.mark.parametrize("path", ["/etc/passwd", "../out.txt", "state/run.json", "way/out.txt"])
def test_h31_artifacts_elsewhere_get_no_receipt(
    path: str, harness: OrchestratorHarness, tmp_path: Path
) -> None:
    """Absolute, upwards, ours, or through a link: the run fails with that, and reads nothing."""
    (tmp_path / "out.txt").write_text("1")
    (harness.workspace / "way").symlink_to(tmp_path)

    def elsewhere(command: Message, workspace: Path) -> Record:
        said = play(command, workspace)
        said.pop("paths", None)
        return {**said, "artifacts": [{"path": path, "sha256": "0" * 64, "size": 1}]}

    harness.plays = elsewhere
    result = harness.run()
    assert result.status == "failed"
    assert "BAD_ARTIFACT" in str(result.reason)
    assert not (harness.workspace / "receipts").exists()


def test_a_file_that_a_later_command_changed_is_not_damaged_for_want_of_an_old_list(
    tmp_path: Path,
) -> None:
    """Retention may have removed the list of an early step and kept the one of the last."""
    workspace = Workspace(root=tmp_path)
    clock, files = ManualClock(), SystemFiles()
    tree = WorkspaceTree(workspace, files=files, clock=clock)
    (tmp_path / "a.py").write_text("one")
    first, named = tree.now(), artifacts.describe(tmp_path, "a.py")
    clock.advance(seconds=60)
    (tmp_path / "a.py").write_text("two, later")
    state = RunState(run_id="run-20260206-120000-1a2b3c4d", status="done", tree=tree.now())
    asked = SimpleNamespace(
        step=1, state=RECEIVED, event={"artifacts": [named]}, receipt={"tree": first, "seq": 9}
    )
    state.commands.append(asked)  # type: ignore[arg-type]
    assert receipts.steps_to_redo(state, workspace, tree, after_step=0) == {}
    workspace.manifest(first).unlink()
    assert receipts.steps_to_redo(state, workspace, tree, after_step=0) == {}
    (tmp_path / "a.py").unlink()
    assert receipts.steps_to_redo(state, workspace, tree, after_step=0) == {}
