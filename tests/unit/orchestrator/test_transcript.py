"""Transcripts: what people read of each record, and the line that shows how far a run is."""

from datetime import UTC, datetime
from typing import Any

import pytest

from onceward.journal import Record
from onceward.orchestrator.progress import Progress
from onceward.orchestrator.transcript import (
    describe_answer,
    duration,
    elapsed,
    printable,
    transcript_line,
)

KEY = "ik:b8fcdfb6c6cc98ee3581a3884827c27501af9087d1f7d630559bffb7179cf924"


def record(kind: str, second: float = 0, **fields: Any) -> Record:
    return {"seq": 1, "at": f"2026-03-01T09:30:{second:06.3f}Z", "kind": kind, **fields}


def command(step: int = 1, stage: str = "implement", number: int = 1, second: float = 0) -> Record:
    agent = {"review": "reviewer", "update_spec": "spec_maintainer"}.get(stage, "builder")
    message = {
        "task_id": "T-1",
        "to": {"agent_type": agent},
        "idempotency_key": KEY,
        "correlation_id": f"c{step}",
    }
    return record("command", second, command=message, stage=stage, round=number, step=step)


def event(name: str, status: str | None = None, step: int = 1, **fields: Any) -> Record:
    agent = "reviewer" if name.startswith("review") else "builder"
    found = {"task_id": "T-1", "from": {"agent_type": agent}, "event": name, "payload": {}}
    return {**found, "correlation_id": f"c{step}", "status": status, **fields}


def started(*tasks: str) -> Record:
    return record("run.started", run_id="run-1", tasks=[{"id": each} for each in tasks])


def test_the_transcript_of_a_run() -> None:
    """Time, task, stage, round, agent, what happened and how long it took."""
    completed = event("builder.completed", payload={"tests": {"status": "pass"}})
    entries = [
        started("T-1"),
        record("task.started", task_id="T-1", snapshot_id="snap-1"),
        command(),
        record("command.sent", step=1),
        record("event", 1, step=1, event=event("builder.progress", payload={"text": "writing"})),
        record("event", 2, step=1, event=completed),
        record("command.answered", 2.5, step=1, event=completed),
        record("receipt", 2.5, step=1),
        command(2, "review", 2, second=3),
        record("command.sent", 3, step=2),
        record("command.answered", 5, step=2, event=event("review.completed", "approved", 2)),
        record("task.completed", 6, task_id="T-1"),
        record("run.completed", 7),
    ]
    progress = Progress()
    lines = []
    for each in entries:
        progress.apply(each)
        lines.append(transcript_line(each, progress))
    assert [line for line in lines if line is not None] == [
        "09:30:00            run-1 begins: T-1",
        "09:30:00  T-1       begins at snap-1",
        "09:30:00  T-1       implement · builder is asked (ik:b8fcdfb6c6cc)",
        "09:30:01  T-1       implement · builder is working: writing",
        "09:30:02  T-1       implement · builder is done, tests pass (2.5 s)",
        "09:30:03  T-1       review round 2 · reviewer is asked (ik:b8fcdfb6c6cc)",
        "09:30:05  T-1       review round 2 · reviewer approves (2.0 s)",
        "09:30:06  T-1       done (6.0 s)",
        "09:30:07            run done: 1 task (7.0 s)",
    ]


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (record("run.failed", reason="no"), "run failed: no"),
        (record("run.stopped", reason="Ctrl-C"), "run stopped: Ctrl-C"),
        (record("run.resumed", pending=3), "run resumed at step 3"),
        (record("run.resumed", pending=None), "run resumed, no command was pending"),
        (record("run.resumed", pending=3, retry=True), "run resumed to retry the failed step"),
        (record("run.resumed", pending=3, damaged=2), "; 2 damaged lines of the ledger"),
        (
            record("command.failed", step=3, code="X", message="m", retryable=True, attempt=2),
            "step 3 · attempt 2 failed: X: m",
        ),
        (
            record("command.failed", step=3, code="X", message="m", retryable=False, attempt=1),
            "attempt 1 failed: X: m (not retryable)",
        ),
        (
            record("redo", step=3, path="a", problem="is gone"),
            "is redone, because of a: is gone",
        ),
        (record("redo", step=3, path="a", problem="a is gone"), "because of a is gone"),
        (record("drift.accepted", to="b") | {"from": "a"}, "continues from b instead of a"),
        (
            record("agent.exited", agent="builder", signal=9, code=None, reason="deadline"),
            "builder ended by signal 9: deadline",
        ),
        (record("agent.exited", agent="builder", code=3), "builder ended with code 3"),
        (record("agent.exited", pid=7, reason="old"), "process 7 ended: old"),
        (
            record("agent.restarting", agent="builder", restart=2, delay_s=1.25, reason="died"),
            "builder is restarted in 1.2 s, restart 2: died",
        ),
        (
            record("agent.noise", agent="builder", problem="not JSON", count=3),
            "builder sent ignored output: not JSON (3 times)",
        ),
        (record("agent.log", agent="b", level="warn", message="hm"), "b warn: hm"),
        (
            record("command.answered", step=9, event=event("review.completed", "approved")),
            "T-1       reviewer approves",
        ),
    ],
)
def test_each_kind_has_its_sentence(entry: Record, says: str) -> None:
    """A record that stands alone needs no records before it."""
    line = transcript_line(entry)
    assert line is not None
    assert says in line


@pytest.mark.parametrize(
    "entry",
    [
        record("receipt", step=1),
        record("command.sent", step=1),
        record("agent.started", agent="builder", pid=1),
        record("agent.exited", agent="builder", code=0),
        record("agent.log", agent="b", level="info", message="hm"),
        record("event", step=1, event=event("review.completed", "approved")),
        record("of.the.future"),
    ],
)
def test_some_records_have_no_line(entry: Record) -> None:
    """Bookkeeping, and what another record already says, has no line."""
    assert transcript_line(entry) is None


@pytest.mark.parametrize(
    ("said", "says"),
    [
        (
            event("builder.completed", payload={"tests": {"status": "fail"}}, artifacts=[{}, {}]),
            "is done, tests fail, 2 files",
        ),
        (
            event(
                "builder.completed",
                payload={"tests": {"status": "fail", "allowed_failures": ["a", "b"]}},
            ),
            "is done, tests fail as allowed: a, b",
        ),
        (event("builder.completed", payload={"tests": "odd"}), "is done"),
        (
            event("review.completed", "changes_requested", payload={"comments": ["x", "y"]}),
            "asks for changes: x; y",
        ),
        (
            event(
                "review.completed",
                "changes_requested",
                payload={"comments": [{"path": "a.py", "message": "x"}]},
            ),
            "asks for changes: a.py: x",
        ),
        (event("spec.changes_requested", payload={"summary": "z"}), "asks for changes: z"),
        (event("spec.updated", artifacts=[{}]), "updated the spec"),
        (event("spec.no_changes_needed"), "needs no change of the spec"),
        (event("artifact.produced", artifacts=[{"path": "a.py"}]), "wrote a.py"),
        (event("error", payload={"code": "X", "message": "m"}), "failed: X: m"),
        (event("of.the.future"), "of.the.future"),
    ],
)
def test_answers_in_words(said: Record, says: str) -> None:
    """Each event says who did what."""
    assert describe_answer(said) == says


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\x1b[31mred\x1b[0m\x07", "[31mred [0m"),
        ("two\nlines\tof  text\r", "two lines of text"),
        ("a\u202eb\u2066c", "a b c"),
        ("\ud800", ""),
        (3, "3"),
    ],
)
def test_texts_of_agents_can_only_be_read(text: object, seen: str) -> None:
    """Nothing that an agent says moves the cursor, rings, or turns the direction of writing."""
    assert printable(text) == seen


def test_long_texts_are_cut() -> None:
    """A line stays a line, however much an agent has to say."""
    assert printable("x" * 1_000_000) == "x" * 199 + "…"
    loud = event("builder.progress", payload={"text": "\n" * 500 + "y" * 10**6})
    line = transcript_line(record("event", step=1, event=loud))
    assert line is not None
    assert len(line) < 300
    assert "\n" not in line


def test_progress_names_task_stage_round_and_time() -> None:
    """The live line says which task of how many, what is done to it, and for how long."""
    progress = Progress()
    now = datetime(2026, 3, 1, 9, 30, 42, tzinfo=UTC)
    assert progress.status_line(now) == ""
    progress.apply(started("T-1", "T-2", "T-3"))
    assert progress.status_line(now) == "task 1/3 · 0:42"
    progress.apply(command(1, "review", 2))
    assert progress.status_line(now) == "task 1/3 · review round 2 · 0:42"
    assert progress.status_line(datetime(2026, 3, 1, 11, 31, 5, tzinfo=UTC)).endswith("2:01:05")
    progress.apply(record("command.sent", 40, step=1))
    assert progress.status_line(now) == "task 1/3 · review round 2 · 0:02"
    progress.apply(record("receipt", 42, step=1))
    progress.apply(record("task.completed", 42, task_id="T-1"))
    assert progress.status_line(now) == "task 2/3 · 0:00"
    for name in ("T-2", "T-3"):
        progress.apply(record("task.completed", 42, task_id=name))
    assert progress.status_line(now).startswith("task 3/3")


def test_an_agent_is_known_by_its_process() -> None:
    """An agent that an earlier process left running is named, not numbered."""
    progress = Progress.of([record("agent.started", agent="builder", pid=7)])
    line = transcript_line(record("agent.exited", pid=7, reason="old"), progress)
    assert line is not None
    assert line.endswith("builder ended: old")


def test_a_command_of_an_earlier_life_took_as_long_as_this_one_waited() -> None:
    """The night between a crash and its resume is not counted."""
    ended = record("command.answered", 40, step=1, event=event("builder.completed"))
    progress = Progress.of([command(), record("command.sent", 39, step=1), ended])
    line = transcript_line(ended, progress)
    assert line is not None
    assert line.endswith("(1.0 s)")


def test_a_clock_set_back_gives_zero_durations() -> None:
    """A clock that was set back gives no negative durations, and no time at all gives none."""
    assert elapsed("2026-03-01T09:30:05.000Z", "2026-03-01T09:30:00.000Z") == "0.0 s"
    assert elapsed(None, "2026-03-01T09:30:00.000Z") is None
    assert elapsed("", "2026-03-01T09:30:00.000Z") is None
    assert elapsed("", "") is None
    progress = Progress.of([started("T-1")])
    assert progress.status_line(datetime(2020, 1, 1, tzinfo=UTC)) == "task 1/1 · 0:00"


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.04, "0.0 s"), (59.9, "59.9 s"), (61, "1 min 1 s"), (7300, "2 h 1 min")]
)
def test_durations_are_short(seconds: float, said: str) -> None:
    """As precise as people want it."""
    assert duration(seconds) == said
