"""Edits that git, an answer or the end of a task could hide: they are kept and reviewed."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from onceward.agents.protocol import Message
from onceward.journal import Record
from onceward.orchestrator.file_backups import FileBackups
from onceward.orchestrator.models import RunLimits
from onceward.orchestrator.workspace import Workspace
from onceward.system import SystemFiles
from tests.support.function_agents import (
    FIRST,
    SECOND,
    STAGES,
    OrchestratorHarness,
    SimulatedCrash,
    complaining,
    play,
)
from tests.unit.orchestrator.test_approvals import asked, died, once
from tests.unit.orchestrator.test_file_backups import RUN, copies

MINE = "two hours of my work\n"


def ignored_by_git(harness: OrchestratorHarness, pattern: str) -> None:
    """Place the workspace in a checkout that ignores it."""
    checkout = harness.workspace.parent
    subprocess.run(["git", "init", "-q", str(checkout)], check=True)
    (checkout / ".gitignore").write_text(f"{pattern}\n")


def shown_to_reviewers(harness: OrchestratorHarness) -> str:
    return json.dumps([each["context"] for each in harness.asked if each["action"] == "review"])


@pytest.mark.parametrize("pattern", ["workspace/", "*", "workspace/*"])
def test_h72_an_edit_in_a_workspace_that_git_ignores_is_kept(
    pattern: str, harness: OrchestratorHarness
) -> None:
    """Git lists no file there; all visible ones count instead."""
    ignored_by_git(harness, pattern)
    app = harness.workspace / "app.py"
    app.write_text("old\n")

    def overwriting(command: Message, workspace: Path) -> Record:
        said = complaining(command, workspace)
        if command["action"] == "implement_changes":
            app.write_text("its own\n")
            said["paths"] = [*said["paths"], "app.py"]
        return said

    harness.plays = overwriting
    once(harness, "review", lambda: app.write_text(MINE))
    assert harness.run().status == "done"
    assert app.read_text() == "its own\n"
    assert MINE in copies(harness)


def test_h71_an_edit_in_a_workspace_that_git_ignores_is_reviewed(
    harness: OrchestratorHarness,
) -> None:
    """What is delivered there is what was approved, and verify can tell."""
    ignored_by_git(harness, "workspace/")
    once(harness, "update_spec", lambda: (harness.workspace / "notes.txt").write_text(MINE))
    run_id = harness.run().run_id
    assert harness.stages() == [*STAGES, "review", "update_spec"]
    assert MINE.strip() in shown_to_reviewers(harness)
    assert harness.orchestrator().verify(run_id).is_as_approved
    (harness.workspace / "notes.txt").write_text("slipped in\n")
    assert harness.orchestrator().verify(run_id).is_as_approved is False


def hidden(command: Message, workspace: Path) -> Record:
    """Build a file that snapshots leave out in every round."""
    said = complaining(command, workspace)
    if command["action"].startswith("implement"):
        (workspace / ".settings").write_text(f"{command['action']}\n")
        said["paths"] = [*said["paths"], ".settings"]
    return said


def test_h72_an_edit_of_an_artifact_that_snapshots_leave_out_is_kept(
    harness: OrchestratorHarness,
) -> None:
    """Saved while the reviewer works, overwritten by the next build."""
    harness.plays = hidden
    path = harness.workspace / ".settings"
    once(harness, "review", lambda: path.write_text(MINE))
    assert harness.run().status == "done"
    assert path.read_text() == "implement_changes\n"
    assert copies(harness, ".settings") == [MINE]


def test_h72_an_edit_of_such_an_artifact_beside_a_pending_build_is_kept(
    harness: OrchestratorHarness,
) -> None:
    """No resume asks about it, since the build may have written it."""
    harness.plays = hidden
    harness.die_at("implement_changes")
    with pytest.raises(SimulatedCrash):
        harness.run()
    (harness.workspace / ".settings").write_text(MINE)
    assert harness.resume().status == "done"
    assert copies(harness, ".settings") == [MINE]


def test_h72_an_edit_of_such_an_artifact_between_two_attempts_is_kept(
    harness: OrchestratorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build whose tests failed named it; nothing outside the workspace is copied with it."""
    path = harness.workspace / ".settings"

    def failing(command: Message, workspace: Path) -> Record:
        said = hidden(command, workspace)
        if not harness.records("command.failed"):
            said["payload"] = {"tests": {"status": "fail"}}
        return said

    def edit(record: Record) -> None:
        if record["kind"] == "command.failed":
            path.write_text(MINE)

    harness.plays = failing
    monkeypatch.setattr(harness, "_watch", edit)
    assert harness.run().status == "done"
    assert path.read_text() == "implement_changes\n"
    assert MINE in copies(harness)


def test_h72_a_copy_that_was_moved_into_the_workspace_is_made_again(
    harness: OrchestratorHarness,
) -> None:
    """A person gets a file back with `mv`, and the next round overwrites it once more."""
    harness.plays = complaining
    path = harness.workspace / "src/T-1.txt"

    def move_back() -> None:
        copied = (harness.workspace / "state/kept").rglob("files/src/T-1.txt")
        (mine,) = (each for each in copied if each.read_text() == MINE)
        shutil.move(mine, path)

    def write() -> None:
        path.write_text(MINE)
        once(harness, "review", move_back)

    once(harness, "review", write)
    assert harness.run().status == "done"
    assert path.read_text() != MINE
    assert MINE in copies(harness)


@pytest.mark.parametrize("damage", ["other", "remove", "link", "hardlink"])
def test_h72_a_copy_that_is_no_longer_what_it_was_is_made_again(
    damage: str, tmp_path: Path
) -> None:
    """Changed, removed, restored with `ln`, or a link that is gone: the list alone is no copy."""
    (tmp_path / "a.txt").write_text(MINE)
    (tmp_path / "link").symlink_to("a.txt")
    kept = FileBackups(Workspace(root=tmp_path), RUN, files=SystemFiles())
    folder = tmp_path / "state/kept" / RUN
    assert kept.copy(["a.txt", "link"], before="snap-1", after="snap-2") is not None
    assert kept.copy(["a.txt", "link"], before="snap-1", after="snap-2") is None
    if damage == "hardlink":
        (tmp_path / "a.txt").unlink()
        (tmp_path / "a.txt").hardlink_to(folder / "0001/files/a.txt")
    elif damage == "other":
        (folder / "0001/files/a.txt").write_text(MINE.upper())
    else:
        (folder / "0001/files" / ("link" if damage == "link" else "a.txt")).unlink()
    assert kept.copy(["a.txt", "link"], before="snap-1", after="snap-2") == (
        f"state/kept/{RUN}/0002",
        1,
    )
    name = "link" if damage == "link" else "a.txt"
    assert (folder / "0002/files" / name).is_symlink() == (damage == "link")


def test_h72_an_edit_during_a_specification_is_kept_before_the_next_build(
    harness: OrchestratorHarness,
) -> None:
    """A wrapped program's answer names whatever changed while it ran."""
    app = harness.workspace / "app.py"
    app.write_text("old\n")

    def wrapped(command: Message, workspace: Path) -> Record:
        said = complaining(command, workspace)
        if command["action"] == "update_spec" and "round" not in command["inputs"]:
            app.write_text(MINE)
            said["paths"] = [*said.get("paths", ()), "app.py"]
        elif command["action"] == "implement_changes" and "update_spec" in harness.stages():
            app.write_text("its own\n")
            said["paths"] = [*said["paths"], "app.py"]
        return said

    harness.plays = wrapped
    assert harness.run().status == "done"
    assert app.read_text() == "its own\n"
    assert MINE in copies(harness)


def test_h72_an_edit_during_a_wrapped_build_is_kept_before_the_specification(
    harness: OrchestratorHarness,
) -> None:
    """The specification program overwrites it, and no build comes between."""
    spec = harness.workspace / "SPEC.md"
    spec.write_text("old\n")

    def wrapped(command: Message, workspace: Path) -> Record:
        said = play(command, workspace)
        if command["action"] == "implement":
            spec.write_text(MINE)
            said["payload"] |= {"observed": True}
            said["paths"] = [*said["paths"], "SPEC.md"]
        elif command["action"] == "update_spec":
            spec.write_text("its own\n")
        return said

    harness.plays = wrapped
    assert harness.run().status == "done"
    assert spec.read_text() == "its own\n"
    assert MINE in copies(harness)


def test_h72_an_edit_during_a_wrapped_build_is_kept_before_the_review(
    harness: OrchestratorHarness,
) -> None:
    """A wrapped reviewer may format what it reads."""
    app = harness.workspace / "app.py"
    app.write_text("old\n")

    def wrapped(command: Message, workspace: Path) -> Record:
        said = play(command, workspace)
        if command["action"] == "implement":
            app.write_text(MINE)
            said["payload"] |= {"observed": True}
            said["paths"] = [*said["paths"], "app.py"]
        elif command["action"] == "review" and app.read_text() == MINE:
            app.write_text("formatted\n")
        return said

    harness.plays = wrapped
    assert harness.run().status == "done"
    assert MINE in copies(harness)


def test_what_was_copied_is_not_looked_at_before_every_later_command(
    harness: OrchestratorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cost of a command does not grow with what earlier commands made."""
    given: list[list[str]] = []
    copy = FileBackups.copy

    def noted(self: FileBackups, paths: set[str], **trees: str) -> tuple[str, int] | None:
        given.append(sorted(paths))
        return copy(self, paths, **trees)

    def wrapped(command: Message, workspace: Path) -> Record:
        said = play(command, workspace)
        if command["action"] == "implement":
            said["payload"] |= {"observed": True}
        return said

    monkeypatch.setattr(FileBackups, "copy", noted)
    harness.plays = wrapped
    assert harness.run(FIRST, SECOND).status == "done"
    assert given == [[path] for path in ("src/T-1.txt", "SPEC.md", "src/T-2.txt") for _ in "ab"]


@pytest.mark.parametrize(
    "point", ["orchestrator.task.after_complete:1", "orchestrator.task.after_pin:2"]
)
def test_h71_an_edit_between_two_tasks_is_reviewed(
    point: str, harness: OrchestratorHarness
) -> None:
    """The process died after the first task; its file was changed, and that was accepted."""
    died(harness, point)
    (harness.workspace / "src/T-1.txt").write_text(MINE)
    assert harness.resume(accept_drift=True).status == "done"
    assert asked(harness) == [
        ("T-1", "review"),
        ("T-1", "update_spec"),
        *(("T-2", stage) for stage in STAGES),
    ]
    assert MINE.strip() in shown_to_reviewers(harness)
    assert harness.orchestrator().verify(harness.ledger().stem).ok


def test_h71_an_edit_between_two_tasks_of_a_live_run_is_reviewed(
    harness: OrchestratorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saved between the record that ends a task and the one that starts the next."""
    edits = [MINE]

    def edit(record: Record) -> None:
        if record["kind"] == "task.completed" and edits:
            (harness.workspace / "src/T-1.txt").write_text(edits.pop())

    monkeypatch.setattr(harness, "_watch", edit)
    assert harness.run(FIRST, SECOND).status == "done"
    assert MINE.strip() in shown_to_reviewers(harness)
    assert harness.stages() == [*STAGES, "review", "update_spec", *STAGES]


def test_h71_a_file_that_changes_after_every_review_ends_the_run_and_is_named(
    harness: OrchestratorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reviews are bounded, and the reason says which file used them up."""
    harness.limits = RunLimits(rounds_max=3)

    def edit(record: Record) -> None:
        if record["kind"] == "task.completed":
            (harness.workspace / "app.log").write_text(f"line {record['seq']}\n")

    monkeypatch.setattr(harness, "_watch", edit)
    result = harness.run(FIRST, SECOND)
    assert result.status == "failed"
    assert result.reason == (
        "review of T-1 would be round 4, and 3 are allowed; app.log changed again after each of "
        "the last reviews: ignore it in git, or move it out of the workspace"
    )
    assert harness.stages() == STAGES + ["review", "update_spec"] * 2


def test_rounds_that_reviewers_used_up_blame_no_file(harness: OrchestratorHarness) -> None:
    """One edit is no reason; neither is a reviewer that is never content."""

    def never(command: Message, workspace: Path) -> Record:
        if command["action"] == "review":
            return {"event": "review.completed", "status": "changes_requested"}
        return play(command, workspace)

    harness.plays = never
    harness.limits = RunLimits(rounds_max=2)
    result = harness.run()
    assert result.reason == "review of T-1 would be round 3, and 2 are allowed"


def test_h71_verify_without_the_approved_list_is_a_finding(harness: OrchestratorHarness) -> None:
    """What cannot be compared is not as approved; the list must be there as long as its run."""
    run_id = harness.run().run_id
    (tree,) = {each["tree"] for each in harness.records("command.sent")[1:2]}
    name = f"snapshots/{tree}.manifest.json"
    (harness.workspace / name).unlink()
    found = harness.orchestrator().verify(run_id)
    assert (found.ok, found.is_as_approved) == (False, None)
    (finding,) = found.findings
    assert finding.path == name
    assert finding.problem.startswith("without it the delivered files cannot be compared")


def test_h71_a_file_that_became_a_link_is_not_as_approved(harness: OrchestratorHarness) -> None:
    """A link is not the file whose content is the link's target."""
    path = harness.workspace / "conf"
    path.write_text("/etc/passwd")
    run_id = harness.run().run_id
    path.unlink()
    path.symlink_to("/etc/passwd")
    assert harness.orchestrator().verify(run_id).is_as_approved is False
