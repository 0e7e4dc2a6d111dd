"""Manual edits at awkward moments: nothing is lost, and nothing is delivered unreviewed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from onceward.agents.protocol import Message
from onceward.errors import Drifted
from onceward.journal import Record
from onceward.orchestrator import receipts
from onceward.orchestrator.ledger_replay import CommandState
from onceward.orchestrator.models import RunLimits
from onceward.orchestrator.workspace import Workspace, new_run_id
from onceward.system import SystemClock, crash_points
from tests.support.function_agents import FIRST, SECOND, OrchestratorHarness, complaining, play
from tests.unit.orchestrator.test_approvals import died, once
from tests.unit.orchestrator.test_file_backups import copies

MINE = "two hours of my work\n"


def first_review(harness: OrchestratorHarness) -> Record:
    """Return what the first review of the last process got beside its inputs."""
    context: Record = next(each for each in harness.asked if each["action"] == "review")["context"]
    return context


@pytest.mark.parametrize("is_absolute", [True, False])
def test_h72_a_directory_that_became_a_link_is_kept_as_a_link(
    harness: OrchestratorHarness, tmp_path: Path, *, is_absolute: bool
) -> None:
    """Nothing is copied through the link, and what it leads to is not touched."""
    harness.limits = RunLimits(attempts_max=1)
    (harness.workspace / "lib").mkdir()
    (harness.workspace / "lib/a.py").write_text("print(1)\n")
    died(harness, "orchestrator.receipt.after_record:1")
    moved = tmp_path / "elsewhere" if is_absolute else harness.workspace / "moved"
    (harness.workspace / "lib").rename(moved)
    (moved / "a.py").write_text(MINE)
    (harness.workspace / "lib").symlink_to(moved if is_absolute else "moved")
    assert harness.resume(accept_drift=True).status == "done"
    assert (moved / "a.py").read_text() == MINE
    (kept,) = (harness.workspace / "state/kept").glob("*/0001/files")
    assert (kept / "lib").is_symlink()
    assert copies(harness).count(MINE) == (0 if is_absolute else 1)


def test_h72_a_directory_that_became_a_file_can_be_edited_again(
    harness: OrchestratorHarness,
) -> None:
    """What was noted as removed has no copy to drop."""
    (harness.workspace / "lib").mkdir()
    (harness.workspace / "lib/a.py").write_text("print(1)\n")
    died(harness, "orchestrator.send.before_call:2")
    (harness.workspace / "lib/a.py").unlink()
    (harness.workspace / "lib").rmdir()
    for content in ("first\n", "second\n"):
        (harness.workspace / "lib").write_text(content)
        crash_points.arm("orchestrator.send.before_call:1:raise")
        with pytest.raises(crash_points.Crashed):
            harness.resume()
        crash_points.arm(None)
    assert harness.resume().status == "done"
    assert {"first\n", "second\n"} <= set(copies(harness))


def test_h72_work_beside_a_run_that_fails_is_kept_before_a_retry(
    harness: OrchestratorHarness,
) -> None:
    """A builder that fails names no files; the next attempt overwrites one of the person's."""
    notes = harness.workspace / "src/T-1.txt"
    notes.parent.mkdir()

    def failing(_: Message, __: Path) -> Record:
        notes.write_text(MINE)
        return {"code": "BROKEN", "message": "no luck", "retryable": False}

    harness.plays = failing
    assert harness.run().status == "failed"
    harness.plays = play
    assert harness.resume(retry=True).status == "done"
    assert notes.read_text() != MINE
    assert MINE in copies(harness)


def test_h72_an_edit_between_the_check_and_the_scan_is_kept(
    harness: OrchestratorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent's answer named the file with another content, so it does not vouch for this one."""
    check: Callable[[CommandState, Workspace], object] = receipts.answer_problem

    def edited(asked: CommandState, workspace: Workspace) -> object:
        found = check(asked, workspace)
        if asked.stage == "implement":
            (harness.workspace / "src/T-1.txt").write_text(MINE)
        return found

    monkeypatch.setattr(receipts, "answer_problem", edited)
    harness.run()
    assert MINE in copies(harness)


def test_h71_a_review_after_an_accepted_edit_gets_all_changes(harness: OrchestratorHarness) -> None:
    """Those of the builder and of the person, since the task began."""
    (harness.workspace / "app.py").write_text("one\n")
    died(harness, "orchestrator.receipt.after_record:1")
    (harness.workspace / "app.py").write_text("one\nmine\n")
    assert harness.resume(accept_drift=True).status == "done"
    context = first_review(harness)
    assert context["changed_files"] == ["changed app.py", "added src/T-1.txt"]
    assert "+mine" in context["diff"]
    assert "+implement 1" in context["diff"]


def test_h71_an_edit_before_a_command_is_sent_is_asked_about(harness: OrchestratorHarness) -> None:
    """Announced is not under way; accepted, the edit is shown to the reviewer."""
    (harness.workspace / "app.py").write_text("one\n")
    died(harness, "orchestrator.command.after_record:2")
    (harness.workspace / "app.py").write_text("one\nmine\n")
    with pytest.raises(Drifted):
        harness.resume()
    assert harness.resume(accept_drift=True).status == "done"
    assert "+mine" in first_review(harness)["diff"]
    assert harness.orchestrator().verify(harness.ledger().stem).ok


def test_h71_a_resent_review_gets_the_current_changes(harness: OrchestratorHarness) -> None:
    """The first one died; meanwhile a person changed a file."""
    (harness.workspace / "app.py").write_text("one\n")
    died(harness, "orchestrator.send.before_call:2")
    (harness.workspace / "app.py").write_text("one\nmine\n")
    assert harness.resume().status == "done"
    assert "+mine" in first_review(harness)["diff"]


def observing(command: Message, workspace: Path) -> Record:
    """Play a wrapped reviewer, which names whatever changed while it ran."""
    said = play(command, workspace)
    if command["action"] == "review":
        report = workspace / "REVIEW.md"
        report.write_text(f"round {command['inputs'].get('round', 1)}\n")
        said |= {"payload": {"observed": True}, "paths": ["REVIEW.md", "app.py"]}
    return said


def test_h71_an_edit_during_a_wrapped_review_is_not_approved_by_it(
    harness: OrchestratorHarness,
) -> None:
    """Its own report is; the file that was there before is reviewed again, and kept."""
    harness.plays = observing
    app = harness.workspace / "app.py"
    app.write_text("one\n")
    once(harness, "review", lambda: app.write_text(MINE))
    assert harness.run().status == "done"
    reviews = [each for each in harness.asked if each["action"] == "review"]
    assert len(reviews) > 1
    assert MINE.strip() in reviews[-1]["context"]["diff"]
    assert MINE in copies(harness)
    assert harness.orchestrator().verify(harness.ledger().stem).ok


def test_h71_what_was_sent_is_on_disk_before_its_answer_counts(
    harness: OrchestratorHarness,
) -> None:
    """No later record says that a power cut may take `command.sent` away."""
    harness.run()
    for record in harness.records():
        assert record.get("unsynced", 0) == 0, record


def test_a_damaged_list_of_files_is_written_again(harness: OrchestratorHarness) -> None:
    """Approvals need it; the files are still the same, so it can be made again."""
    died(harness, "orchestrator.receipt.after_record:1")
    for path in (harness.workspace / "snapshots").iterdir():
        path.write_text("{")
    assert harness.resume().status == "done"
    assert [each["action"] for each in harness.asked].count("review") == 2  # one for each task


def test_a_damaged_archive_shows_no_diff(harness: OrchestratorHarness) -> None:
    """Broken compression is like any other damage."""
    (harness.workspace / "old.txt").write_text("one\n" * 1000)
    died(harness, "orchestrator.receipt.after_record:1")
    (path,) = (harness.workspace / "state/base").glob("snap-*")
    content = bytearray(path.read_bytes())
    content[95:105] = bytes(byte ^ 0xFF for byte in content[95:105])
    path.write_bytes(content)
    (harness.workspace / "old.txt").write_text("two\n")
    with pytest.raises(Drifted, match="1 file differs"):
        harness.resume()


def test_ids_of_runs_are_in_the_order_of_their_start(harness: OrchestratorHarness) -> None:
    """Also when the clock was set back, or two begin in one second."""
    now = SystemClock().now()
    earlier = "run-20260206-120000-ffffffff"
    assert new_run_id(now, "0" * 8, [earlier]) == f"run-{now:%Y%m%d-%H%M%S}-00000000"
    later = "run-20991231-235959-ffffffff"
    assert new_run_id(now, "0" * 8, [earlier, later]) == "run-21000101-000000-00000000"
    last = "run-99991231-235959-ffffffff"
    assert new_run_id(now, "0" * 8, [last]).endswith("-00000000")
    harness.workspace.joinpath("events").mkdir()
    harness.ledger(later).write_bytes(b"")
    assert harness.run(FIRST).run_id > later


def hidden(command: Message, workspace: Path) -> Record:
    """Build a file that snapshots leave out, beside the others."""
    said = play(command, workspace)
    if command["action"] == "implement":
        (workspace / ".settings").write_text("built\n")
        said["paths"] = [*said["paths"], ".settings"]
    return said


@pytest.mark.parametrize("action", ["review", "update_spec"])
def test_h71_an_edit_of_an_artifact_that_snapshots_leave_out_is_reviewed(
    action: str, harness: OrchestratorHarness
) -> None:
    """A hidden file is delivered like any other: its approval does not cover the edit."""
    harness.plays = hidden
    once(harness, action, lambda: (harness.workspace / ".settings").write_text(MINE))
    assert harness.run().status == "done"
    assert harness.stages().count("review") == 2
    (withdrawn,) = harness.records("approval.withdrawn")
    assert withdrawn["paths"] == [".settings"]
    run_id = harness.ledger().stem
    assert harness.orchestrator().verify(run_id).is_as_approved
    (harness.workspace / ".settings").write_text("slipped in\n")
    assert harness.orchestrator().verify(run_id).is_as_approved is False


def test_h71_an_accepted_artifact_that_snapshots_leave_out_is_reviewed(
    harness: OrchestratorHarness,
) -> None:
    """Accepted is not approved."""
    harness.plays = hidden
    crash_points.arm("orchestrator.run.before_complete:1:raise")
    with pytest.raises(crash_points.Crashed):
        harness.run()
    crash_points.arm(None)
    (harness.workspace / ".settings").write_text(MINE)
    harness.asked.clear()
    assert harness.resume(accept_drift=True).status == "done"
    assert harness.stages() == ["review", "update_spec"]
    assert (harness.workspace / ".settings").read_text() == MINE


@pytest.mark.parametrize("path", ["app.py", "new.py"])
def test_h72_an_edit_during_a_wrapped_build_is_kept_before_the_next_one(
    path: str, harness: OrchestratorHarness
) -> None:
    """A wrapped program's answer names whatever changed meanwhile; the next round overwrites it."""
    (harness.workspace / "app.py").write_text("old\n")

    def wrapped(command: Message, workspace: Path) -> Record:
        said = complaining(command, workspace)
        if command["action"].startswith("implement"):
            (workspace / path).write_text(MINE if command["action"] == "implement" else "its own\n")
            said["payload"] |= {"observed": True}
            said["paths"] = [*said["paths"], path]
        return said

    harness.plays = wrapped
    assert harness.run().status == "done"
    assert (harness.workspace / path).read_text() == "its own\n"
    assert MINE in copies(harness)


def test_h72_a_wrapped_build_is_copied_once(harness: OrchestratorHarness) -> None:
    """The specification program may overwrite its files; later commands find the copies."""

    def wrapped(command: Message, workspace: Path) -> Record:
        said = play(command, workspace)
        if command["action"] == "implement":
            said["payload"] |= {"observed": True}
        return said

    harness.plays = wrapped
    assert harness.run(FIRST, SECOND).status == "done"
    assert copies(harness, "T-1.txt") == ["implement 1\n"]
    assert [each.get("precaution") for each in harness.records("files.kept")] == [True] * 3
    (transcript,) = (harness.workspace / "transcripts").iterdir()
    assert "backed up" not in transcript.read_text()
