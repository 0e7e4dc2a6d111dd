"""Ledger replay: compute the state of a run from its ledger, record by record.

The run loop applies its own records the same way, so a resumed run has exactly the state of the
interrupted one. Pure; decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from onceward.errors import LedgerDamaged
from onceward.journal import Record
from onceward.keys import RULES_VERSION
from onceward.orchestrator.models import AgentTask, CommandStateName, Status
from onceward.orchestrator.task_flow import FLOW, TaskStage, flow_from_record

PENDING: Final = "pending"
ANSWERED: Final = "answered"
RECEIVED: Final = "done"
FAILED: Final = "failed"
ABANDONED: Final = "abandoned"

#: Kinds of records that are written without fsync: no decision depends on them.
UNSYNCED_KINDS: Final = frozenset(
    {"event", "agent.noise", "agent.log", "agent.exited", "agent.restarting"}
)


@dataclass(kw_only=True, slots=True)
class CommandState:
    """One command of a run and its current state."""

    step: int
    task_id: str
    stage: str
    round: int
    #: The complete message, as it was first sent.
    message: Record
    asked_at: str
    state: CommandStateName = PENDING
    #: Number of failed attempts.
    failures: int = 0
    #: How often it was sent to an agent.
    sent: int = 0
    #: The snapshots of the workspace at which it was sent.
    trees: set[str] = field(default_factory=set)
    #: The artifacts that snapshots leave out, at each sending; None where that was not recorded.
    untracked: list[Mapping[str, tuple[str, int]] | None] = field(default_factory=list)
    #: The answer that ended it.
    event: Record | None = None
    answered_at: str | None = None
    receipt: Record | None = None
    #: The last failure: code, message, retryable.
    failure: Record | None = None
    #: Test results of the last failed attempt.
    failed_tests: Record | None = None
    #: Why it had to be redone: the files that no longer matched its receipt.
    redo_reasons: list[str] = field(default_factory=list)
    #: Whether its approval was withdrawn, because the content has changed.
    is_withdrawn: bool = False
    #: The files whose changes withdrew it.
    withdrawn_paths: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Return the command's idempotency key."""
        key: str = self.message["idempotency_key"]
        return key

    @property
    def is_observed(self) -> bool:
        """Return whether its answer lists all changes during the command, also a person's."""
        return bool(((self.event or {}).get("payload") or {}).get("observed"))


@dataclass(kw_only=True, slots=True)
class RunState:
    """The state of a run according to its ledger."""

    run_id: str = ""
    status: Status = "running"
    reason: str | None = None
    #: The version of key rules and the flow that the run was started with.
    rules: int = RULES_VERSION
    flow: Mapping[str, TaskStage] = field(default_factory=lambda: FLOW)
    tasks: list[AgentTask] = field(default_factory=list)
    #: Completed tasks, in order.
    completed: list[str] = field(default_factory=list)
    #: The snapshot that each task is pinned to.
    pinned: dict[str, str] = field(default_factory=dict)
    #: The snapshot of each task before its first command.
    base_snapshots: dict[str, str] = field(default_factory=dict)
    commands: list[CommandState] = field(default_factory=list)
    by_task: dict[str, list[CommandState]] = field(default_factory=dict)
    #: Steps without a receipt that are not abandoned.
    unfinished: set[int] = field(default_factory=set)
    #: The snapshot of the workspace that the run recorded last.
    tree: str | None = None
    #: The snapshot at the end of a completed run.
    delivered_tree: str | None = None
    #: By path: number of the record with which a person last accepted the file's changes.
    accepted: dict[str, int] = field(default_factory=dict)
    #: Files that changed during a command; a person may have written some of them. Empty once
    #: they were backed up.
    observed: set[str] = field(default_factory=set)
    #: By path: the content that an answer declared last; None after a failed attempt.
    declared: dict[str, tuple[str, int] | None] = field(default_factory=dict)
    #: Agents without a recorded exit, by pid.
    agents: dict[int, Record] = field(default_factory=dict)
    #: Additional rounds granted by retries.
    rounds_granted: int = 0
    resumed: int = 0
    seq: int = 0
    #: Number of the last record that was synced to disk.
    synced_seq: int = 0
    started_at: str = ""
    updated_at: str = ""

    @property
    def task(self) -> AgentTask | None:
        """Return the current or next task; None if all are complete."""
        return next((each for each in self.tasks if each.id not in self.completed), None)

    def of_task(self, task_id: str) -> list[CommandState]:
        """Return the commands of a task, in order."""
        return self.by_task.get(task_id, [])

    @property
    def unsynced(self) -> int:
        """Return how many records at the end are not synced yet; a power failure may lose them."""
        return self.seq - self.synced_seq

    def open_command(self) -> CommandState | None:
        """Return the first command without a receipt that is not abandoned, or None."""
        return self.commands[min(self.unfinished) - 1] if self.unfinished else None

    def apply(self, record: Record) -> None:
        """Apply the next record.

        A power failure may lose unsynced records but keep later ones. Each record therefore states
        how many unsynced records precede it.
        """
        last_synced = record["seq"] - 1 - record.get("unsynced", 0)
        if (
            record["seq"] != self.seq + 1
            and not last_synced <= self.synced_seq <= self.seq < record["seq"]
        ):
            message = (
                f"the ledger of {self.run_id or 'a run'} lacks record {self.seq + 1}, "
                "which is lost or damaged; nothing was changed"
            )
            fix = f"restore it from a backup; `onceward runs verify {self.run_id}` shows the damage"
            raise LedgerDamaged(message, fix=fix if self.run_id else "")
        self.seq, self.updated_at = record["seq"], record["at"]
        if record["kind"] not in UNSYNCED_KINDS:
            self.synced_seq = self.seq
        apply_record = _APPLY.get(record["kind"])
        if apply_record is not None:
            apply_record(self, record)


def replay(records: Iterable[Record]) -> RunState:
    """Return the state of a run after these records."""
    state = RunState()
    for record in records:
        state.apply(record)
    return state


def running_agents(records: Iterable[Record]) -> list[Record]:
    """Return the agents without a recorded exit; the ledger may be incomplete."""
    left: dict[int, Record] = {}
    for record in records:
        if record["kind"] == "agent.started":
            left[record["pid"]] = record
        elif record["kind"] == "agent.exited":
            left.pop(record["pid"], None)
    return list(left.values())


def _run_started(state: RunState, record: Record) -> None:
    state.run_id, state.started_at = record["run_id"], record["at"]
    state.tasks = [AgentTask.from_record(each) for each in record["tasks"]]
    if "flow" in record:
        state.rules, state.flow = record["rules"], flow_from_record(record["flow"])


def _run_resumed(state: RunState, record: Record) -> None:
    state.status, state.reason = "running", None
    state.resumed += 1
    if record.get("retry"):
        state.rounds_granted += record["rounds_granted"]
        for each in state.commands:
            if each.state != FAILED:
                continue
            if each is state.of_task(each.task_id)[-1]:
                each.state = ABANDONED
            else:  # It was being redone; later steps are done, so it is retried with its key.
                each.state, each.failures = PENDING, 0
                state.unfinished.add(each.step)


def _task_started(state: RunState, record: Record) -> None:
    task_id, snapshot_id = record["task_id"], record["snapshot_id"]
    state.pinned[task_id] = state.base_snapshots[task_id] = state.tree = snapshot_id


def _command(state: RunState, record: Record) -> None:
    message = record["command"]
    command = CommandState(
        step=record["step"],
        task_id=message["task_id"],
        stage=record["stage"],
        round=record["round"],
        message=message,
        asked_at=record["at"],
    )
    assert command.step == len(state.commands) + 1, (command.step, len(state.commands))
    state.commands.append(command)
    state.by_task.setdefault(command.task_id, []).append(command)
    state.unfinished.add(command.step)


def _sent(state: RunState, record: Record) -> None:
    command = _command_of(state, record)
    command.sent += 1
    if "tree" in record:
        command.trees.add(record["tree"])
    beside = record.get("untracked")
    found = None if beside is None else {path: (file[0], file[1]) for path, file in beside.items()}
    command.untracked.append(found)
    state.observed.clear()  # They were backed up before this record.


def _answered(state: RunState, record: Record) -> None:
    command = _command_of(state, record)
    command.state, command.event, command.answered_at = ANSWERED, record["event"], record["at"]


def _receipt(state: RunState, record: Record) -> None:
    command = _command_of(state, record)
    command.state, command.receipt = RECEIVED, record
    state.unfinished.discard(command.step)
    state.tree = record["tree"]
    named = {each["path"]: (each["sha256"], each["size"]) for each in _artifacts(command)}
    state.declared |= named
    # A build that names its own files is believed: a review comes next.
    if command.is_observed or not state.flow[command.stage].makes_outputs:
        state.observed |= set(named)


def _command_failed(state: RunState, record: Record) -> None:
    command = _command_of(state, record)
    state.declared |= dict.fromkeys(each["path"] for each in _artifacts(command))
    payload = command.event["payload"] if command.event is not None else {}
    tests = payload.get("tests") if isinstance(payload, dict) else None
    command.failed_tests = tests if isinstance(tests, dict) else None
    command.state, command.event, command.failure = PENDING, None, record
    command.failures += 1


def _redo(state: RunState, record: Record) -> None:
    command = _command_of(state, record)
    command.state, command.event, command.receipt = PENDING, None, None
    command.failures = 0
    state.unfinished.add(command.step)
    command.redo_reasons.append(f"{record['path']}: {record['problem']}")


def _task_completed(state: RunState, record: Record) -> None:
    state.completed.append(record["task_id"])


def _run_failed(state: RunState, record: Record) -> None:
    state.status, state.reason = "failed", record["reason"]
    state.tree = record.get("tree", state.tree)
    step = record.get("step")
    if step is not None:
        state.commands[step - 1].state = FAILED
        state.unfinished.discard(step)


def _approval_withdrawn(state: RunState, record: Record) -> None:
    command = _command_of(state, record)
    command.is_withdrawn, command.withdrawn_paths = True, tuple(record.get("paths") or ())
    if command.task_id in state.completed:
        state.completed.remove(command.task_id)


def _run_completed(state: RunState, record: Record) -> None:
    state.status, state.delivered_tree = "done", record.get("tree")


def _run_stopped(state: RunState, record: Record) -> None:
    state.status, state.reason = "stopped", record["reason"]


def _drift_accepted(state: RunState, record: Record) -> None:
    state.tree = record["to"]
    state.accepted |= dict.fromkeys(record.get("paths", ()), record["seq"])
    task = state.task
    # Commands already sent keep their snapshot and key; later ones use the current snapshot.
    if task is not None and task.id in state.pinned:
        state.pinned[task.id] = record["to"]
        if not state.of_task(task.id):
            # It starts again, so that files that an earlier task's approval covers are reviewed.
            del state.pinned[task.id], state.base_snapshots[task.id]


def _agent_started(state: RunState, record: Record) -> None:
    state.agents[record["pid"]] = record


def _agent_exited(state: RunState, record: Record) -> None:
    state.agents.pop(record["pid"], None)


def _artifacts(command: CommandState) -> list[Record]:
    found: list[Record] = (command.event or {}).get("artifacts") or []
    return found


def _command_of(state: RunState, record: Record) -> CommandState:
    step: int = record["step"]
    return state.commands[step - 1]


_APPLY: dict[str, Any] = {
    "run.started": _run_started,
    "run.resumed": _run_resumed,
    "run.completed": _run_completed,
    "run.failed": _run_failed,
    "run.stopped": _run_stopped,
    "task.started": _task_started,
    "task.completed": _task_completed,
    "command": _command,
    "command.sent": _sent,
    "command.answered": _answered,
    "command.failed": _command_failed,
    "receipt": _receipt,
    "redo": _redo,
    "approval.withdrawn": _approval_withdrawn,
    "drift.accepted": _drift_accepted,
    "agent.started": _agent_started,
    "agent.exited": _agent_exited,
}
