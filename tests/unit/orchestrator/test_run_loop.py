"""Life: a run from its start to its end over several lives, with agents that are only played."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from onceward.agents.answer_cache import AgentAnswer, AnswerCache
from onceward.agents.protocol import Message
from onceward.errors import Drifted, RunHeld, RunMissing
from onceward.journal import Record
from onceward.keys import idempotency_key
from onceward.orchestrator.models import RunLimits
from onceward.system import ManualClock, SystemClock
from tests.support.function_agents import (
    FIRST,
    SECOND,
    STAGES,
    OrchestratorHarness,
    SimulatedCrash,
    complaining,
    play,
    stage,
)

ROUNDS = [
    *("implement", "review", "implement_changes", "review", "update_spec"),
    *("implement_changes", "review", "update_spec"),
]


def test_idempotency_key_determinism(harness: OrchestratorHarness) -> None:
    """The same command twice has the same key, and the loop sends exactly that key."""
    harness.run()
    sent = harness.asked[0]
    work: dict[str, Any] = {
        "action": "implement",
        "task_id": "T-1",
        "snapshot_id": sent["version"]["snapshot_id"],
        "inputs": {"goal": "first"},
        "expected_outputs": [{"required": True, "path": "src/T-1.txt"}],
    }
    assert idempotency_key(**work) == idempotency_key(**work) == sent["idempotency_key"]


def test_crash_and_resume(harness: OrchestratorHarness) -> None:
    """Half a run, a crash, a resume: nothing done twice, the right ledger, the right artifacts."""
    harness.plays = complaining
    harness.die_at("review", nth=2)
    with pytest.raises(SimulatedCrash):
        harness.run(FIRST, SECOND)
    first_half = harness.keys()
    result = harness.resume()
    assert result.status == "done"
    # Only the one that was pending comes twice, under the same key.
    assert harness.keys()[len(first_half)] == first_half[-1]
    again = harness.keys()[len(first_half) + 1 :]
    assert not set(again) & set(first_half)
    assert harness.stages() == [*ROUNDS[:4], *ROUNDS[3:], *ROUNDS]
    kinds = [each["kind"] for each in harness.records()]
    assert (kinds.count("run.resumed"), kinds.count("run.completed")) == (1, 1)
    assert kinds.count("receipt") == kinds.count("command.answered") == len(set(harness.keys()))
    assert [each["seq"] for each in harness.records()] == list(range(1, len(kinds) + 1))
    for task in ("T-1", "T-2"):
        assert (harness.workspace / f"src/{task}.txt").read_text() == "implement_changes 2\n"
    assert harness.orchestrator().verify(result.run_id).ok


@pytest.mark.prove
def test_h23_h24_a_run_that_dies_after_any_record_goes_on_with_the_same_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prove: bool
) -> None:
    """Whatever was written last, an answer among it, the next command follows, the same as ever."""
    peace = stage(OrchestratorHarness(tmp_path / "peace"), monkeypatch)
    peace.plays = complaining
    peace.run()
    for last in range(1, len(peace.records()), 1 if prove else 3):
        harness = stage(OrchestratorHarness(tmp_path / str(last)), monkeypatch)
        harness.plays, harness.last = complaining, last
        with pytest.raises(SimulatedCrash):
            harness.run()
        harness.last = None
        assert harness.resume().status == "done", last
        assert [each["command"]["idempotency_key"] for each in harness.records("command")] == (
            peace.keys()
        )
        assert len(harness.asked) - len(peace.asked) <= 1, last
        assert harness.orchestrator().verify(harness.ledger().stem).ok


def test_a_complete_run_is_left_alone(harness: OrchestratorHarness) -> None:
    """No agent is asked, nothing is written, whatever became of the files."""
    run_id = harness.run().run_id
    before = harness.ledger().read_bytes()
    (harness.workspace / "src/T-1.txt").unlink()
    result = harness.resume(run_id)
    assert (result.status, result.was_complete) == ("done", True)
    assert harness.stages() == STAGES
    assert harness.ledger().read_bytes() == before


def broken(command: Message, workspace: Path) -> Record:
    if command["action"] == "review":
        return {"code": "BROKEN", "message": "no glasses", "retryable": False}
    return play(command, workspace)


def test_h26_a_failed_run_says_why_and_a_retry_is_a_new_round(harness: OrchestratorHarness) -> None:
    """A resume alone repeats the reason; a retry asks again from there, under another key."""
    harness.plays = broken
    failed = harness.run()
    assert (failed.status, failed.reason) == (
        "failed",
        "review of T-1 failed: BROKEN: no glasses",
    )
    harness.plays = play
    again = harness.resume()
    assert (again.status, again.reason) == (failed.status, failed.reason)
    assert harness.stages() == ["implement", "review"]
    assert harness.resume(retry=True).status == "done"
    assert harness.stages() == ["implement", "review", "review", "update_spec"]
    assert len(set(harness.keys())) == 4
    assert harness.asked[2]["inputs"]["round"] == 2


def test_h26_errors_are_retried_under_the_same_key_as_often_as_allowed(
    harness: OrchestratorHarness,
) -> None:
    """Each attempt is numbered; after the last one the run fails with what the agent said."""

    def busy(command: Message, workspace: Path) -> Record:
        if command["action"] == "review":
            return {"code": "BUSY", "message": "try later", "retryable": True}
        return play(command, workspace)

    harness.plays = busy
    result = harness.run()
    assert result.reason == "review of T-1 failed after 3 attempts: BUSY: try later"
    tries = harness.asked[1:]
    assert [each["retry"]["attempt"] for each in tries] == [1, 2, 3]
    assert len({each["idempotency_key"] for each in tries}) == 1
    assert len({each["message_id"] for each in tries}) == 3


def test_tasks_are_done_in_order_each_from_its_own_snapshot(harness: OrchestratorHarness) -> None:
    """The second task starts from what the first one left; within a task nothing moves."""
    harness.plays = complaining
    harness.run(FIRST, SECOND)
    assert [each["task_id"] for each in harness.asked] == ["T-1"] * 8 + ["T-2"] * 8
    snapshots = [each["version"]["snapshot_id"] for each in harness.asked]
    assert snapshots == [snapshots[0]] * 8 + [snapshots[8]] * 8
    assert snapshots[0] != snapshots[8]


def test_h25_an_identical_round_has_a_new_key(harness: OrchestratorHarness) -> None:
    """A reviewer who always says the same gets a new key each time, until rounds run out."""

    def never(command: Message, workspace: Path) -> Record:
        if command["action"] == "review":
            return {"event": "review.completed", "status": "changes_requested"}
        return play(command, workspace)

    harness.plays, harness.limits = never, RunLimits(rounds_max=3)
    result = harness.run()
    assert result.status == "failed"
    assert result.reason == "review of T-1 would be round 4, and 3 are allowed"
    assert len(set(harness.keys())) == len(harness.keys())
    harness.plays = play
    assert harness.resume(retry=True).status == "done"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"event": "builder.completed", "payload": {"tests": {"status": "pass"}}}, "src/T-1.txt"),
        ({"event": "review.completed", "status": "approved"}, "is not an answer to implement"),
        ({"event": "spec.updated"}, "spec.updated is not an answer to implement"),
    ],
)
def test_answers_that_are_none_fail_the_run(
    said: Record, reason: str, harness: OrchestratorHarness
) -> None:
    """A required output that is missing, or an event that belongs to another stage."""
    harness.plays = lambda *_: said
    result = harness.run()
    assert result.status == "failed"
    assert reason in str(result.reason)
    assert harness.stages() == ["implement"] * 3


@pytest.mark.parametrize(("allowed", "status"), [([], "failed"), (["test_old"], "done")])
def test_failing_tests_count_unless_they_are_allowed(
    allowed: list[str], status: str, harness: OrchestratorHarness
) -> None:
    """A builder whose tests fail has not built, unless it names the failures that are fine."""

    def failing(command: Message, workspace: Path) -> Record:
        said = play(command, workspace)
        if command["action"] == "implement":
            said["payload"] = {"tests": {"status": "fail", "allowed_failures": allowed}}
        return said

    harness.plays = failing
    result = harness.run()
    assert result.status == status
    assert ("TESTS_FAILED" in str(result.reason)) == (status == "failed")


def test_drift_is_listed_and_must_be_accepted(harness: OrchestratorHarness) -> None:
    """Between two commands files changed: the run names them and goes on only on request."""
    harness.die_at("implement", nth=2)
    (harness.workspace / "keep.txt").write_text("1")
    (harness.workspace / "gone.txt").write_text("1")
    with pytest.raises(SimulatedCrash):
        harness.run(FIRST, SECOND)
    _cut_behind(harness, "task.completed")
    (harness.workspace / "keep.txt").write_text("2")
    (harness.workspace / "gone.txt").unlink()
    (harness.workspace / "new.txt").write_text("1")
    with pytest.raises(Drifted, match="3 files differ") as refused:
        harness.resume()
    assert refused.value.context["changes"] == [
        *("removed gone.txt", "changed keep.txt", "added new.txt"),
    ]
    assert "--accept-drift" in refused.value.fix
    kinds = [each["kind"] for each in harness.records()]
    assert "run.resumed" not in kinds
    assert harness.resume(accept_drift=True).status == "done"
    (accepted,) = harness.records("drift.accepted")
    sent = next(each for each in harness.records("command.sent") if each["seq"] > accepted["seq"])
    assert accepted["to"] == sent["tree"]


def test_files_that_a_failed_agent_left_are_no_drift(harness: OrchestratorHarness) -> None:
    """A builder fails after it wrote files; a retry need not accept what the run itself did."""

    def half(command: Message, workspace: Path) -> Record:
        (workspace / "half.txt").write_text("done")
        return {"code": "BROKEN", "message": "no luck", "retryable": False, **command["inputs"]}

    harness.plays = half
    assert harness.run().status == "failed"
    harness.plays = play
    assert harness.resume(retry=True).status == "done"


def test_a_stop_in_the_middle_can_be_resumed(harness: OrchestratorHarness) -> None:
    """The command at hand is not lost: it is sent again under its key."""

    def stop(command: Message) -> None:
        if command["action"] == "review":
            assert harness.conductor is not None
            harness.conductor.stop()

    harness.before = stop
    result = harness.run()
    assert (result.status, result.reason) == ("stopped", "it was asked to stop")
    harness.before = lambda _: None
    assert harness.resume().status == "done"
    assert len(set(harness.keys())) == 3


def test_a_stop_before_the_start_starts_nothing(harness: OrchestratorHarness) -> None:
    """A signal that comes early counts."""
    conductor = harness.orchestrator()
    conductor.stop()
    assert conductor.run([FIRST]).status == "stopped"
    assert harness.asked == []


def test_runs_in_one_workspace_do_not_mix(harness: OrchestratorHarness) -> None:
    """A second run is another run, with receipts of its own; each is shown by its id."""
    harness.plays = broken
    failed = harness.run()
    harness.plays = play
    done = harness.run(SECOND)
    found = {each.run_id: each for each in harness.orchestrator().runs()}
    assert found[failed.run_id].tasks == ("T-1",)
    assert (found[done.run_id].status, found[done.run_id].tasks) == ("done", ("T-2",))
    with pytest.raises(Drifted, match="2 files differ"):  # The other run made them.
        harness.resume(failed.run_id, retry=True)
    assert harness.resume(failed.run_id, retry=True, accept_drift=True).status == "done"
    for run_id in (failed.run_id, done.run_id):
        view = harness.orchestrator().show(run_id)
        assert {each.task_id for each in view.commands} == set(view.summary.tasks)
        assert harness.orchestrator().verify(run_id).receipts == 3


def keep(harness: OrchestratorHarness, key: str, days: int = 31) -> Path:
    """Put an answer of so many days ago into the cache of the builder."""
    clock = ManualClock(SystemClock().now() - timedelta(days=days))
    folder = harness.workspace / "state" / "cache" / "builder"
    answer = AgentAnswer(
        key=key,
        snapshot_id="snap-000000000000",
        event="builder.completed",
        status=None,
        payload={"tests": {"status": "pass"}},
        artifacts=[],
    )
    AnswerCache(folder, clock=clock).put(answer, harness.workspace)
    (path,) = folder.glob(f"{key[3:]}-*.json")
    return path


def test_old_answers_are_pruned_unless_an_unfinished_run_names_them(
    harness: OrchestratorHarness,
) -> None:
    """The next run drops what is old, keeps what a failed run may need, and what is young."""
    harness.run()
    done, young = keep(harness, harness.keys()[0]), keep(harness, f"ik:{'b' * 64}", days=29)
    harness.plays = broken
    harness.run(SECOND)
    assert not done.exists()
    assert young.exists()
    needed = keep(harness, harness.keys()[-1])
    harness.plays = play
    harness.run(FIRST)
    assert needed.exists()


def test_h29_a_run_in_progress_is_refused(harness: OrchestratorHarness) -> None:
    """The second process gets the process and the machine of the holder."""

    def second(command: Message) -> None:
        with pytest.raises(RunHeld, match=r"by process \d+ on ") as refused:
            harness.orchestrator().resume(harness.ledger().stem)
        assert "--wait" in refused.value.fix
        assert command["action"] == "implement"
        harness.before = lambda _: None

    harness.before = second
    assert harness.run().status == "done"
    assert harness.stages() == STAGES


def test_an_unknown_run_error_lists_existing_runs(harness: OrchestratorHarness) -> None:
    """Without runs, how to start one; with some, their ids."""
    with pytest.raises(RunMissing, match="no run in .*workspace"):
        harness.resume()
    run_id = harness.run().run_id
    with pytest.raises(RunMissing) as refused:
        harness.resume("run-20200101-000000-00000000")
    assert run_id in refused.value.fix


def test_h70_a_new_run_beside_one_at_work_is_refused_and_leaves_its_caches_alone(
    harness: OrchestratorHarness,
) -> None:
    """The error names the run at work; its agents' caches stay until no run needs them."""
    kept: list[Path] = []

    def second(command: Message) -> None:
        harness.before = lambda _: None
        kept.append(keep(harness, f"ik:{'c' * 64}"))
        with pytest.raises(RunHeld, match=f"{harness.ledger().stem} is being worked on by"):
            harness.orchestrator().run([SECOND])
        assert kept[0].exists(), command

    harness.before = second
    harness.run()
    harness.run()
    assert not kept[0].exists()


def _cut_behind(harness: OrchestratorHarness, kind: str) -> None:
    """Let a ledger end with its last record of this kind."""
    lines = harness.ledger().read_bytes().splitlines(keepends=True)
    last = max(number for number, each in enumerate(harness.records()) if each["kind"] == kind)
    harness.ledger().write_bytes(b"".join(lines[: last + 1]))
