"""Progress: how far a run is, computed from the records of its ledger. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from onceward.journal import Record


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandLabel:
    """The task, stage, round and agent of a command."""

    task_id: str
    stage: str
    round: int
    agent: str

    def __str__(self) -> str:
        return self.stage if self.round == 1 else f"{self.stage} round {self.round}"


@dataclass(kw_only=True, slots=True)
class Progress:
    """The progress of a run, updated with each record."""

    tasks: list[str] = field(default_factory=list)
    #: Completed tasks.
    done: set[str] = field(default_factory=set)
    #: The status of the last tests of each task.
    tests: dict[str, str] = field(default_factory=dict)
    started_at: str | None = None
    task_started_at: dict[str, str] = field(default_factory=dict)
    #: Every command, by its step.
    labels: dict[int, CommandLabel] = field(default_factory=dict)
    #: When each command was last sent to its agent.
    sent_at: dict[int, str] = field(default_factory=dict)
    #: Agent types by pid.
    agents: dict[int, str] = field(default_factory=dict)
    #: The current step.
    step: int | None = None
    #: Start of the current step, or of the current pause between steps.
    since: str | None = None

    @classmethod
    def of(cls, records: Iterable[Record]) -> Progress:
        """Return the progress of a run after these records."""
        progress = cls()
        for record in records:
            progress.apply(record)
        return progress

    def apply(self, record: Record) -> None:
        """Apply the next record."""
        kind, at = record.get("kind"), record.get("at")
        if kind == "run.started":
            self.tasks = [each["id"] for each in record["tasks"]]
            self.started_at = self.since = at
        elif kind == "task.started" and at is not None:
            self.task_started_at[record["task_id"]] = at
        elif kind == "command" and at is not None:
            self._add_command(record, at)
        elif kind == "command.sent" and at is not None:
            self.step = record["step"]
            self.since = self.sent_at[record["step"]] = at
        elif kind == "receipt":
            self.step, self.since = None, at
        elif kind == "command.answered":
            self._note_tests(record)
        elif kind == "task.completed":
            self.done.add(record["task_id"])
        elif kind == "approval.withdrawn":
            self.done.discard(record["task_id"])
        elif kind == "agent.started":
            self.agents[record["pid"]] = record["agent"]

    def _note_tests(self, record: Record) -> None:
        label, status = self.labels.get(record["step"]), tests_of(record["event"].get("payload"))
        if label is not None and status is not None:
            self.tests[label.task_id] = status

    def _add_command(self, record: Record, at: str) -> None:
        command, step = record["command"], record["step"]
        self.labels[step] = CommandLabel(
            task_id=command["task_id"],
            stage=record["stage"],
            round=record["round"],
            agent=command["to"]["agent_type"],
        )
        self.step, self.since = step, at

    def status_line(self, now: datetime) -> str:
        """Return the status line, such as `task 1/3 · review round 2 · 0:42`."""
        parts: list[str] = []
        if self.tasks:
            number = min(len(self.done) + 1, len(self.tasks))
            parts.append(f"task {number}/{len(self.tasks)}")
        if self.step in self.labels:
            parts.append(str(self.labels[self.step]))
        if self.since is not None:
            passed = max(0, int((now - parse_time(self.since)).total_seconds()))
            hours, rest = divmod(passed, 3600)
            minutes = f"{hours}:{rest // 60:02}" if hours else f"{rest // 60}"
            parts.append(f"{minutes}:{rest % 60:02}")
        return " · ".join(parts)


def tests_of(payload: object) -> str | None:
    """Return the status of a builder's tests: pass, fail, unchecked or unchanged."""
    tests = payload.get("tests") if isinstance(payload, Mapping) else None
    status = tests.get("status") if isinstance(tests, Mapping) else None
    return None if status is None else str(status)


def parse_time(at: str) -> datetime:
    """Return the time of a ledger record."""
    return datetime.fromisoformat(at).astimezone(UTC)
