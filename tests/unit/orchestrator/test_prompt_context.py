"""Prompt context: what a command tells beside its inputs, recorded once and outside of its key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onceward.agents import messages
from onceward.agents.lines import LINE_BYTES_MAX
from onceward.agents.messages import Message
from onceward.journal import Record
from onceward.keys import canonical_json, idempotency_key
from onceward.orchestrator import base_files
from onceward.orchestrator.models import Task
from onceward.orchestrator.prompt_context import CONTEXT_BYTES_MAX
from tests.unit.orchestrator.theatre import FIRST, Died, Theatre, complaining, play


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


def asked(theatre: Theatre, action: str) -> list[Message]:
    return [each for each in theatre.asked if each["action"] == action]


def test_h73_a_reviewer_is_told_changes_diff_and_tests(theatre: Theatre) -> None:
    """What was added, changed and removed since the task was pinned, and how it was tested."""
    (theatre.workspace / "old.txt").write_text("one\ntwo\n")
    (theatre.workspace / "gone.txt").write_text("x\n")
    (theatre.workspace / "same.txt").write_text("y\n")
    tests = {"status": "fail", "exit_code": 1, "output": "1 failed", "allowed_failures": ["a"]}

    def plays(command: Message, workspace: Path) -> Record:
        if command["action"] == "implement":
            (workspace / "old.txt").write_text("one\nthree\n")
            (workspace / "gone.txt").unlink()
        return built(tests)(command, workspace)  # type: ignore[no-any-return]

    theatre.plays = plays
    assert theatre.run().status == "done"
    for action in ("review", "update_spec"):
        (command,) = asked(theatre, action)
        context = command["context"]
        assert context["tests"] == tests
        names = ["removed gone.txt", "changed old.txt", "added src/T-1.txt"]
        assert context["changed_files"][:3] == names
        assert "-two\n+three\n" in context["diff"]
        assert "+hello\n" in context["diff"]
        assert "-x\n" in context["diff"]
        assert "same" not in context["diff"]
    assert "context" not in asked(theatre, "implement")[0]


def test_h73_the_context_is_no_part_of_the_key(theatre: Theatre) -> None:
    """An agent that computes the key of what it was sent finds the key that it was sent."""
    theatre.plays = complaining
    theatre.run()
    for each in theatre.asked:
        key = idempotency_key(
            action=each["action"],
            task_id=each["task_id"],
            snapshot_id=each["version"]["snapshot_id"],
            inputs=each["inputs"],
            expected_outputs=each["expected_outputs"],
        )
        assert key == each["idempotency_key"]
        assert "diff" not in each["inputs"]
    assert "context" in asked(theatre, "review")[0]


def test_h73_a_command_that_is_sent_again_tells_the_same(theatre: Theatre) -> None:
    """What was recorded with it counts, though files have changed meanwhile."""
    theatre.die_at("review")
    with pytest.raises(Died):
        theatre.run()
    (recorded,) = [e for e in theatre.records("command") if e["stage"] == "review"]
    (theatre.workspace / "state" / "base").rename(theatre.workspace / "state" / "gone")
    theatre.resume()
    first, again = asked(theatre, "review")
    assert first["context"] == again["context"] == recorded["command"]["context"]
    assert first["idempotency_key"] == again["idempotency_key"]


def test_h73_a_failed_attempt_is_told_in_the_next(theatre: Theatre) -> None:
    """The error and the output of the check, under the same key; a resume tells it as well."""
    failing = {"status": "fail", "exit_code": 2, "output": "x" * 9000 + " token=hunter2hunter2 E"}
    theatre.plays = built(failing)
    theatre.die_at("implement", nth=3)
    with pytest.raises(Died):
        theatre.run()
    theatre.plays = play
    assert theatre.resume().status == "done"
    first, second, third, again = asked(theatre, "implement")
    assert "context" not in first
    assert second["context"] == third["context"] == again["context"]
    assert len({each["idempotency_key"] for each in asked(theatre, "implement")}) == 1
    told = second["context"]
    assert told["last_error"].startswith("TESTS_FAILED: ")
    assert told["tests"]["status"] == "fail"
    assert told["tests"]["output"].endswith(" E")
    assert len(told["tests"]["output"]) <= 4100
    assert "hunter2" not in str(told)


def test_h73_a_retry_as_new_work_is_told_what_failed(theatre: Theatre) -> None:
    """A new round begins with the error, and the check, that ended the last one."""
    theatre.plays = built({"status": "fail", "output": "E1"})
    assert theatre.run().status == "failed"
    theatre.plays = play
    assert theatre.resume(retry=True).status == "done"
    last = asked(theatre, "implement")[-1]
    assert last["inputs"]["round"] == 2
    assert last["context"]["tests"]["output"] == "E1"
    assert last["context"]["last_error"].startswith("TESTS_FAILED: ")


def test_h73_findings_reach_builder_and_reviewer(theatre: Theatre) -> None:
    """The builder finds them in its inputs, the reviewer is told what it had found."""
    theatre.plays = complaining
    theatre.run()
    assert asked(theatre, "implement_changes")[0]["inputs"]["changes"]["comments"]
    assert asked(theatre, "review")[1]["context"]["findings"] == ["name it better"]
    assert "findings" not in asked(theatre, "review")[0]["context"]


def test_h73_a_failing_check_that_is_allowed_is_told_to_the_builder(theatre: Theatre) -> None:
    """It was no reason to stop, and is one to look at when there is more to do."""
    failing = {"status": "fail", "output": "E2", "allowed_failures": ["old"]}

    def plays(command: Message, workspace: Path) -> Record:
        if command["action"] == "implement":
            return built(failing)(command, workspace)  # type: ignore[no-any-return]
        return complaining(command, workspace)

    theatre.plays = plays
    theatre.run()
    assert asked(theatre, "implement_changes")[0]["context"]["tests"]["output"] == "E2"


def test_h73_what_is_told_is_bounded(theatre: Theatre) -> None:
    """Many files, long names, control characters: the command still fits into its line."""
    noise = "\x01" * 60_000

    def plays(command: Message, workspace: Path) -> Record:
        if command["action"] == "implement":
            for number in range(400):
                (workspace / f"{number:03}-{'n' * 200}.txt").write_text(f"{noise}\n")
            (workspace / "binary").write_bytes(b"\0" * 10)
            (workspace / "huge").write_bytes(b"x\n" * 100_000)
        return play(command, workspace)

    theatre.plays = plays
    assert theatre.run().status == "done"
    (review,) = asked(theatre, "review")
    assert len(canonical_json(review["context"])) <= CONTEXT_BYTES_MAX
    assert len(messages.encode(review)) <= LINE_BYTES_MAX
    assert review["context"]["changed_files"][-1] == "and 203 more"


def test_h73_a_command_without_room_is_sent_without_context(theatre: Theatre) -> None:
    """What belongs to the work goes first."""
    noise = "é" * 30_000
    theatre.plays = built({"status": "pass"}, "\x01" * 9000)
    big = Task(id="T-1", goal="x" * 120_000, inputs={"a": noise, "b": noise})
    assert theatre.run(big).status == "done"
    (review,) = asked(theatre, "review")
    assert "context" not in review
    assert len(messages.encode(review)) <= LINE_BYTES_MAX


def test_kept_files_are_checked_and_pruned(theatre: Theatre) -> None:
    """A damaged archive shows no diff; the next run removes it, and leaves what is not ours."""
    (theatre.workspace / "old.txt").write_text("one\n")
    theatre.run()
    (kept,) = (theatre.workspace / "state" / "base").iterdir()
    snapshot_id = kept.stem
    place = theatre.orchestrator().workspace
    kept.write_bytes(b"PK damaged")
    assert base_files.read(place, snapshot_id, {"0" * 64}) == {}
    foreign = kept.with_name("notes.zip")
    foreign.write_text("mine")
    (theatre.workspace / "new.txt").write_text("x")
    theatre.run(FIRST)
    assert not kept.exists()
    assert foreign.read_text() == "mine"
