"""Views and verify: a run as people look at it, and what is wrong with its files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from onceward.agents.protocol import Message
from onceward.journal import Record
from onceward.system import crash_points
from tests.support.function_agents import (
    FIRST,
    SECOND,
    OrchestratorHarness,
    SimulatedCrash,
    complaining,
    play,
)


def test_a_summary_has_the_state_of_a_run(harness: OrchestratorHarness) -> None:
    """Task, stage, round and receipts of a run that died, then of one that is done."""
    harness.plays = complaining
    harness.die_at("review", nth=2)
    with pytest.raises(SimulatedCrash):
        harness.run(FIRST, SECOND)
    (summary,) = harness.orchestrator().runs()
    assert (summary.status, summary.task_id, summary.stage, summary.round, summary.steps) == (
        *("running", "T-1", "review", 2, 3),
    )
    harness.resume()
    (summary,) = harness.orchestrator().runs()
    assert (summary.status, summary.task_id, summary.steps, summary.resumed) == (
        *("done", "T-2", 16, 1),
    )
    assert summary.started_at < summary.updated_at


def test_commands_are_shown_from_question_to_receipt(harness: OrchestratorHarness) -> None:
    """Done, sent twice, failed and given up: each as it is."""

    def failing(command: Message, workspace: Path) -> Record:
        if command["action"] == "review":
            return {"code": "BROKEN", "message": "no glasses", "retryable": False}
        return play(command, workspace)

    harness.plays = failing
    harness.die_at("review")
    with pytest.raises(SimulatedCrash):
        harness.run()
    run_id = harness.ledger().stem
    harness.resume()
    built, review = harness.orchestrator().show(run_id).commands
    assert (built.state, built.sent, built.event) == ("done", 1, "builder.completed")
    assert [each["path"] for each in built.artifacts] == ["src/T-1.txt"]
    assert (review.state, review.sent, review.problem) == ("failed", 2, "BROKEN: no glasses")
    harness.plays = play
    harness.resume(retry=True)
    assert [each.state for each in harness.orchestrator().show(run_id).commands] == [
        *("done", "abandoned", "done", "done"),
    ]


def test_every_command_is_explained(harness: OrchestratorHarness) -> None:
    """Why it was asked, why its key is new, why it came twice, and what a resume does with it."""
    harness.plays = complaining
    harness.die_at("review", nth=2)
    with pytest.raises(SimulatedCrash):
        harness.run()
    run_id = harness.ledger().stem
    pending = harness.orchestrator().explain(run_id)[-1]
    assert pending.why[-1] == "it has no answer yet: a resume sends it again with this key"
    harness.resume()
    stories = harness.orchestrator().explain(run_id)
    why = [" / ".join(each.why) for each in stories]
    assert why[0] == "T-1 begins with implement / it has a receipt, so a resume does not send it"
    assert why[2].startswith("step 2 answered review.completed changes_requested / ")
    assert "round 2: its inputs have the round and `previous`, so a new key" in why[3]
    assert "sent 2 times with this key" in why[3]
    assert stories[0].components["inputs"] == {"goal": "first"}
    assert set(stories[0].components) == {
        *("action", "task_id", "snapshot_id", "inputs", "expected_outputs"),
    }


def test_explanations_of_failed_retried_and_redone_commands(harness: OrchestratorHarness) -> None:
    """A failure with its reason, a retry as a new round, and a redo with the changed file."""
    harness.plays = lambda *_: {"code": "BROKEN", "message": "no", "retryable": False}
    run_id = harness.run(FIRST, SECOND).run_id
    (story,) = harness.orchestrator().explain(run_id)
    assert story.why[-1] == "it failed: BROKEN: no"
    harness.plays = play
    crash_points.arm("orchestrator.task.after_complete:1:raise")
    try:
        with pytest.raises(crash_points.Crashed):
            harness.resume(retry=True)
    finally:
        crash_points.arm(None)
    (harness.workspace / "src" / "T-1.txt").unlink()
    harness.resume()
    second = harness.orchestrator().explain(run_id)[1]
    assert second.why[0] == "step 1 failed and was retried on request: new round, new key"
    assert "sent again because of src/T-1.txt: src/T-1.txt does not exist" in second.why


def test_explanation_of_an_answer_without_a_receipt(harness: OrchestratorHarness) -> None:
    """It will be checked and not sent."""
    crash_points.arm("orchestrator.answer.after_record:1:raise")
    try:
        with pytest.raises(crash_points.Crashed):
            harness.run()
    finally:
        crash_points.arm(None)
    (story,) = harness.orchestrator().explain(harness.ledger().stem)
    assert story.why[-1] == (
        "it is answered without a receipt: a resume checks the answer, and sends nothing"
    )


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _swap(path: Path) -> None:
    """Put a receipt that is sound, but another one, in its place."""
    path.write_bytes(path.with_name(path.name.replace("step-1", "step-2")).read_bytes())


DAMAGE: list[tuple[str, Callable[[Path], object], str]] = [
    ("src/T-1.txt", lambda path: path.write_text("implement 2\n"), "has other content"),
    ("src/T-1.txt", lambda path: path.write_text("long"), "has 4 bytes, not 12"),
    ("src/T-1.txt", Path.unlink, "does not exist"),
    ("receipts/T-1/{run}-step-1.json", Path.unlink, "it does not exist"),
    ("receipts/T-1/{run}-step-1.json", _flip, "is damaged"),
    ("receipts/T-1/{run}-step-1.json", _swap, "its checksum differs from the ledger's"),
    ("snapshots/{snapshot}.manifest.json", Path.unlink, "it does not exist"),
    ("snapshots/{snapshot}.manifest.json", _flip, "is damaged"),
    ("events/{run}.ndjson", _flip, "its checksum does not match"),
    (
        "events/{run}.ndjson",
        lambda path: path.write_bytes(path.read_bytes()[:-9]),
        "bytes of an incomplete record",
    ),
]


@pytest.mark.parametrize(("place", "harm", "problem"), DAMAGE)
def test_verify_finds_each_kind_of_damage(
    place: str, harm: Callable[[Path], object], problem: str, harness: OrchestratorHarness
) -> None:
    """One file is not as it was recorded: it is named with what is wrong, and nothing changes."""
    run_id = harness.run().run_id
    verified = harness.orchestrator().verify(run_id)
    assert (verified.ok, verified.receipts, verified.artifacts) == (True, 3, 2)
    snapshot = harness.asked[0]["version"]["snapshot_id"]
    path = harness.workspace / place.format(run=run_id, snapshot=snapshot)
    harm(path)
    left = path.read_bytes() if path.exists() else None
    found = harness.orchestrator().verify(run_id).findings
    assert [each for each in found if problem in each.problem], found
    assert all(str(path.relative_to(harness.workspace)) in each.path for each in found)
    assert (path.read_bytes() if path.exists() else None) == left
