"""Orchestrator models: tasks, limits, and the results and views of runs, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from onceward.agents.artifacts import ArtifactRecord
from onceward.journal import Record

#: Default timeouts of agents in seconds, by action.
TIMEOUT_SECONDS: Final[Mapping[str, float]] = {
    "implement": 600.0,
    "implement_changes": 600.0,
    "review": 300.0,
    "update_spec": 180.0,
}
Status = Literal["running", "done", "failed", "stopped"]
CommandStateName = Literal["pending", "answered", "done", "failed", "abandoned"]


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentTask:
    """A task for agents."""

    #: Id, such as T-0042.
    id: str
    goal: str
    #: Parameters beside the goal, a JSON object.
    inputs: Mapping[str, Any] = field(default_factory=dict)
    #: Artifacts that must exist afterwards: `{"path": …, "required": …}`.
    expected_outputs: tuple[Mapping[str, Any], ...] = ()

    def to_record(self) -> Record:
        """Return the task as a ledger record."""
        return {
            "id": self.id,
            "goal": self.goal,
            "inputs": dict(self.inputs),
            "expected_outputs": [dict(each) for each in self.expected_outputs],
        }

    @classmethod
    def from_record(cls, record: Record) -> AgentTask:
        """Return the task of a ledger record."""
        return cls(
            id=record["id"],
            goal=record["goal"],
            inputs=record["inputs"],
            expected_outputs=tuple(record["expected_outputs"]),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RunLimits:
    """Limits that stop a run which would not end by itself."""

    #: Maximum rounds of one action for one task.
    rounds_max: int = 5
    #: Maximum attempts of one command.
    attempts_max: int = 3
    #: Maximum restarts of each agent in one process of a run.
    restarts_max: int = 5
    heartbeat_seconds: float = 10.0
    heartbeats_missed_max: int = 3
    #: Number of latest runs whose manifests and cached answers are kept.
    runs_kept: int = 100
    timeout_seconds: Mapping[str, float] = field(default_factory=lambda: dict(TIMEOUT_SECONDS))


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """How a run ended, or was stopped in this process."""

    run_id: str
    status: Status
    #: Why it failed or stopped.
    reason: str | None = None
    #: Whether the run had been completed before, so that there was nothing to do.
    was_complete: bool = False
    #: Tasks whose last build passed no check: there was no check, or nothing was changed.
    unchecked: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskRunSummary:
    """One run in a list."""

    run_id: str
    status: Status
    reason: str | None
    tasks: tuple[str, ...]
    #: The current or last task, stage and round.
    task_id: str | None
    stage: str | None
    round: int | None
    #: Number of commands with a receipt.
    steps: int
    started_at: str
    updated_at: str
    #: How often it was resumed.
    resumed: int
    #: Number of damaged lines of the ledger.
    damaged: int = 0
    #: Tasks whose last build passed no check: there was no check, or nothing was changed.
    unchecked: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandView:
    """One command of a run, from its record to its receipt."""

    step: int
    task_id: str
    stage: str
    round: int
    agent: str
    idempotency_key: str
    state: CommandStateName
    attempts: int
    #: How often it was sent to an agent.
    sent: int
    asked_at: str
    answered_at: str | None
    event: str | None
    #: The status of the answer; of a builder's answer, the result of its tests.
    status: str | None
    artifacts: tuple[ArtifactRecord, ...]
    problem: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunView:
    """One run with its commands."""

    summary: TaskRunSummary
    commands: tuple[CommandView, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandExplanation:
    """Why a command was issued and sent again, what a resume does, and its key's components."""

    step: int
    task_id: str
    stage: str
    round: int
    idempotency_key: str
    #: Sentences, in chronological order.
    why: tuple[str, ...]
    #: action, task_id, snapshot_id, inputs, expected_outputs.
    components: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class VerificationFinding:
    """A file of a run that differs from its record."""

    path: str
    problem: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RunVerification:
    """The result of comparing all files of a run with its records."""

    run_id: str
    records: int
    receipts: int
    artifacts: int
    findings: tuple[VerificationFinding, ...]
    #: Whether the delivered files are the approved ones; None if that is unknown, as before the
    #: run is completed or when the list of the approved files is missing.
    is_as_approved: bool | None = None

    @property
    def ok(self) -> bool:
        """Return whether all files match their records."""
        return not self.findings


@dataclass(frozen=True, kw_only=True, slots=True)
class FileChange:
    """How a file differs between two snapshots of a workspace."""

    path: str
    #: added, changed or removed.
    how: str
