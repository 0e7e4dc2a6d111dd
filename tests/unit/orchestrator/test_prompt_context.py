"""Prompt context: what a command tells beside its inputs, recorded once and outside of its key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onceward.agents import protocol
from onceward.agents.line_reader import LINE_BYTES_MAX
from onceward.agents.protocol import Message
from onceward.journal import Record
from onceward.keys import canonical_json, idempotency_key
from onceward.orchestrator import base_files
from onceward.orchestrator.models import AgentTask
from onceward.orchestrator.prompt_context import CONTEXT_BYTES_MAX
from tests.support.function_agents import (
    FIRST,
    OrchestratorHarness,
    SimulatedCrash,
    complaining,
    play,
)


def built(tests: Record, content: str = "hello\n") -> Any:
    """Play a builder that writes this, and says this of its tests."""

    def plays(command: Message, workspace: Path) -> Record:
        if command["to"]["agent_type"] != "builder":
            return play(command, workspace)
        (workspace / "src").mkdir(exist_ok=True)
        (workspace / "src" / "T-1.txt").write_text(content)
        payload = {"tests": tests}
        return {"event": "builder.completed", "payload": payload, "paths": ["src/T-1.txt"]}

    return plays


def asked(harness: OrchestratorHarness, action: str) -> list[Message]:
    return [each for each in harness.asked if each["action"] == action]


def test_h73_a_reviewer_gets_changes_diff_and_tests(harness: OrchestratorHarness) -> None:
    """What was added, changed and removed since the task was pinned, and how it was tested."""
    (harness.workspace / "old.txt").write_text("one\ntwo\n")
    (harness.workspace / "gone.txt").write_text("x\n")
    (harness.workspace / "same.txt").write_text("y\n")
    tests = {"status": "fail", "exit_code": 1, "output": "1 failed", "allowed_failures": ["a"]}

    def plays(command: Message, workspace: Path) -> Record:
        if command["action"] == "implement":
            (workspace / "old.txt").write_text("one\nthree\n")
            (workspace / "gone.txt").unlink()
        return built(tests)(command, workspace)  # type: ignore[no-any-return]

    harness.plays = plays
    assert harness.run().status == "done"
    for action in ("review", "update_spec"):
        (command,) = asked(harness, action)
        context = command["context"]
        assert context["tests"] == tests
        names = ["removed gone.txt", "changed old.txt", "added src/T-1.txt"]
        assert context["changed_files"][:3] == names
        assert "-two\n+three\n" in context["diff"]
        assert "+hello\n" in context["diff"]
        assert "-x\n" in context["diff"]
        assert "same" not in context["diff"]
    assert "context" not in asked(harness, "implement")[0]


def test_h73_the_context_is_no_part_of_the_key(harness: OrchestratorHarness) -> None:
    """An agent that computes the key of what it was sent finds the key that it was sent."""
    harness.plays = complaining
    harness.run()
    for each in harness.asked:
        key = idempotency_key(
            action=each["action"],
            task_id=each["task_id"],
            snapshot_id=each["version"]["snapshot_id"],
            inputs=each["inputs"],
            expected_outputs=each["expected_outputs"],
        )
        assert key == each["idempotency_key"]
        assert "diff" not in each["inputs"]
    assert "context" in asked(harness, "review")[0]


def test_h73_a_command_that_is_sent_again_has_the_same_context(
    harness: OrchestratorHarness,
) -> None:
    """What was recorded with it counts, though files have changed meanwhile."""
    harness.die_at("review")
    with pytest.raises(SimulatedCrash):
        harness.run()
    (recorded,) = [e for e in harness.records("command") if e["stage"] == "review"]
    (harness.workspace / "state" / "base").rename(harness.workspace / "state" / "gone")
    harness.resume()
    first, again = asked(harness, "review")
    assert first["context"] == again["context"] == recorded["command"]["context"]
    assert first["idempotency_key"] == again["idempotency_key"]


def test_h73_the_next_attempt_gets_the_last_failure(harness: OrchestratorHarness) -> None:
    """The error and the output of the check, under the same key; a resume tells it as well."""
    failing = {"status": "fail", "exit_code": 2, "output": "x" * 9000 + " token=hunter2hunter2 E"}
    harness.plays = built(failing)
    harness.die_at("implement", nth=3)
    with pytest.raises(SimulatedCrash):
        harness.run()
    harness.plays = play
    assert harness.resume().status == "done"
    first, second, third, again = asked(harness, "implement")
    assert "context" not in first
    assert second["context"] == third["context"] == again["context"]
    assert len({each["idempotency_key"] for each in asked(harness, "implement")}) == 1
    context = second["context"]
    assert context["last_error"].startswith("TESTS_FAILED: ")
    assert context["tests"]["status"] == "fail"
    assert context["tests"]["output"].endswith(" E")
    assert len(context["tests"]["output"]) <= 4100
    assert "hunter2" not in str(context)


def test_h73_a_retry_as_new_work_gets_the_failure(harness: OrchestratorHarness) -> None:
    """A new round begins with the error, and the check, that ended the last one."""
    harness.plays = built({"status": "fail", "output": "E1"})
    assert harness.run().status == "failed"
    harness.plays = play
    assert harness.resume(retry=True).status == "done"
    last = asked(harness, "implement")[-1]
    assert last["inputs"]["round"] == 2
    assert last["context"]["tests"]["output"] == "E1"
    assert last["context"]["last_error"].startswith("TESTS_FAILED: ")


def test_h73_findings_reach_builder_and_reviewer(harness: OrchestratorHarness) -> None:
    """The builder finds them in its inputs, the reviewer gets its earlier findings."""
    harness.plays = complaining
    harness.run()
    assert asked(harness, "implement_changes")[0]["inputs"]["changes"]["comments"]
    assert asked(harness, "review")[1]["context"]["findings"] == ["name it better"]
    assert "findings" not in asked(harness, "review")[0]["context"]


def test_h73_an_allowed_failing_check_is_passed_to_the_builder(
    harness: OrchestratorHarness,
) -> None:
    """It was no reason to stop, and is one to look at when there is more to do."""
    failing = {"status": "fail", "output": "E2", "allowed_failures": ["old"]}

    def plays(command: Message, workspace: Path) -> Record:
        if command["action"] == "implement":
            return built(failing)(command, workspace)  # type: ignore[no-any-return]
        return complaining(command, workspace)

    harness.plays = plays
    harness.run()
    assert asked(harness, "implement_changes")[0]["context"]["tests"]["output"] == "E2"


def test_h73_the_context_is_bounded(harness: OrchestratorHarness) -> None:
    """Many files, long names, control characters: the command still fits into its line."""
    noise = "\x01" * 60_000

    def plays(command: Message, workspace: Path) -> Record:
        if command["action"] == "implement":
            for number in range(400):
                (workspace / f"{number:03}-{'n' * 200}.txt").write_text(f"{noise}\n")
            (workspace / "binary").write_bytes(b"\0" * 10)
            (workspace / "huge").write_bytes(b"x\n" * 100_000)
        return play(command, workspace)

    harness.plays = plays
    assert harness.run().status == "done"
    (review,) = asked(harness, "review")
    assert len(canonical_json(review["context"])) <= CONTEXT_BYTES_MAX
    assert len(protocol.encode(review)) <= LINE_BYTES_MAX
    assert review["context"]["changed_files"][-1] == "and 203 more"


def test_h73_a_command_without_room_is_sent_without_context(harness: OrchestratorHarness) -> None:
    """What belongs to the work goes first."""
    noise = "é" * 30_000
    harness.plays = built({"status": "pass"}, "\x01" * 9000)
    big = AgentTask(id="T-1", goal="x" * 120_000, inputs={"a": noise, "b": noise})
    assert harness.run(big).status == "done"
    (review,) = asked(harness, "review")
    assert "context" not in review
    assert len(protocol.encode(review)) <= LINE_BYTES_MAX


def test_kept_files_are_checked_and_pruned(harness: OrchestratorHarness) -> None:
    """A damaged archive shows no diff; the next run removes it, and leaves what is not ours."""
    (harness.workspace / "old.txt").write_text("one\n")
    harness.run()
    (kept,) = (harness.workspace / "state" / "base").glob("snap-*")
    snapshot_id = kept.stem
    place = harness.orchestrator().workspace
    kept.write_bytes(b"PK damaged")
    assert base_files.read_archive(place, snapshot_id, {"0" * 64}) == {}
    foreign = kept.with_name("notes.zip")
    foreign.write_text("mine")
    (harness.workspace / "new.txt").write_text("x")
    harness.run(FIRST)
    assert not kept.exists()
    assert foreign.read_text() == "mine"
