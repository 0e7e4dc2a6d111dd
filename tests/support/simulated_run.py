"""Simulated run: the ledger that a sequence of answers would leave, without agents or files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onceward.journal import Record
from onceward.keys import idempotency_key
from onceward.orchestrator.ledger_replay import CommandState, RunState
from onceward.orchestrator.models import AgentTask, RunLimits
from onceward.orchestrator.next_step import (
    AcceptAnswer,
    CompleteRun,
    CompleteTask,
    FailRun,
    IssueCommand,
    SendCommand,
    StartTask,
    next_step,
)

#: Returns the event that an agent answers a command with, or a failure `{"code": …}`.
Answers = Callable[[CommandState], Record]
TASKS = (
    AgentTask(id="T-1", goal="first", expected_outputs=({"path": "a.py", "required": True},)),
    AgentTask(id="T-2", goal="second", inputs={"style": "plain"}),
)


def event(name: str, status: str | None = None, **payload: Any) -> Record:
    found: Record = {"event": name, "payload": payload, "artifacts": []}
    return found if status is None else {**found, "status": status}


def approving(command: CommandState) -> Record:
    """Answer as agents without complaints."""
    return {
        "builder": event("builder.completed", tests={"status": "pass"}),
        "reviewer": event("review.completed", "approved"),
        "spec_maintainer": event("spec.updated"),
    }[command.message["to"]["agent_type"]]


def two_rounds(command: CommandState) -> Record:
    """Ask for changes once in the review and once in the specification."""
    if (command.stage, command.round) == ("review", 1):
        return event("review.completed", "changes_requested", comments=["name it better"])
    if (command.stage, command.round) == ("update_spec", 1):
        return event("spec.changes_requested", comments=["the spec says otherwise"])
    return approving(command)


class SimulatedRun:
    """A ledger in memory, and the state that follows from it."""

    def __init__(self, records: list[Record] | None = None) -> None:
        self.records: list[Record] = []
        self.state = RunState()
        for record in records or []:
            self._take(record)
        if not self.records:
            tasks = [each.to_record() for each in TASKS]
            self.note("run.started", run_id="run-20260206-120000-00000000", tasks=tasks)

    def note(self, kind: str, **fields: Any) -> None:
        self._take({"seq": self.state.seq + 1, "at": "t", "kind": kind, **fields})

    def _take(self, record: Record) -> None:
        self.records.append(record)
        self.state.apply(record)

    def step(self, answers: Answers, limits: RunLimits) -> None:
        """Do what is to be done next."""
        match next_step(self.state, limits):
            case StartTask(task=task):
                self.note("task.started", task_id=task.id, snapshot_id=f"snap-{task.id}")
            case IssueCommand() as ask:
                self.note(
                    "command",
                    step=len(self.state.commands) + 1,
                    stage=ask.stage.name,
                    round=ask.round,
                    command=self.command(ask),
                )
            case SendCommand(command=command):
                self.note("command.sent", step=command.step, attempt=command.failures + 1)
                answer = answers(command)
                if "code" in answer:
                    self.note("command.failed", step=command.step, **answer)
                else:
                    self.note("command.answered", step=command.step, event=answer)
            case AcceptAnswer(command=command):
                self.note("receipt", step=command.step, tree="t", path="p", checksum="c")
            case CompleteTask(task=task):
                self.note("task.completed", task_id=task.id)
            case CompleteRun():
                self.note("run.completed")
            case FailRun(reason=reason, step=number):
                self.note("run.failed", reason=reason, step=number)

    def command(self, ask: IssueCommand) -> Record:
        work: dict[str, Any] = {
            "action": ask.stage.name,
            "task_id": ask.task.id,
            "snapshot_id": self.state.pinned[ask.task.id],
            "inputs": ask.inputs,
            "expected_outputs": list(ask.task.expected_outputs),
        }
        return {
            "task_id": ask.task.id,
            "idempotency_key": idempotency_key(**work),
            "inputs": ask.inputs,
            "to": {"agent_type": ask.stage.agent},
        }

    def run(self, answers: Answers, limits: RunLimits | None = None, steps: int = 500) -> RunState:
        """Go on until the run ends, or for so many steps."""
        for _ in range(steps):
            if self.state.status != "running":
                break
            self.step(answers, limits or RunLimits())
        return self.state


def keys(state: RunState) -> list[tuple[str, str, int, str]]:
    return [(each.task_id, each.stage, each.round, each.key) for each in state.commands]
