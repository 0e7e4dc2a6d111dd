"""Models: tasks, limits, and what becomes of runs, as plain data. Knows no file and no agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from onceward.journal import Record

#: Limits of how long agents may take, by action, unless the configuration says otherwise.
TIMEOUT_SECONDS: Final[Mapping[str, float]] = {
    "implement": 600.0,
    "implement_changes": 600.0,
    "review": 300.0,
    "update_spec": 180.0,
}
Status = Literal["running", "done", "failed", "stopped"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """What is to be done."""

    #: Such as T-0042.
    id: str
    goal: str
    #: Parameters beside the goal, a JSON object.
    inputs: Mapping[str, Any] = field(default_factory=dict)
    #: Artifacts that must be there afterwards: `{"path": …, "required": …}`.
    expected_outputs: tuple[Mapping[str, Any], ...] = ()

    def to_record(self) -> Record:
        """Return the task as the ledger holds it."""
        return {
            "id": self.id,
            "goal": self.goal,
            "inputs": dict(self.inputs),
            "expected_outputs": [dict(each) for each in self.expected_outputs],
        }

    @classmethod
    def from_record(cls, record: Record) -> Task:
        """Return the task of a ledger."""
        return cls(
            id=record["id"],
            goal=record["goal"],
            inputs=record["inputs"],
            expected_outputs=tuple(record["expected_outputs"]),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RunLimits:
    """What stops a run that does not come to an end by itself."""

    #: How often one action may be done for one task.
    rounds_max: int = 5
    #: How often one command is tried when its agent answers that it failed.
    attempts_max: int = 3
    #: How often agents are started anew in one life of a run.
    restarts_max: int = 5
    heartbeat_seconds: float = 10.0
    heartbeats_missed_max: int = 3
    #: The latest runs whose lists of files, and whose results for a repeat, are kept.
    runs_kept: int = 100
    timeout_seconds: Mapping[str, float] = field(default_factory=lambda: dict(TIMEOUT_SECONDS))


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """How a run, or one life of it, ended."""

    run_id: str
    status: Status
    #: Why it failed or stopped.
    reason: str | None = None
    #: Whether there was nothing to do: it was complete before.
    was_complete: bool = False
    #: Tasks whose last build no check has passed: there was none, or nothing was changed.
    unchecked: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSummary:
    """One run in a list."""

    run_id: str
    status: Status
    reason: str | None
    tasks: tuple[str, ...]
    #: The task, stage and round that it is at, or ended at.
    task_id: str | None
    stage: str | None
    round: int | None
    #: Commands that have a receipt.
    steps: int
    started_at: str
    updated_at: str
    #: How often it was resumed.
    resumed: int
    #: Lines of the ledger that are damaged.
    damaged: int = 0
    #: Tasks whose last build no check has passed: there was none, or nothing was changed.
    unchecked: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandView:
    """One command of a run, from its announcement to its receipt."""

    step: int
    task_id: str
    stage: str
    round: int
    agent: str
    idempotency_key: str
    #: pending, answered, done, failed or abandoned.
    state: str
    attempts: int
    #: How often it was given to an agent.
    sent: int
    asked_at: str
    answered_at: str | None
    event: str | None
    #: What the answer decides; of a builder's answer, what its tests say.
    status: str | None
    artifacts: tuple[Mapping[str, Any], ...]
    problem: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunView:
    """One run with its commands."""

    summary: RunSummary
    commands: tuple[CommandView, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandStory:
    """Why a command was sent, replayed or skipped, and what its key is made of."""

    step: int
    task_id: str
    stage: str
    round: int
    idempotency_key: str
    #: Sentences, in the order in which things happened.
    why: tuple[str, ...]
    #: action, task_id, snapshot_id, inputs, expected_outputs.
    components: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """Something in a run's files that is not as it was recorded."""

    path: str
    problem: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Verification:
    """What a look at all files of a run found."""

    run_id: str
    records: int
    receipts: int
    artifacts: int
    findings: tuple[Finding, ...]
    #: Whether the delivered files are those that were approved; None while nothing is delivered.
    is_as_approved: bool | None = None

    @property
    def ok(self) -> bool:
        """Say whether everything is as it was recorded."""
        return not self.findings


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """How a file differs between two states of a workspace."""

    path: str
    #: added, changed or removed.
    how: str
