"""Agents of the kit as real processes: each key is completed once, whichever process dies when."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceward.agents import protocol
from onceward.agents.orphan_processes import AgentRecord, end_orphans
from onceward.agents.protocol import Message
from onceward.agents.supervisor import AgentSpec, Supervisor, SupervisorLimits
from onceward.system import process_stat
from tests.support.agent_messages import a_command
from tests.support.supervised_run import SupervisedRun
from tests.support.waiting import until

ROOT = Path(__file__).parent.parent.parent
AGENT = ROOT / "tests" / "support" / "kit_agent.py"
COMMAND = (sys.executable, str(AGENT))


class Run(SupervisedRun):
    """A run whose agent is of the kit."""

    def supervisor(self, **env: str) -> Supervisor:
        limits = SupervisorLimits(
            heartbeat_seconds=0.5,
            heartbeats_missed_max=240,
            start_seconds=120.0,
            timeout_seconds={"implement": 240.0},
        )
        return self.supervise(COMMAND, limits, env)

    def call(self, supervisor: Supervisor, **inputs: str) -> Message:
        command = a_command(inputs={"goal": "build it", **inputs})
        return supervisor.call(command, on_event=lambda _: None)

    def count(self, name: str) -> int:
        file = self.workspace / name
        return len(file.read_text().split()) if file.exists() else 0


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path)
    yield run
    run.stop()


def without_ids(event: Message) -> Message:
    changing = ("message_id", "correlation_id", "occurred_at")
    return {name: value for name, value in event.items() if name not in changing}


def test_handlers_may_print_and_start_programs(run: Run) -> None:
    """Stdout and stdin are the protocol's: what others write there is in the log."""
    supervisor = run.supervisor()
    first = run.call(supervisor)
    assert without_ids(run.call(supervisor)) == without_ids(first)
    supervisor.stop()
    assert run.count("begun") == 1
    assert not [fields for kind, fields in run.logged if kind == "agent.noise"]
    log = (run.workspace / "logs" / "builder" / "run-1.log").read_text()
    assert "printed by the handler" in log
    assert "printed by a program" in log
    assert "EOFError" in log


@pytest.mark.parametrize(
    ("spec", "begun"),
    [
        ("agents.cache.before_store:1", 2),
        ("atomic.write.after_sync:1", 2),
        ("atomic.write.after_rename:1", 1),
        ("agents.cache.after_store:1", 1),
    ],
)
def test_an_agent_killed_around_its_cache_completes_once(spec: str, begun: int, run: Run) -> None:
    """Killed before its answer is kept it begins again, killed after it does not."""
    armed = run.supervisor(ONCEWARD_CRASH=spec)
    start = armed._start

    def unarmed(each: Any) -> None:
        start(each)
        each.spec = AgentSpec(type="builder", command=COMMAND)

    armed._start = unarmed  # type: ignore[method-assign,assignment]
    answer = run.call(armed)
    assert answer["event"] == "builder.completed"
    assert run.count("begun") == begun
    assert [kind for kind, _ in run.logged] == [
        "agent.started",
        "agent.exited",
        "agent.restarting",
        "agent.started",
    ]
    again = run.supervisor()
    assert without_ids(run.call(again)) == without_ids(answer)
    assert run.count("begun") == begun


def test_an_agent_that_dies_in_its_handler_begins_once_more(run: Run) -> None:
    """A key is begun at most once more for each kill of its agent."""
    assert run.call(run.supervisor(), dies="yes")["event"] == "builder.completed"
    assert run.count("begun") == 2


#: Starts an agent, gives it a command whose work waits, prints its record, and waits to be killed.
ORCHESTRATOR = """
import sys, json
from pathlib import Path
from tests.system.test_agent_kit import Run
run = Run(Path(sys.argv[1]))
supervisor = run.supervisor()
tell = supervisor._on
supervisor._on = lambda kind, fields: (print(json.dumps(fields), flush=True), tell(kind, fields))
run.call(supervisor, gate=sys.argv[2])
"""


def orchestrator(workspace: Path, gate: Path) -> tuple[subprocess.Popen[str], AgentRecord]:
    process = subprocess.Popen(
        [sys.executable, "-c", ORCHESTRATOR, str(workspace), str(gate)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    fields = json.loads(process.stdout.readline())
    assert isinstance(fields, dict)
    until((workspace / "waiting").exists)
    record = AgentRecord.from_fields(fields, "run-1")
    assert record
    return process, record


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    return gate


def killed(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout
    process.stdout.close()


def test_an_agent_outlives_its_orchestrator_until_its_answer_is_kept(run: Run, gate: Path) -> None:
    """Orphaned in the middle of its work it finishes, keeps the answer, and ends by itself."""
    process, record = orchestrator(run.workspace, gate)
    killed(process)
    gate.open("w").close()
    until(lambda: (found := process_stat(record.pid)) is None or not found.is_alive)
    answer = run.call(run.supervisor(), gate=str(gate))
    assert answer["event"] == "builder.completed"
    assert (run.count("begun"), run.count("done")) == (1, 1)


def test_an_orphan_is_ended_before_its_work_is_given_out_again(run: Run, gate: Path) -> None:
    """Its record is enough to end it; then the next life begins and completes the work."""
    process, record = orchestrator(run.workspace, gate)
    killed(process)
    assert end_orphans([record]) == [record]
    opener = threading.Thread(target=lambda: gate.open("w").close())
    opener.start()
    answer = run.call(run.supervisor(), gate=str(gate))
    opener.join(10)
    assert answer["event"] == "builder.completed"
    assert (run.count("begun"), run.count("done")) == (2, 1)


def test_an_agent_by_hand_answers_and_ends() -> None:
    """A command through a shell pipe is answered before the end of stdin ends the agent."""
    environment = {**os.environ, "ONCEWARD_WORKSPACE": "", "ONCEWARD_HEARTBEAT_SECONDS": "60"}
    program = (
        "from onceward.agents import Agent, completed\n"
        "agent = Agent('builder', environ={'ONCEWARD_AGENT_CACHE': '/nonexistent'})\n"
        "agent.on('implement')(lambda command: completed(tests='fail'))\n"
        "agent.run()\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        input=protocol.encode(a_command()),
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
    )
    said = [protocol.decode(line) for line in ran.stdout.splitlines()]
    assert [each["kind"] for each in said] == ["heartbeat", "heartbeat", "event", "heartbeat"]
