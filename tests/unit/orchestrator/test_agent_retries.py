"""Retries of agents: what may work later is sent again, after pauses that grow."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path

from onceward.agents.protocol import Message
from onceward.journal import Record
from onceward.orchestrator.config import load_config
from onceward.orchestrator.models import AgentTask, RunLimits
from onceward.orchestrator.orchestrator import Orchestrator
from onceward.system import ManualClock, SystemRandomness
from tests.support.function_agents import FIRST, NoBackoff, OrchestratorHarness, play

AGENT = """
import socket
from pathlib import Path
from onceward.agents import Agent, approved, completed, no_changes_needed

agent = Agent()

@agent.on("implement")
async def build(command):
    tried = Path("state/tried.txt")
    count = len(tried.read_text()) if tried.exists() else 0
    tried.write_text("x" * (count + 1))
    if count < 2:
        socket.create_connection(("127.0.0.1", 1)).close()
    Path("out.txt").write_text("done")
    return completed(tests="pass", artifacts=["out.txt"])

@agent.on("review")
def review(command):
    return approved()

@agent.on("update_spec")
def spec(command):
    return no_changes_needed()

agent.run()
"""


class Whole(SystemRandomness):
    """Chance that always lets wait as long as can be."""

    def fraction(self) -> float:
        return 1.0


def test_retries_follow_the_schedule_of_agents(harness: OrchestratorHarness) -> None:
    """One second, doubled up to a minute, at most; the test itself does not wait."""
    clock = ManualClock()
    at: list[float] = []

    def plays(command: Message, workspace: Path) -> Record:
        if command["action"] == "implement":
            at.append(clock.monotonic())
            if len(at) < 9:
                return {"code": "HANDLER_FAILED", "message": "refused", "retryable": True}
        return play(command, workspace)

    harness.plays, harness.limits = plays, RunLimits(attempts_max=9)
    config = harness.orchestrator().config
    conductor = Orchestrator(config, clock=clock, randomness=Whole())
    assert conductor.run([FIRST]).status == "done"
    waits = [round(later - before) for before, later in pairwise(at)]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_refused_connection_is_tried_again(tmp_path: Path) -> None:
    """With a real agent and a real port without a listener; the third attempt needs none."""
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "state").mkdir()
    command = {"command": [sys.executable, "agent.py"]}
    agents = dict.fromkeys(("builder", "reviewer", "spec_maintainer"), command)
    config = {"schemaVersion": 1, "agents": agents}
    (tmp_path / "onceward.json").write_text(json.dumps(config))
    conductor = Orchestrator(load_config(tmp_path / "onceward.json"), randomness=NoBackoff())
    result = conductor.run([AgentTask(id="T-1", goal="x")])
    assert result.status == "done", result.reason
    assert (tmp_path / "state" / "tried.txt").read_text() == "xxx"
    built = conductor.show(result.run_id).commands[0]
    assert (built.attempts, built.sent) == (3, 3)
