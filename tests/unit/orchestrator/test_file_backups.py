"""A person's work is never lost: it stays in the tree, or a copy is in `state/kept`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from onceward.agents.protocol import Message
from onceward.errors import Drifted
from onceward.journal import Record
from onceward.orchestrator.file_backups import FileBackups
from onceward.orchestrator.models import RunLimits
from onceward.orchestrator.workspace import Workspace
from onceward.system import SystemFiles, crash_points
from tests.support.function_agents import (
    STAGES,
    OrchestratorHarness,
    SimulatedCrash,
    complaining,
    play,
)
from tests.unit.orchestrator.test_approvals import asked, died, once

RUN = "run-20260206-120000-1a2b3c4d"


def copies(harness: OrchestratorHarness, name: str = "*") -> list[str]:
    """Return the content of all copies of files, or of those with this name."""
    found = (harness.workspace / "state" / "kept").rglob(f"files/**/{name}")
    return [path.read_text() for path in sorted(found) if path.is_file()]


def test_h72_changed_work_is_asked_about_and_kept_before_it_is_done_again(
    harness: OrchestratorHarness,
) -> None:
    """Nothing is touched without a decision; a redo copies the person's file first."""
    died(harness, "orchestrator.task.after_complete:1")
    path = harness.workspace / "src/T-1.txt"
    path.write_text("my fix\n")
    with pytest.raises(Drifted) as refused:
        harness.resume()
    assert refused.value.context["changes"] == ["changed src/T-1.txt"]
    assert (path.read_text(), harness.asked) == ("my fix\n", [])
    assert harness.resume(redo=True).status == "done"
    assert path.read_text() == "implement 1\n"
    assert copies(harness, "T-1.txt") == ["my fix\n"]
    kept, *_ = harness.records("files.kept")
    assert (harness.workspace / kept["path"] / "files/src/T-1.txt").read_text() == "my fix\n"
    assert asked(harness) == [("T-1", "implement"), *(("T-2", stage) for stage in STAGES)]


def test_h72_accepted_work_stays_and_is_reviewed(harness: OrchestratorHarness) -> None:
    """The step that had made the file is not done again; the reviewer sees the person's version."""
    died(harness, "orchestrator.receipt.after_record:2")
    path = harness.workspace / "src/T-1.txt"
    path.write_text("my fix\n")
    assert harness.resume(accept_drift=True).status == "done"
    assert path.read_text() == "my fix\n"
    assert asked(harness)[:2] == [("T-1", "review"), ("T-1", "update_spec")]
    assert harness.orchestrator().verify(harness.ledger().stem).ok


def test_h72_accepted_work_that_a_later_round_overwrites_is_kept(
    harness: OrchestratorHarness,
) -> None:
    """The reviewer asks for changes, and the builder writes the file again."""
    harness.plays = complaining
    died(harness, "orchestrator.receipt.after_record:2")
    (harness.workspace / "src/T-1.txt").write_text("my fix\n")
    assert harness.resume(accept_drift=True).status == "done"
    assert "my fix\n" in copies(harness)


def test_h72_work_beside_a_pending_command_is_kept_before_it_is_sent_again(
    harness: OrchestratorHarness,
) -> None:
    """Leftovers of a dead builder look like edits of a person: all of it is kept."""
    harness.plays = complaining
    harness.die_at("implement_changes")
    with pytest.raises(SimulatedCrash):
        harness.run()
    (harness.workspace / "src/T-1.txt").write_text("my fix\n")
    assert harness.resume().status == "done"
    assert "my fix\n" in copies(harness)


def test_h72_work_between_two_attempts_is_kept(harness: OrchestratorHarness) -> None:
    """An agent fails, a person edits, the agent is asked again in the same life."""
    failures = [{"code": "BUSY", "message": "later", "retryable": True}]

    def failing(command: Message, workspace: Path) -> Record:
        if command["action"] == "implement" and failures:
            (workspace / "src").mkdir(exist_ok=True)
            (workspace / "src/T-1.txt").write_text("my fix\n")
            return failures.pop()
        return play(command, workspace)

    harness.plays = failing
    assert harness.run().status == "done"
    assert copies(harness) == ["my fix\n"]


def test_h72_work_that_a_live_run_overwrites_is_kept(harness: OrchestratorHarness) -> None:
    """Saved while the reviewer works, overwritten by the next round."""
    harness.plays = complaining
    once(
        harness,
        "review",
        lambda: (harness.workspace / "src/T-1.txt").write_text("my fix\n"),
    )
    assert harness.run().status == "done"
    assert (harness.workspace / "src/T-1.txt").read_text() != "my fix\n"
    assert "my fix\n" in copies(harness)


def test_h72_several_redos_overwrite_no_earlier_copy(harness: OrchestratorHarness) -> None:
    """Each version of the person is there; the same one is kept once."""
    path = harness.workspace / "src/T-1.txt"
    died(harness, "orchestrator.task.after_complete:1")
    for version in ("one\n", "two\n", "two\n"):
        path.write_text(version)
        crash_points.arm("orchestrator.receipt.after_record:1:raise")
        try:
            with pytest.raises(crash_points.Crashed):
                harness.resume(redo=True)
        finally:
            crash_points.arm(None)
        assert path.read_text() == "implement 1\n"
    assert sorted(copies(harness, "T-1.txt")) == ["one\n", "two\n"]


@pytest.mark.parametrize(
    "point", ["orchestrator.backup.before_rename", "orchestrator.backup.after_rename"]
)
def test_h72_a_death_while_files_are_copied_loses_nothing(
    point: str, harness: OrchestratorHarness
) -> None:
    """Nothing was overwritten yet; the next resume asks again and copies again."""
    died(harness, "orchestrator.task.after_complete:1")
    path = harness.workspace / "src/T-1.txt"
    path.write_text("my fix\n")
    crash_points.arm(f"{point}:1:raise")
    try:
        with pytest.raises(crash_points.Crashed):
            harness.resume(redo=True)
    finally:
        crash_points.arm(None)
    assert path.read_text() == "my fix\n"
    with pytest.raises(Drifted):
        harness.resume()
    assert harness.resume(redo=True).status == "done"
    assert copies(harness, "T-1.txt") == ["my fix\n"]


def test_h72_an_artifact_that_snapshots_leave_out_is_kept_as_well(
    harness: OrchestratorHarness,
) -> None:
    """A hidden file that a builder answers for: changed by hand, asked about, copied."""

    def hidden(command: Message, workspace: Path) -> Record:
        said = play(command, workspace)
        if command["action"] == "implement":
            (workspace / ".settings").write_text("built\n")
            said["paths"] = [*said["paths"], ".settings"]
        return said

    harness.plays = hidden
    died(harness, "orchestrator.task.after_complete:1")
    path = harness.workspace / ".settings"
    path.write_text("mine\n")
    with pytest.raises(Drifted) as refused:
        harness.resume()
    assert refused.value.context["changes"] == ["changed .settings"]
    assert harness.resume(redo=True).status == "done"
    assert copies(harness, ".settings") == ["mine\n"]
    assert path.read_text() == "built\n"


def test_h72_a_hidden_artifact_can_be_accepted(harness: OrchestratorHarness) -> None:
    """It is not taken for damage afterwards."""

    def hidden(command: Message, workspace: Path) -> Record:
        said = play(command, workspace)
        if command["action"] == "implement" and command["task_id"] == "T-1":
            (workspace / ".settings").write_text("built\n")
            said["paths"] = [*said["paths"], ".settings"]
        return said

    harness.plays = hidden
    died(harness, "orchestrator.task.after_complete:1")
    (harness.workspace / ".settings").write_text("mine\n")
    assert harness.resume(accept_drift=True).status == "done"
    assert (harness.workspace / ".settings").read_text() == "mine\n"
    assert ("T-1", "implement") not in asked(harness)


def test_h72_raising_a_time_limit_is_no_drift(harness: OrchestratorHarness) -> None:
    """The configuration is no part of the tree, and limits are no part of a key."""
    (harness.workspace / "onceward.json").write_text('{"limits": 1}')
    died(harness, "orchestrator.task.after_complete:1")
    (harness.workspace / "onceward.json").write_text('{"limits": 2}')
    harness.limits = RunLimits(timeout_seconds=dict.fromkeys(RunLimits().timeout_seconds, 9000.0))
    assert harness.resume().status == "done"
    assert asked(harness) == [("T-2", stage) for stage in STAGES]


def test_copies_keep_modes_and_links_and_note_what_is_gone(tmp_path: Path) -> None:
    """A link is not followed, a name need not be text, and what is no file is noted as gone."""
    outside = tmp_path / "outside.txt"
    outside.write_text("secret")
    root = tmp_path / "workspace"
    (root / "src").mkdir(parents=True)
    (root / "src" / "tool.sh").write_text("#!/bin/sh\n")
    (root / "src" / "tool.sh").chmod(0o751)
    (root / "link").symlink_to(outside)
    odd = os.fsencode(root) + b"/odd-\xff.txt"
    Path(os.fsdecode(odd)).write_text("odd")
    os.mkfifo(root / "pipe")
    kept = FileBackups(Workspace(root=root), RUN, files=SystemFiles())
    paths = ["src/tool.sh", "link", "odd-\\xff.txt", "gone.txt", "pipe"]
    assert kept.copy(paths, before="snap-1", after="snap-2") == (f"state/kept/{RUN}/0001", 5)
    folder = root / "state" / "kept" / RUN / "0001"
    assert (folder / "files/src/tool.sh").stat().st_mode & 0o777 == 0o751
    assert (folder / "files/link").is_symlink()
    assert (folder / "files/odd-\\xff.txt").read_text() == "odd"
    note = json.loads((folder / "kept.json").read_text())
    assert {each["path"]: each["kind"] for each in note["files"]} == {
        "src/tool.sh": "file",
        "link": "link",
        "odd-\\xff.txt": "file",
        "gone.txt": "removed",
        "pipe": "removed",
    }
    assert folder.stat().st_mode & 0o777 == 0o700
    assert kept.copy(paths, before="snap-1", after="snap-2") is None
    assert [each.name for each in folder.parent.iterdir()] == ["0001"]
