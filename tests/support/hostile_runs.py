"""Hostile runs: supervisors of an agent that behaves badly, one limit after the other."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceward.agents.orphan_processes import group_members
from onceward.agents.protocol import Message
from onceward.agents.supervisor import Supervisor, SupervisorLimits
from onceward.errors import AgentFailed
from onceward.system import process_stat
from tests.support.agent_messages import a_command
from tests.support.supervised_run import SupervisedRun

HOSTILE = Path(__file__).with_name("hostile_agent.py")
LIMITS = SupervisorLimits(
    heartbeat_seconds=0.2,
    heartbeats_missed_max=600,
    start_seconds=120.0,
    restarts_max=2,
    timeout_seconds={"implement": 600.0},
)
#: A test that waits for a limit tries it, and then so many times that: the first counts in which a
#: busy machine could start an agent.
TIMES = (1, 4, 16)
SECRET = "hunter2-hunter2"


class Run(SupervisedRun):
    """A supervisor of one hostile agent, and what it tells."""

    def __init__(self, workspace: Path) -> None:
        super().__init__(workspace)
        self.events: list[Message] = []

    def supervisor(self, mode: str, **limits: Any) -> Supervisor:
        fields = {name: getattr(LIMITS, name) for name in LIMITS.__slots__}
        command = (sys.executable, "-I", "-S", str(HOSTILE), mode)
        chosen = SupervisorLimits(**{**fields, **limits})
        return self.supervise(command, chosen, {"MY_TOKEN": SECRET}, [SECRET])

    def call(self, mode: str, *, command: Message | None = None, **limits: Any) -> Message:
        supervisor = self.supervisor(mode, **limits)
        return supervisor.call(command or a_command(), on_event=self.events.append)

    def fails(self, mode: str, *, command: Message | None = None, **limits: Any) -> AgentFailed:
        with pytest.raises(AgentFailed) as caught:
            self.call(mode, command=command, **limits)
        return caught.value

    def begin_again(self, times: int) -> None:
        """Forget what was, and go on in another workspace, with so many times the limit."""
        self.stop()
        self.workspace = self.workspace / f"times-{times}"
        self.workspace.mkdir()
        self.logged.clear()
        self.events.clear()

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.logged if kind != "agent.log"]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [fields for each, fields in self.logged if each == kind]

    def noise(self) -> dict[str, int]:
        found = self.of("agent.noise")
        assert len({each["problem"] for each in found}) == len(found), "each problem once"
        return {each["problem"]: each["count"] for each in found}

    def child(self) -> int:
        return int((self.workspace / "child").read_text())

    def has_child(self) -> bool:
        return (self.workspace / "child").exists()


def is_alive(pid: int) -> bool:
    found = process_stat(pid)
    return found is not None and found.is_alive


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path)
    yield run
    run.stop()
    for fields in run.of("agent.started"):
        assert not any(each.is_alive for each in group_members(fields["pid"]))
