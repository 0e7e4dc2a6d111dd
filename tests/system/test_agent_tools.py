"""The agents that come along, as processes at the ends of pipes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from onceward.agents import artifacts
from tests.support.agent_processes import (
    Driven,
    command,
    driven,
    is_running,
    scripted,
    wrapped,
)
from tests.support.waiting import until

EXAMPLE = Path(__file__).parents[2] / "examples" / "fix_the_test"


# --- exec: prompts, trees, tests ------------------------------------------------------------------


def test_a_program_becomes_a_builder(tmp_path: Path) -> None:
    """The prompt goes in; new, changed and deleted files, and progress, come out."""
    for name in ("changed.txt", "same.txt", "gone.txt"):
        (tmp_path / name).write_text("old")
    program = """
import os, sys, pathlib
pathlib.Path("prompt.txt").write_text(sys.stdin.read())
pathlib.Path("changed.txt").write_text("new")
pathlib.Path("gone.txt").unlink()
names = ("TASK", "ACTION", "KEY", "ROUND")
print(*(os.environ["ONCEWARD_" + name] for name in names))
print("\\x1b[31mred\\x1b[0m", file=sys.stderr)
"""
    asked = command(inputs={"goal": "make it new", "round": 3, "previous": "x"}, number=7)
    with wrapped(tmp_path, program) as agent:
        answer = agent.ask(asked)
        assert (answer["event"], answer["correlation_id"]) == ("builder.completed", "corr-7")
        assert answer["payload"] == {
            "tests": {"status": "unchecked"},
            "deleted": ["gone.txt"],
            "observed": True,
        }
        assert [each["path"] for each in answer["artifacts"]] == ["changed.txt", "prompt.txt"]
        assert all(artifacts.check(tmp_path, each) is None for each in answer["artifacts"])
        assert set(agent.said()) == {f"T-0001 implement {asked['idempotency_key']} 3", "red"}
        assert agent.end() == 0
    assert "Task T-0001 (round 3): make it new" in (tmp_path / "prompt.txt").read_text()
    assert "red" in (tmp_path / "state" / "stderr.log").read_text()


def test_the_prompt_may_be_the_last_argument(tmp_path: Path) -> None:
    """Then nothing can be read on standard input, least of all what the orchestrator sends."""
    program = "import sys; print(repr(sys.argv[1:]), repr(sys.stdin.read()))"
    options = ("--argument", "--prompt", "{task_id}: {goal} {x}")
    with wrapped(tmp_path, program, *options) as agent:
        agent.ask(command())
        assert agent.said() == ["['T-0001: do it {x}'] ''"]


def test_an_answer_is_given_again_without_the_program(tmp_path: Path) -> None:
    """Also by the next process; but not when a file that it names is another one by now."""
    program = "open('state/runs.txt', 'a').write('x'); open('out.txt', 'w').write('done')"
    runs = tmp_path / "state" / "runs.txt"
    with wrapped(tmp_path, program) as agent:
        first = agent.ask(command(number=1))
        again = agent.ask(command(number=2))
    with wrapped(tmp_path, program) as agent:
        later = agent.ask(command(number=3))
        assert runs.read_text() == "x"
        for each in (again, later):
            assert each["payload"] == first["payload"]
            assert each["artifacts"] == first["artifacts"]
        assert again["correlation_id"] == "corr-2"
        (tmp_path / "out.txt").write_text("else")
        assert agent.ask(command(number=4))["artifacts"] == first["artifacts"]
        assert runs.read_text() == "xx"


SLEEPER = """
import os, subprocess, sys, time
child = subprocess.Popen(["sleep", "100"])
with open("state/pids.new", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
os.rename("state/pids.new", "state/pids.txt")
time.sleep(100)
"""


def pids(workspace: Path) -> list[int]:
    path = workspace / "state" / "pids.txt"
    until(path.exists)
    return [int(each) for each in path.read_text().split()]


@pytest.mark.parametrize("has_option", [True, False])
def test_a_program_dies_with_its_time(tmp_path: Path, has_option: bool) -> None:
    """And all that it started; the answer comes before the deadline."""

    def is_started(times: int) -> bool:
        place = tmp_path / f"times-{times}"
        place.mkdir()
        options = ("--timeout", str(1.2 * times)) if has_option else ()
        with wrapped(place, SLEEPER, *options) as agent:
            agent.lines.get(timeout=60)  # Its own start does not count.
            answer = agent.ask(command(seconds=600 if has_option else 1.5 * times))
            if not (place / "state" / "pids.txt").exists():
                return False
            payload = answer["payload"]
            assert (payload["code"], payload["retryable"]) == ("TIMED_OUT", True)
            until(lambda: not any(map(is_running, pids(place))))
        return True

    # A busy machine may need all of it to start the program, and then gets more.
    assert any(map(is_started, (1, 4, 16)))


@pytest.mark.parametrize("ends", [signal.SIGKILL, signal.SIGTERM])
def test_a_program_does_not_outlive_its_agent(tmp_path: Path, ends: signal.Signals) -> None:
    """Not even when the agent alone is killed; the next agent starts the program again."""
    with wrapped(tmp_path, SLEEPER) as agent:
        agent.send(command())
        started = pids(tmp_path)
        assert all(map(is_running, started))
        agent.process.send_signal(ends)
        until(lambda: not any(map(is_running, started)))


def test_what_a_killed_attempt_changed_is_part_of_the_answer(tmp_path: Path) -> None:
    """The tree before a command is that before its first attempt."""
    program = """
import os, pathlib, time
first = not pathlib.Path("one.txt").exists()
pathlib.Path("one.txt" if first else "two.txt").write_text("x")
time.sleep(100 if first else 0)
"""
    with wrapped(tmp_path, program) as agent:
        agent.send(command())
        until((tmp_path / "one.txt").exists)
        os.killpg(agent.process.pid, signal.SIGKILL)
    with wrapped(tmp_path, program) as agent:
        answer = agent.ask(command())
        assert [each["path"] for each in answer["artifacts"]] == ["one.txt", "two.txt"]


def test_secrets_and_floods_stay_out(tmp_path: Path) -> None:
    """A program may print what it likes: few events, short ones, and no secret in any file."""
    program = """
import os, sys
secret = os.environ["MY_TOKEN"]
for number in range(300): print(number, secret, "x" * 2000)
print(secret, file=sys.stderr)
sys.exit(int(os.environ.get("CODE", "0")))
"""
    for code in ("0", "3"):
        variables = {"MY_TOKEN": "hunter2hunter2", "CODE": code}
        with wrapped(tmp_path, program, "--check", "echo $MY_TOKEN", **variables) as agent:
            answer = agent.ask(command(inputs={"goal": code}))
            dumped = json.dumps([answer, *agent.heard])
            assert "hunter2" not in dumped
            assert "[redacted]" in dumped
            assert 20 <= len(agent.heard) <= 60
            assert all(len(each) < 1000 for each in agent.said())
    for path in (tmp_path / "state").rglob("*"):
        assert path.is_dir() or b"hunter2" not in path.read_bytes(), path


# --- the example ----------------------------------------------------------------------------------


def test_each_agent_of_the_example_works_alone(tmp_path: Path) -> None:
    """The fixer repairs the module, the reviewer notices, the changelog is kept."""
    workspace = tmp_path / "fix_the_test"
    shutil.copytree(EXAMPLE, workspace, ignore=shutil.ignore_patterns("__pycache__"))
    agents = json.loads((workspace / "onceward.json").read_text())["agents"]
    task = json.loads((workspace / "tasks" / "T-0001.json").read_text())
    inputs = {"goal": task["goal"]}

    def ask(agent_type: str, action: str, **fields: Any) -> tuple[dict[str, Any], Driven]:
        line, env = agents[agent_type]["command"], agents[agent_type]["env"]
        assert line[:2] == ["onceward", "agent"]
        with driven(workspace, *line[2:], **env) as agent:
            return agent.ask(command(action, **{"inputs": inputs, **fields})), agent

    before, _ = ask("reviewer", "review")
    assert before["status"] == "changes_requested"
    assert "1 failed, 2 passed" in before["payload"]["comments"][0]

    built, agent = ask("builder", "implement", outputs=task["expected_outputs"])
    assert built["payload"]["tests"]["status"] == "pass"
    assert "3 passed" in built["payload"]["tests"]["output"]
    assert [each["path"] for each in built["artifacts"]] == ["prices.py"]
    assert any("repaired prices.py" in each for each in agent.said())

    again = {**inputs, "round": 2}
    after, _ = ask("reviewer", "review", inputs=again)
    assert (after["status"], after["payload"]) == ("approved", {})
    spec, _ = ask("spec_maintainer", "update_spec")
    assert spec["event"] == "spec.updated"
    assert f"- T-0001: {task['goal']}" in (workspace / "CHANGELOG.md").read_text()
    spec, _ = ask("spec_maintainer", "update_spec", inputs=again)
    assert spec["event"] == "spec.no_changes_needed"


# --- script ---------------------------------------------------------------------------------------


def test_a_scenario_is_played_by_task_action_and_round(tmp_path: Path) -> None:
    """A task's own steps come first; answers follow the rounds, the last again and again."""
    scenario = {
        "actions": {
            "implement": [
                {"progress": "at {task_id}"},
                {"write": {"path": "{task_id}.txt", "content": "round {round}"}},
                {"answer": {"payload": {"by": "me"}}},
            ]
        },
        "tasks": {"T-0002": {"implement": [{"answer": {"tests": "fail"}}]}},
    }
    with scripted(tmp_path, scenario) as agent:
        first = agent.ask(command())
        assert agent.said() == ["at T-0001"]
        assert first["payload"] == {"by": "me", "tests": {"status": "unchecked"}}
        assert [each["path"] for each in first["artifacts"]] == ["T-0001.txt"]
        assert (tmp_path / "T-0001.txt").read_text() == "round 1"
        other = agent.ask(command(task_id="T-0002"))
        assert other["payload"]["tests"] == {"status": "fail"}
    review = {
        "actions": {
            "review": [
                {"answer": [{"status": "changes_requested", "comments": ["no"]}, {}]},
            ]
        }
    }
    with scripted(tmp_path, review, "reviewer") as agent:
        inputs: list[dict[str, Any]] = [{"goal": "x"}]
        inputs += [{"goal": "x", "round": number} for number in (2, 3)]
        answers = [agent.ask(command("review", each)) for each in inputs]
        statuses = [each["status"] for each in answers]
        assert statuses == ["changes_requested", "approved", "approved"]
        assert answers[0]["payload"] == {"comments": ["no"]}


def test_steps_that_happen_once_are_remembered_over_deaths(tmp_path: Path) -> None:
    """Killed, then exited, then failed, then done: and the counts tell how often it was begun."""
    scenario = {
        "count": "state/count.txt",
        "actions": {
            "implement": [
                {"crash": "kill", "once": True},
                {"crash": "exit:3", "once": True},
                {"error": {"code": "BUSY", "message": "later", "retryable": True}, "once": True},
            ]
        },
    }
    asked = command()
    for code in (-signal.SIGKILL, 3):
        with scripted(tmp_path, scenario) as agent:
            agent.send(asked)
            assert agent.process.wait(60) == code
    with scripted(tmp_path, scenario) as agent:
        failed = agent.ask(asked)["payload"]
        assert failed == {"code": "BUSY", "message": "later", "retryable": True}
        assert agent.ask(asked)["event"] == "builder.completed"
        assert agent.ask(asked)["event"] == "builder.completed"
    counted = (tmp_path / "state" / "count.txt").read_text().split()
    assert set(counted[1::2]) == {asked["idempotency_key"]}
    assert counted[::2] == ["started"] * 4 + ["completed"]


def test_bad_manners_can_be_scripted(tmp_path: Path) -> None:
    """Garbage, floods, lines that are too long and events of any shape come out as written."""
    scenario = {
        "actions": {
            "implement": [
                {"garbage": "}{"},
                {"flood": {"lines": 1000, "bytes": 100}},
                {"flood": {"lines": 10, "bytes": 10, "to": "stderr"}},
                {"flood": {"lines": 10, "bytes": 10, "to": "log"}},
                {"oversized": 300_000},
                {"send": {"correlation_id": "wrong", "payload": {"message": "whose?"}}},
                {"send": {"event": None}},
                {"delay": 0.01},
                {"log": "still here"},
            ]
        }
    }
    with scripted(tmp_path, scenario) as agent:
        assert agent.ask(command())["event"] == "builder.completed"
        assert agent.noise[0] == b"}{\n"
        assert agent.noise[1:1001] == [b"x" * 99 + b"\n"] * 1000
        assert len(agent.noise[1001]) == 300_000
        assert b"event" in agent.noise[1002]
        (stray,) = [each for each in agent.heard if each["kind"] == "event"]
        assert stray["correlation_id"] == "wrong"
        assert agent.said()[-1] == "still here"
    assert "xxxxxxxxx\n" * 10 in (tmp_path / "state" / "stderr.log").read_text()


def test_silence_stops_the_heartbeat(tmp_path: Path) -> None:
    """No events arrive any more, until the process is ended from outside."""
    scenario = {"actions": {"implement": [{"silence": True}]}}
    with scripted(tmp_path, scenario, ONCEWARD_HEARTBEAT_SECONDS="0.05") as agent:
        agent.send(command())
        stat = Path(f"/proc/{agent.process.pid}/stat")
        until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")

        def is_silent() -> bool:
            while not agent.lines.empty():
                agent.lines.get()
            time.sleep(0.3)
            return agent.lines.empty()

        until(is_silent)  # What it had said before is on its way through the pipe.


def test_a_broken_scenario_is_reported_at_the_start(tmp_path: Path) -> None:
    """The place in the file, what is wrong there, and what would be right."""
    (tmp_path / "bad.json").write_text('{"actions": {"implement": [{"crash": "burn"}]}}')
    line = [sys.executable, "-m", "onceward", "agent", "script", "bad.json", "--type", "builder"]
    ran = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        "error: bad.json: actions.implement[0].crash must be kill or exit:0 to exit:255, "
        "not 'burn'\n"
        'fix: write "kill" or "exit:3"\n'
    )
