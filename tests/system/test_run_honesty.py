"""Run honesty: what real programs did not do as agents is never reported as done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXEC = [sys.executable, "-m", "onceward", "agent", "exec"]
APPROVES = "cat > /dev/null"
QUESTION = "Which database should I use?"
#: Keeps each prompt of an agent in a file of its own, and counts them in `$N`.
KEEPS = """
mkdir -p state/prompts; N=$(ls state/prompts | grep -c "^$ONCEWARD_ACTION" || true)
cat > "state/prompts/$ONCEWARD_ACTION-$N"
"""
END_SECONDS_MAX = 120


class Place:
    """A workspace with a builder, a reviewer and a spec maintainer that are shell scripts."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.agents: dict[str, list[str]] = {}
        self.set("reviewer", APPROVES, "--verdict", "exit")
        self.set("spec_maintainer", APPROVES, "--verdict", "exit")
        task = {"id": "T-1", "goal": "write out.txt"}
        (directory / "tasks").mkdir()
        (directory / "tasks" / "T-1.json").write_text(json.dumps(task))

    def set(self, agent: str, script: str, *options: str) -> None:
        self.agents[agent] = [*EXEC, "--type", agent, *options, "--", "/bin/sh", "-ec", script]

    def onceward(self, *words: str, crash: str = "") -> subprocess.CompletedProcess[str]:
        agents = {name: {"command": command} for name, command in self.agents.items()}
        config = {"schemaVersion": 1, "agents": agents}
        (self.directory / "onceward.json").write_text(json.dumps(config))
        return subprocess.run(
            [sys.executable, "-m", "onceward", *words],
            cwd=self.directory,
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200", "MY_TOKEN": "hunter2hunter2"}
            | ({"ONCEWARD_CRASH": crash} if crash else {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=END_SECONDS_MAX,
        )

    def receipt(self, step: int) -> dict[str, Any]:
        (path,) = (self.directory / "receipts" / "T-1").glob(f"*-step-{step}.json")
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def transcript(self) -> str:
        (path,) = (self.directory / "transcripts").iterdir()
        return path.read_text()

    def prompt(self, name: str) -> str:
        return (self.directory / "state" / "prompts" / name).read_text()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_h73_an_unchecked_build_is_reported_as_unchecked_everywhere(place: Place) -> None:
    """In the result, the receipt, the transcript, on the command line and for the console."""
    place.set("builder", "cat > /dev/null; echo hello > out.txt")
    ran = place.onceward("run", "--task", "T-1", "--json")
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout.splitlines()[-1])
    assert (result["status"], result["unchecked"]) == ("done", ["T-1"])
    assert place.receipt(1)["payload"]["tests"] == {"status": "unchecked"}
    transcript = place.transcript()
    assert "builder is done, unchecked, 1 file" in transcript
    assert "run done: 1 task, 1 unchecked" in transcript
    shown = place.onceward("runs", "show")
    assert "builder.completed unchecked" in shown.stdout
    assert "T-1: no check has passed" in shown.stdout
    assert "done, unchecked" in place.onceward("runs", "list").stdout
    view = json.loads(place.onceward("runs", "show", "--json").stdout)
    assert view["commands"][0]["status"] == "unchecked"
    assert view["summary"]["unchecked"] == ["T-1"]
    assert "pass" not in f"{transcript}{shown.stdout}".replace("no check has passed", "")


def test_h73_a_checked_build_is_reported_as_passed(place: Place) -> None:
    """The other words mean something only if there are builds that do without them."""
    place.set("builder", "cat > /dev/null; echo hello > out.txt", "--check", "grep hello out.txt")
    ran = place.onceward("run", "--task", "T-1")
    assert ran.returncode == 0, ran.stderr
    assert "builder is done, tests pass, 1 file" in ran.stdout
    assert "unchecked" not in ran.stdout + place.onceward("runs", "show").stdout


def test_h73_a_program_that_changes_nothing_has_not_passed(place: Place) -> None:
    """Though its check passes, as it did before."""
    place.set("builder", "cat > /dev/null; echo all is well", "--check", "true")
    ran = place.onceward("run", "--task", "T-1")
    assert ran.returncode == 0, ran.stderr
    assert "builder is done, but changed nothing" in ran.stdout
    assert "run done: 1 task, 1 unchecked" in ran.stdout
    assert "tests pass" not in ran.stdout
    assert place.receipt(1)["payload"]["tests"]["status"] == "unchanged"


def test_h73_a_question_fails_the_run_and_is_shown(place: Place) -> None:
    """At once: no answer comes while the program is tried again."""
    place.set("builder", f"cat > /dev/null; echo '{QUESTION}'", "--check", "true")
    ran = place.onceward("run", "--task", "T-1")
    assert ran.returncode == 1
    assert f"QUESTION_ASKED: the program changed no file and asks: {QUESTION}" in ran.stdout
    assert QUESTION in ran.stderr
    assert QUESTION in place.onceward("runs", "show").stdout
    assert "attempt 2" not in place.transcript()
    assert not (place.directory / "receipts").exists()


def test_h73_the_next_prompt_includes_the_output_of_the_check(place: Place) -> None:
    """The builder learns why it failed, without secrets, under the same key."""
    place.set(
        "builder",
        f"{KEEPS}echo $N > out.txt",
        "--check",
        "grep -q 1 out.txt || { echo E: $MY_TOKEN there is no 1 in out.txt; exit 3; }",
    )
    ran = place.onceward("run", "--task", "T-1")
    assert ran.returncode == 0, ran.stderr
    assert "E: [redacted] there is no 1 in out.txt" in ran.stdout
    assert "failed" not in place.prompt("implement-0")
    prompt = place.prompt("implement-1")
    assert "The last attempt failed: TESTS_FAILED: " in prompt
    assert "Result of the last check: fail (exit code 3)\n" in prompt
    assert "E: [redacted] there is no 1 in out.txt" in prompt
    (events,) = (place.directory / "events").iterdir()
    assert b"hunter2" not in events.read_bytes()
    kinds = [json.loads(line) for line in events.read_text().splitlines()]
    assert [e["stage"] for e in kinds if e["kind"] == "command"][:2] == ["implement", "review"]


def test_h73_the_next_prompt_includes_the_last_error(place: Place) -> None:
    """Whatever ended the attempt before."""
    script = f"{KEEPS}[ $N -gt 0 ] || {{ echo no quota left; exit 75; }}; echo $N > out.txt"
    place.set("builder", script)
    ran = place.onceward("run", "--task", "T-1")
    assert ran.returncode == 0, ran.stderr
    prompt = place.prompt("implement-1")
    assert "The last attempt failed: PROGRAM_INTERRUPTED: " in prompt
    assert "no quota left" in prompt


def test_h73_prompts_carry_findings_changes_and_tests(place: Place) -> None:
    """The reviewer sees what it judges; the builder gets the findings."""
    (place.directory / "out.txt").write_text("first\nold\n")
    builder = f"{KEEPS}echo first > out.txt; echo try $ONCEWARD_ROUND >> out.txt; echo >> b.txt"
    place.set("builder", builder, "--check", "echo 7 passed")
    reviewer = f"{KEEPS}[ $N -gt 0 ] || {{ echo the second line is wrong; exit 1; }}"
    place.set("reviewer", reviewer, "--verdict", "exit")
    ran = place.onceward("run", "--task", "T-1")
    assert ran.returncode == 0, ran.stderr
    prompt = place.prompt("review-0")
    assert "Result of the last check: pass (exit code 0)\n7 passed" in prompt
    assert "- changed out.txt" in prompt
    assert "- added b.txt" in prompt
    assert " first\n-old\n+try 1\n" in prompt
    assert "- the second line is wrong" in place.prompt("implement_changes-0")
    again = place.prompt("review-1")
    assert "Your findings in the last review:\n- the second line is wrong" in again


def test_h71_a_redo_of_a_wrapped_build_is_not_taken_for_later_work(place: Place) -> None:
    """It names its files, also those that were left, not the changelog written after them."""
    (place.directory / "old.txt").write_text("old")
    place.set("builder", "cat > /dev/null; echo built | tee a.txt > b.txt; rm -f old.txt")
    changelog = "cat > /dev/null; echo done >> CHANGELOG.md"
    place.set("spec_maintainer", changelog, "--verdict", "exit")
    killed = place.onceward("run", "--task", "T-1", crash="orchestrator.run.before_complete:1:kill")
    assert killed.returncode == -signal.SIGKILL
    (place.directory / "a.txt").unlink()
    resumed = place.onceward("resume")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert (place.directory / "a.txt").read_text() == "built\n"
    assert (place.directory / "CHANGELOG.md").read_text() == "done\n"
    stages = [
        json.loads(line)["stage"]
        for line in next((place.directory / "events").iterdir()).read_text().splitlines()
        if json.loads(line)["kind"] == "command"
    ]
    assert stages == ["implement", "review", "update_spec"]
