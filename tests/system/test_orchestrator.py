"""The orchestrator with real agents: their bad manners, their deaths, and what is left on disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onceward.orchestrator.models import RunResult
from onceward.orchestrator.tasks import load_task
from onceward.system import crash_points
from tests.support import scripted_workspace as world

WRITE = {"write": {"path": "src/T-1.txt", "content": "round {round}\n"}}
SECRET = "correct-horse-battery"
RUN = """
import sys
from pathlib import Path
from tests.support import scripted_workspace as world
from onceward.errors import RunHeld
from onceward.orchestrator.tasks import load_task
conductor = world.orchestrator(Path(sys.argv[1]))
if conductor.runs():
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        print(conductor.resume().status)
    except RunHeld as exc:
        print(exc.message)
else:
    print(conductor.run([load_task(Path(sys.argv[1]), "T-1")]).status)
"""


def process(workspace: Path, **env: str) -> subprocess.Popen[str]:
    """Start a process that begins the run, or waits for a line and resumes it."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-c", RUN, str(workspace)]
    return subprocess.Popen(command, env={**os.environ, **env}, text=True, **pipes)  # type: ignore[call-overload, no-any-return]


def killed_at(workspace: Path, spec: str) -> None:
    """Run in a process that dies at a crash point."""
    with process(workspace, ONCEWARD_CRASH=spec) as dying:
        _, reported = dying.communicate()
    assert dying.returncode == -signal.SIGKILL, reported


def run(workspace: Path) -> RunResult:
    return world.orchestrator(workspace).run([load_task(workspace, "T-1")])


def resume(workspace: Path) -> RunResult:
    return world.orchestrator(workspace).resume()


def verified(workspace: Path) -> bool:
    conductor = world.orchestrator(workspace)
    return conductor.verify(conductor.runs()[0].run_id).ok


def started(workspace: Path) -> dict[str, int]:
    """Return how often each command was begun, as agents counted it, by stage and round."""
    counted = world.counts(workspace)
    return {
        f"{each['stage']} {each['round']}": counted[each["command"]["idempotency_key"]].count(
            "started"
        )
        for each in world.records(workspace, "command")
    }


ROUNDS: dict[str, Any] = {
    "builder": {"implement": [WRITE], "implement_changes": [WRITE]},
    "reviewer": {
        "review": {
            "rounds": [
                [{"answer": {"status": "changes_requested", "comments": ["again"]}}],
                [{"answer": {"status": "changes_requested", "comments": ["again"]}}],
                [{"answer": {"status": "approved"}}],
            ]
        }
    },
}


@pytest.mark.parametrize("point", ["answer.after_record", "receipt.after_record"])
def test_h23_a_death_after_an_answer_leads_to_the_next_command(point: str, tmp_path: Path) -> None:
    """Killed between the builder's last word and the review: the review follows, nothing else."""
    workspace = world.small(tmp_path, builder={"implement": [WRITE]})
    killed_at(workspace, f"orchestrator.{point}:1:kill")
    assert [each["stage"] for each in world.records(workspace, "command")] == ["implement"]
    (summary,) = world.orchestrator(workspace).runs()
    assert summary.status == "running"
    assert resume(workspace).status == "done"
    assert started(workspace) == {"implement 1": 1, "review 1": 1, "update_spec 1": 1}
    assert verified(workspace)


def test_h24_h25_rounds_have_keys_of_their_own_that_a_resume_computes_again(tmp_path: Path) -> None:
    """A reviewer who repeats itself gets new work each time, in one life and in two."""
    whole = world.small(tmp_path / "whole", **ROUNDS)
    cut = world.small(tmp_path / "cut", **ROUNDS)
    assert run(whole).status == "done"
    killed_at(cut, "orchestrator.command.before_record:4:kill")
    assert resume(cut).status == "done"
    expected = ["implement 1", "review 1", "implement_changes 1", "review 2"]
    expected += ["implement_changes 2", "review 3", "update_spec 1"]
    keys = []
    for workspace in (whole, cut):
        assert started(workspace) == dict.fromkeys(expected, 1)
        assert (workspace / "src/T-1.txt").read_text() == "round 2\n"
        commands = [each["command"] for each in world.records(workspace, "command")]
        keys.append([each["idempotency_key"] for each in commands])
    assert keys[0] == keys[1]
    assert len(set(keys[0])) == len(keys[0])


def test_h26_an_error_that_passes_is_retried_and_one_that_stays_ends_the_run(
    tmp_path: Path,
) -> None:
    """The same key again while the agent says that it may help, else the run fails with it."""
    passing = {"code": "BUSY", "message": "try later", "retryable": True}
    staying = {"code": "NO_LUCK", "message": "not today", "retryable": False}
    workspace = world.small(
        tmp_path,
        builder={"implement": [{"error": passing, "once": True}, WRITE]},
        reviewer={"review": [{"error": staying}]},
    )
    result = run(workspace)
    assert (result.status, result.reason) == (
        *("failed", "review of T-1 failed: NO_LUCK: not today"),
    )
    assert started(workspace) == {"implement 1": 2, "review 1": 1}
    failures = world.records(workspace, "command.failed")
    assert [(each["step"], each["code"]) for each in failures] == [(1, "BUSY"), (2, "NO_LUCK")]


HOSTILE: dict[str, list[dict[str, Any]]] = {
    "dies": [{"crash": "kill", "once": True}],
    "ends": [{"crash": "exit:3", "once": True}],
    "freezes": [{"silence": True, "once": True}],
    "floods stdout": [{"flood": {"lines": 50_000, "bytes": 100}}],
    "floods stderr": [{"flood": {"lines": 50_000, "bytes": 100, "to": "stderr"}}],
    "floods logs": [{"flood": {"lines": 5_000, "bytes": 100, "to": "log"}}],
    "floods progress": [{"flood": {"lines": 5_000, "bytes": 100, "to": "progress"}}],
    "garbage": [{"garbage": "}{"}, {"garbage": ""}, {"garbage": "null"}, {"garbage": "[1]"}],
    "oversized": [{"oversized": 3_000_000}],
    "another's answer": [{"send": {"event": "builder.completed", "correlation_id": "corr-0"}}],
}


#: How many heartbeats a frozen agent may miss. A busy machine may be late for a few, so the first
#: number counts at which no other agent was silent for so long.
MISSED_MAX = (2, 25, 100)


@pytest.mark.parametrize("manners", HOSTILE)
def test_h27_whatever_an_agent_does_the_run_goes_on_and_its_ledger_is_whole(
    manners: str, tmp_path: Path
) -> None:
    """It is started again or ignored; what is recorded stays small and verifies."""
    builder = {"implement": [*HOSTILE[manners], WRITE]}
    hasty = [
        {"heartbeat_seconds": 0.2, "heartbeats_missed_max": number, "restarts_max": 50}
        for number in MISSED_MAX
    ]
    for number, limits in enumerate(hasty if manners == "freezes" else [{}]):
        workspace = world.small(tmp_path / str(number), limits, builder=builder)
        assert run(workspace).status == "done"
        if len(world.records(workspace, "agent.restarting")) <= 1:
            break
    assert verified(workspace)
    (ledger,) = (workspace / "events").iterdir()
    assert ledger.stat().st_size < 2_000_000
    restarts = [each["agent"] for each in world.records(workspace, "agent.restarting")]
    assert restarts == (["builder"] if manners in ("dies", "ends", "freezes") else [])
    noise = world.records(workspace, "agent.noise")
    noisy = ("floods stdout", "floods logs", "floods progress", "garbage", "oversized")
    assert bool(noise) == (manners in (*noisy, "another's answer"))


def test_h28_a_torn_record_does_not_prevent_a_resume(tmp_path: Path) -> None:
    """Killed in the middle of writing: the half is cut off, the run goes on, the rest verifies."""
    workspace = world.small(tmp_path, builder={"implement": [WRITE]})
    killed_at(workspace, "orchestrator.receipt.after_record:1:kill")
    (ledger,) = (workspace / "events").iterdir()
    with ledger.open("ab") as file:
        file.write(ledger.read_bytes().splitlines()[-1][:-1])
    assert resume(workspace).status == "done"
    assert verified(workspace)
    assert set(started(workspace).values()) == {1}


def test_h29_of_processes_that_resume_at_once_one_works(tmp_path: Path) -> None:
    """The others are shown its process id; nothing is done twice."""
    # A busy machine may hold two of them up until the first is done; then it takes its time.
    assert any(one_works(tmp_path / str(seconds), seconds) for seconds in (1, 5, 25))


def one_works(directory: Path, seconds: int) -> bool:
    """Resume in three processes; say whether they met, which makes one work and two refused."""
    slow = {"review": [{"delay": seconds}]}
    workspace = world.small(directory, builder={"implement": [WRITE]}, reviewer=slow)
    killed_at(workspace, "orchestrator.receipt.after_record:1:kill")
    three = [process(workspace) for _ in range(3)]
    for each in three:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in three:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    reported = {each.pid: each.communicate()[0].strip() for each in three}
    done = [pid for pid, said in reported.items() if said == "done"]
    for said in reported.values():
        held = any(f"is being worked on by process {pid} on " in said for pid in done)
        assert held or said == "done", reported
    assert set(started(workspace).values()) == {1}
    if len(done) > 1:
        return False
    assert len(world.records(workspace, "run.resumed")) == 1
    return True


@pytest.mark.parametrize("damage", ["changed", "deleted"])
def test_h30_a_lost_artifact_is_made_again_by_its_step_alone(damage: str, tmp_path: Path) -> None:
    """The agent has the answer in its cache and does not believe it: the file is not as it was."""
    workspace = world.small(tmp_path, builder={"implement": [WRITE]})
    crash_points.arm("orchestrator.task.after_complete:1:raise")
    try:
        with pytest.raises(crash_points.Crashed):
            run(workspace)
    finally:
        crash_points.arm(None)
    path = workspace / "src/T-1.txt"
    path.unlink() if damage == "deleted" else path.write_text("by hand")
    redone = world.orchestrator(workspace).resume(redo=damage == "changed")
    assert redone.status == "done"
    assert path.read_text() == "round 1\n"
    assert started(workspace) == {"implement 1": 2, "review 1": 1, "update_spec 1": 1}
    assert verified(workspace)


@pytest.mark.parametrize("path", ["../outside.txt", "/etc/hostname", "way/outside.txt", "way/new"])
def test_h31_an_artifact_outside_the_workspace_ends_the_run(path: str, tmp_path: Path) -> None:
    """Upwards, absolute, or through a link, there or not: refused, and named in the reason."""
    (tmp_path / "outside.txt").write_text("1")
    artifact = {"path": path, "sha256": "0" * 64, "size": 1}
    answer = {"event": "builder.completed", "payload": {"tests": {"status": "pass"}}}
    builder = {"implement": [{"send": {**answer, "artifacts": [artifact]}}]}
    workspace = world.small(tmp_path, builder=builder)
    (workspace / "way").symlink_to(tmp_path)
    result = run(workspace)
    assert result.status == "failed"
    assert "BAD_ARTIFACT" in str(result.reason)
    assert path in str(result.reason)
    assert not (workspace / "receipts").exists()


def test_h32_secrets_reach_none_of_our_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In progress, logs, comments, payloads and errors: redacted wherever it is kept."""
    monkeypatch.setenv("MY_TOKEN", SECRET)
    said = f"it is {SECRET}"
    failure = {"code": "BUSY", "message": said, "retryable": True}
    workspace = world.small(
        tmp_path,
        builder={
            "implement": [
                *({"progress": said}, {"log": said}, {"garbage": said}),
                *({"error": failure, "once": True}, WRITE),
                {"answer": {"payload": {"note": said, "deep": [{"more": said}]}}},
            ],
            "implement_changes": [WRITE],
        },
        reviewer={
            "review": {
                "rounds": [[{"answer": {"status": "changes_requested", "comments": [said]}}], []]
            }
        },
    )
    assert run(workspace).status == "done"
    assert set(started(workspace).values()) <= {1, 2}
    ours = ("events", "logs", "receipts", "snapshots", "state", "transcripts")
    files = [path for name in ours for path in (workspace / name).rglob("*") if path.is_file()]
    assert {path.relative_to(workspace).parts[0] for path in files} == set(ours)
    reported = [str(path) for path in files if SECRET.encode() in path.read_bytes()]
    assert reported == []
    assert verified(workspace)
