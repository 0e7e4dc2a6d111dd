"""What a resume shows of files that changed: the lines, against what the run recorded last."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceward.agents.protocol import Message
from onceward.errors import Drifted
from onceward.journal import Record
from onceward.orchestrator.diffs import DIFF_CHARACTERS_MAX
from tests.support.function_agents import (
    SECOND,
    OrchestratorHarness,
    SimulatedCrash,
    complaining,
    play,
)
from tests.unit.orchestrator.test_approvals import died


def shown(harness: OrchestratorHarness, run_id: str | None = None, *, retry: bool = False) -> str:
    """Return the diff with which a resume is refused."""
    with pytest.raises(Drifted) as refused:
        harness.resume(run_id, retry=retry)
    return str(refused.value.context["diff"])


def archives(harness: OrchestratorHarness) -> list[str]:
    return sorted(path.stem for path in (harness.workspace / "state/base").iterdir())


def test_h72_a_resume_shows_how_files_changed(harness: OrchestratorHarness) -> None:
    """Files that were there before, that an agent made, that are new, and that are gone."""
    (harness.workspace / "old.txt").write_text("one\ntwo\n")
    (harness.workspace / "gone.txt").write_text("was here\n")
    (harness.workspace / "ends.txt").write_text("x\n")
    died(harness, "orchestrator.receipt.after_record:1")
    (harness.workspace / "old.txt").write_text("one\nthree\n")
    (harness.workspace / "gone.txt").unlink()
    (harness.workspace / "ends.txt").write_bytes(b"x\r\n")
    (harness.workspace / "src/T-1.txt").write_text("my fix\n")
    (harness.workspace / "new.txt").write_text("token=hunter2hunter2\n")
    diff = shown(harness)
    assert "--- a/old.txt\n+++ b/old.txt\n" in diff
    assert " one\n-two\n+three\n" in diff
    assert "-was here\n" in diff
    assert "--- ends.txt: only line endings changed\n" in diff
    assert "-implement 1\n+my fix\n" in diff
    assert "+token=" in diff
    assert "hunter2" not in diff


@pytest.mark.parametrize("receipt", [3, 5, 8])
def test_h72_a_diff_is_against_the_latest_version(
    harness: OrchestratorHarness, receipt: int
) -> None:
    """In each round the builder writes the file again; one archive is kept for the run."""
    harness.plays = complaining
    died(harness, f"orchestrator.receipt.after_record:{receipt}")
    path = harness.workspace / "src/T-1.txt"
    before = path.read_text()
    path.write_text("my fix\n")
    assert f"-{before}+my fix\n" in shown(harness)
    assert [name.split("-")[0] for name in archives(harness)] == ["run", "snap"]


def test_h72_a_diff_is_against_what_a_failed_run_left(harness: OrchestratorHarness) -> None:
    """A builder fails after it wrote a file; a person mends that file."""

    def half(_: Message, workspace: Path) -> Record:
        (workspace / "half.txt").write_text("begun\n")
        return {"code": "BROKEN", "message": "no luck", "retryable": False}

    harness.plays = half
    assert harness.run().status == "failed"
    (harness.workspace / "half.txt").write_text("mended\n")
    assert "-begun\n+mended\n" in shown(harness, retry=True)


def test_h72_a_diff_is_against_what_was_accepted(
    harness: OrchestratorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept once, then changed again before anything else happened."""
    died(harness, "orchestrator.task.after_complete:1")
    path = harness.workspace / "src/T-1.txt"
    path.write_text("my fix\n")

    def dying(record: Record) -> None:
        if record["kind"] == "drift.accepted":
            raise SimulatedCrash

    monkeypatch.setattr(harness, "_watch", dying)
    with pytest.raises(SimulatedCrash):
        harness.resume(accept_drift=True)
    path.write_text("my second fix\n")
    assert "-my fix\n+my second fix\n" in shown(harness)


def test_h72_what_cannot_be_shown_is_named(harness: OrchestratorHarness) -> None:
    """Bytes, large files, many lines, damaged archives; and the whole of it has a limit."""
    (harness.workspace / "bytes").write_bytes(b"\0" * 10)
    (harness.workspace / "large.txt").write_text("x\n" * 50_000)
    (harness.workspace / "lines.txt").write_text("x\n" * 6000)
    died(harness, "orchestrator.receipt.after_record:1")
    for name in ("bytes", "large.txt", "lines.txt"):
        (harness.workspace / name).write_bytes(b"small now\n")
    for number in range(300):
        (harness.workspace / f"many-{number:03}.txt").write_text("y\n" * 3000)
    (harness.workspace / "src/T-1.txt").write_text("my fix\n")
    diff = shown(harness)
    assert len(diff) < 1.1 * DIFF_CHARACTERS_MAX
    assert "--- bytes: no diff: not text, too large, or not archived" in diff
    assert "--- large.txt: no diff: not text, too large, or not archived" in diff
    assert "--- lines.txt: no diff: too many lines" in diff
    for path in (harness.workspace / "state/base").iterdir():
        path.write_bytes(b"PK damaged")
    for path in harness.workspace.glob("many-*"):
        path.unlink()
    assert "--- src/T-1.txt: no diff: not text, too large, or not archived" in shown(harness)


def test_h72_archives_stay_while_a_run_is_not_done(harness: OrchestratorHarness) -> None:
    """A new run removes those of runs that are done, and no other."""
    died(harness, "orchestrator.receipt.after_record:1")
    first = harness.ledger().stem
    harness.plays = play
    done = harness.run(SECOND).run_id
    assert {first, done} <= set(archives(harness))
    harness.run(SECOND)
    assert first in archives(harness)
    assert done not in archives(harness)
    (harness.workspace / "src/T-1.txt").write_text("my fix\n")
    assert "-implement 1\n+my fix\n" in shown(harness, first)
