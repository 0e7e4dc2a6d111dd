"""A workspace whose agents are played by a function: the whole orchestrator, no processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onceward.agents import artifacts, protocol
from onceward.agents.protocol import Message
from onceward.errors import AgentFailed
from onceward.journal import Record
from onceward.orchestrator import orchestrator as room
from onceward.orchestrator.config import WorkspaceConfig
from onceward.orchestrator.models import AgentTask, RunLimits, RunResult
from onceward.orchestrator.orchestrator import Orchestrator
from onceward.system import SystemRandomness

AT = "2026-02-06T12:00:00.000Z"
#: Does the work of a command; says `{"event": …}` and what belongs to it, or `{"code": …}`.
Plays = Callable[[Message, Path], Record]
FIRST = AgentTask(
    id="T-1", goal="first", expected_outputs=({"path": "src/T-1.txt", "required": True},)
)
SECOND = AgentTask(id="T-2", goal="second", inputs={"style": "plain"})
#: The stages of a task without complaints.
STAGES = ["implement", "review", "update_spec"]
EVENTS = {
    "builder": "builder.completed",
    "reviewer": "review.completed",
    "spec_maintainer": "spec.updated",
}


def play(command: Message, workspace: Path) -> Record:
    """Write what a builder would, and approve of everything."""
    agent = command["to"]["agent_type"]
    if agent == "reviewer":
        return {"event": EVENTS[agent], "status": "approved"}
    name = f"src/{command['task_id']}.txt" if agent == "builder" else "SPEC.md"
    path = workspace / name
    path.parent.mkdir(exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    path.unlink(missing_ok=True)
    path.write_text(f"{command['action']} {command['inputs'].get('round', 1)}\n")
    payload = {"tests": {"status": "pass"}} if agent == "builder" else {}
    return {"event": EVENTS[agent], "payload": payload, "paths": [name]}


def complaining(command: Message, workspace: Path) -> Record:
    """Ask for changes once in the review and once in the specification."""
    first = "round" not in command["inputs"]
    if first and command["action"] == "review":
        comments = {"comments": ["name it better"]}
        return {"event": "review.completed", "status": "changes_requested", "payload": comments}
    if first and command["action"] == "update_spec":
        return {"event": "spec.changes_requested", "payload": {"comments": ["it says otherwise"]}}
    return play(command, workspace)


class NoBackoff(SystemRandomness):
    """Randomness without any wait before the next attempt."""

    def fraction(self) -> float:
        return 0.0


class OrchestratorHarness:
    """A workspace with its scripted agents, and the commands that they got."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace.resolve()
        self.plays: Plays = play
        #: Every command that was given to an agent, in all lives.
        self.asked: list[Message] = []
        #: Called with each command before it is played.
        self.before: Callable[[Message], None] = lambda _: None
        #: What every agent tells while it works.
        self.on_the_way: list[Message] = []
        self.limits = RunLimits()
        self.conductor: Orchestrator | None = None
        #: The number of the record after which the orchestrator dies.
        self.last: int | None = None

    def orchestrator(self) -> Orchestrator:
        config = WorkspaceConfig(workspace=self.workspace, agents={}, limits=self.limits)
        self.conductor = Orchestrator(config, watch=self._watch, randomness=NoBackoff())
        return self.conductor

    def _watch(self, record: Record) -> None:
        if record["seq"] == self.last:
            raise SimulatedCrash

    def run(self, *tasks: AgentTask) -> RunResult:
        return self.orchestrator().run(tasks or (FIRST,))

    def resume(self, run_id: str | None = None, **options: Any) -> RunResult:
        return self.orchestrator().resume(run_id, **options)

    def stages(self, since: int = 0) -> list[str]:
        return [each["action"] for each in self.asked[since:]]

    def keys(self) -> list[str]:
        return [each["idempotency_key"] for each in self.asked]

    def ledger(self, run_id: str | None = None) -> Path:
        if run_id is not None:
            return self.workspace / "events" / f"{run_id}.ndjson"
        (path,) = (self.workspace / "events").iterdir()
        return path

    def records(self, kind: str | None = None) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in self.ledger().read_text().splitlines()]
        return [each for each in found if kind in (None, each["kind"])]

    def die_at(self, action: str, nth: int = 1) -> None:
        """Let the orchestrator die in front of the nth command of this kind."""
        left = [nth]

        def before(command: Message) -> None:
            left[0] -= command["action"] == action
            if left[0] == 0 and command["action"] == action:
                self.before = lambda _: None
                raise SimulatedCrash

        self.before = before


class SimulatedCrash(BaseException):
    """The process would be gone here."""


class FakeSupervisor:
    """Stands where the supervisor stands."""

    harness: OrchestratorHarness

    def __init__(self, *_: object, workspace: Path, **__: object) -> None:
        self._workspace = workspace

    def call(self, command: Message, *, on_event: Callable[[Message], None]) -> Message:
        self.harness.asked.append(command)
        self.harness.before(command)
        for event in self.harness.on_the_way:
            on_event(event)
        said = dict(self.harness.plays(command, self._workspace))
        if "code" in said:
            message = said.pop("message")
            raise AgentFailed(message, code=said["code"], retryable=said["retryable"])
        paths = said.pop("paths", [])
        return protocol.event(
            message_id="msg",
            correlation_id=command["correlation_id"],
            task_id=command["task_id"],
            agent_type=command["to"]["agent_type"],
            occurred_at=AT,
            **{"payload": {}, "artifacts": [self._described(each) for each in paths], **said},
        )

    def _described(self, path: str) -> dict[str, Any]:
        return artifacts.describe(self._workspace, path)

    def interrupt(self) -> None:
        pass

    def stop(self) -> None:
        pass


def stage(harness: OrchestratorHarness, monkeypatch: pytest.MonkeyPatch) -> OrchestratorHarness:
    """Let a harness play wherever agents would be started."""
    harness.workspace.mkdir()
    played = type("Supervisor", (FakeSupervisor,), {"harness": harness})
    monkeypatch.setattr(room, "Supervisor", played)
    return harness
