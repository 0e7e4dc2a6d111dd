"""Replay: what a run has come to, folded from its ledger record by record.

The loop lives on the same fold while it works, so a resumed run knows exactly what the one before
knew. Pure; knows no file, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from onceward.errors import LedgerDamaged
from onceward.journal import Record
from onceward.keys import RULES_VERSION
from onceward.orchestrator.flow import FLOW, Stage, flow_of
from onceward.orchestrator.models import Status, Task

PENDING, ANSWERED, RECEIVED, FAILED, ABANDONED = (
    "pending",
    "answered",
    "done",
    "failed",
    "abandoned",
)

#: Kinds that need not be on disk before the work goes on: nothing is decided by them.
LOOSE: Final = frozenset(
    {"event", "command.sent", "agent.noise", "agent.log", "agent.exited", "agent.restarting"}
)


@dataclass(kw_only=True, slots=True)
class Asked:
    """One command of the run, and what became of it."""

    step: int
    task_id: str
    stage: str
    round: int
    #: The whole message, as it was first sent.
    command: Record
    asked_at: str
    state: str = PENDING
    #: Attempts that failed with an answer.
    failures: int = 0
    #: How often it was handed to an agent.
    sent: int = 0
    #: The states of the workspace in which it was handed to an agent.
    trees: set[str] = field(default_factory=set)
    #: The answer that ended it.
    event: Record | None = None
    answered_at: str | None = None
    receipt: Record | None = None
    #: The last failure: code, message, retryable.
    failure: Record | None = None
    #: What the check said that the last failed attempt failed at.
    failed_tests: Record | None = None
    #: Times at which its receipt turned out not to fit the files any more.
    redone: list[str] = field(default_factory=list)
    #: Whether it approved content that is not there any more.
    is_withdrawn: bool = False

    @property
    def key(self) -> str:
        """Return the command's idempotency key."""
        key: str = self.command["idempotency_key"]
        return key


@dataclass(kw_only=True, slots=True)
class RunState:
    """A run as its ledger tells it."""

    run_id: str = ""
    status: Status = "running"
    reason: str | None = None
    #: The rules of keys and the stages that it was started with.
    rules: int = RULES_VERSION
    flow: Mapping[str, Stage] = field(default_factory=lambda: FLOW)
    tasks: list[Task] = field(default_factory=list)
    #: Tasks that are complete, in order.
    completed: list[str] = field(default_factory=list)
    #: The snapshot that each task was pinned to.
    pinned: dict[str, str] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    by_task: dict[str, list[Asked]] = field(default_factory=dict)
    #: Steps that have no receipt yet and are not given up.
    unfinished: set[int] = field(default_factory=set)
    #: The state of the workspace that the run left behind last.
    tree: str | None = None
    #: The state that it left behind when it was done.
    delivered: str | None = None
    #: When a person last accepted a file as it was, by path: the number of that record.
    accepted: dict[str, int] = field(default_factory=dict)
    #: Agents that were started and not seen to end: pid and start time.
    agents: dict[int, Record] = field(default_factory=dict)
    #: Rounds granted beyond the limit, by retries.
    rounds_granted: int = 0
    resumed: int = 0
    seq: int = 0
    #: The last record that was on disk before the work went on.
    firm_seq: int = 0
    started_at: str = ""
    updated_at: str = ""

    @property
    def task(self) -> Task | None:
        """Return the task that is being worked on, or is next; None when all are complete."""
        return next((each for each in self.tasks if each.id not in self.completed), None)

    def of_task(self, task_id: str) -> list[Asked]:
        """Return the commands of a task, in order."""
        return self.by_task.get(task_id, [])

    @property
    def loose(self) -> int:
        """Return how many records a power cut may still take away."""
        return self.seq - self.firm_seq

    def open_command(self) -> Asked | None:
        """Return the first command that has no receipt yet and is not given up."""
        return self.asked[min(self.unfinished) - 1] if self.unfinished else None

    def take(self, record: Record) -> None:
        """Go on by one record.

        A power cut may take away records that nobody waited for, and leave what was written behind
        them: each record says how many of those are in front of it.
        """
        follows = record["seq"] - 1 - record.get("loose", 0)
        if (
            record["seq"] != self.seq + 1
            and not follows <= self.firm_seq <= self.seq < record["seq"]
        ):
            message = f"the ledger of {self.run_id or 'a run'} lacks record {self.seq + 1}"
            raise LedgerDamaged(message)
        self.seq, self.updated_at = record["seq"], record["at"]
        if record["kind"] not in LOOSE:
            self.firm_seq = self.seq
        act = _ACTS.get(record["kind"])
        if act is not None:
            act(self, record)


def replay(records: Iterable[Record]) -> RunState:
    """Return what a run has come to."""
    state = RunState()
    for record in records:
        state.take(record)
    return state


def agents_left(records: Iterable[Record]) -> list[Record]:
    """Return the agents that were started and not seen to end; the ledger may lack records."""
    left: dict[int, Record] = {}
    for record in records:
        if record["kind"] == "agent.started":
            left[record["pid"]] = record
        elif record["kind"] == "agent.exited":
            left.pop(record["pid"], None)
    return list(left.values())


def _run_started(state: RunState, record: Record) -> None:
    state.run_id, state.started_at = record["run_id"], record["at"]
    state.tasks = [Task.from_record(each) for each in record["tasks"]]
    if "flow" in record:
        state.rules, state.flow = record["rules"], flow_of(record["flow"])


def _run_resumed(state: RunState, record: Record) -> None:
    state.status, state.reason = "running", None
    state.resumed += 1
    if record.get("retry"):
        state.rounds_granted += record["rounds_granted"]
        for each in state.asked:
            if each.state != FAILED:
                continue
            if each is state.of_task(each.task_id)[-1]:
                each.state = ABANDONED
            else:  # It was being redone; what followed it is done, so it is tried as it was.
                each.state, each.failures = PENDING, 0
                state.unfinished.add(each.step)


def _task_started(state: RunState, record: Record) -> None:
    state.pinned[record["task_id"]] = record["snapshot_id"]
    state.tree = record["snapshot_id"]


def _command(state: RunState, record: Record) -> None:
    command = record["command"]
    asked = Asked(
        step=record["step"],
        task_id=command["task_id"],
        stage=record["stage"],
        round=record["round"],
        command=command,
        asked_at=record["at"],
    )
    assert asked.step == len(state.asked) + 1, (asked.step, len(state.asked))
    state.asked.append(asked)
    state.by_task.setdefault(asked.task_id, []).append(asked)
    state.unfinished.add(asked.step)


def _sent(state: RunState, record: Record) -> None:
    asked = _asked(state, record)
    asked.sent += 1
    if "tree" in record:
        asked.trees.add(record["tree"])


def _answered(state: RunState, record: Record) -> None:
    asked = _asked(state, record)
    asked.state, asked.event, asked.answered_at = ANSWERED, record["event"], record["at"]


def _receipt(state: RunState, record: Record) -> None:
    asked = _asked(state, record)
    asked.state, asked.receipt = RECEIVED, record
    state.unfinished.discard(asked.step)
    state.tree = record["tree"]


def _command_failed(state: RunState, record: Record) -> None:
    asked = _asked(state, record)
    payload = asked.event["payload"] if asked.event is not None else {}
    tests = payload.get("tests") if isinstance(payload, dict) else None
    asked.failed_tests = tests if isinstance(tests, dict) else None
    asked.state, asked.event, asked.failure = PENDING, None, record
    asked.failures += 1


def _redo(state: RunState, record: Record) -> None:
    asked = _asked(state, record)
    asked.state, asked.event, asked.receipt = PENDING, None, None
    asked.failures = 0
    state.unfinished.add(asked.step)
    asked.redone.append(f"{record['path']}: {record['problem']}")


def _task_completed(state: RunState, record: Record) -> None:
    state.completed.append(record["task_id"])


def _run_failed(state: RunState, record: Record) -> None:
    state.status, state.reason = "failed", record["reason"]
    state.tree = record.get("tree", state.tree)
    step = record.get("step")
    if step is not None:
        state.asked[step - 1].state = FAILED
        state.unfinished.discard(step)


def _approval_withdrawn(state: RunState, record: Record) -> None:
    asked = _asked(state, record)
    asked.is_withdrawn = True
    if asked.task_id in state.completed:
        state.completed.remove(asked.task_id)


def _run_completed(state: RunState, record: Record) -> None:
    state.status, state.delivered = "done", record.get("tree")


def _run_stopped(state: RunState, record: Record) -> None:
    state.status, state.reason = "stopped", record["reason"]


def _drift_accepted(state: RunState, record: Record) -> None:
    state.tree = record["to"]
    state.accepted |= dict.fromkeys(record.get("paths", ()), record["seq"])
    task = state.task
    # What was sent keeps its snapshot, and so its key; what follows starts from what is there now.
    if task is not None and task.id in state.pinned:
        state.pinned[task.id] = record["to"]


def _agent_started(state: RunState, record: Record) -> None:
    state.agents[record["pid"]] = record


def _agent_exited(state: RunState, record: Record) -> None:
    state.agents.pop(record["pid"], None)


def _asked(state: RunState, record: Record) -> Asked:
    step: int = record["step"]
    return state.asked[step - 1]


_ACTS: dict[str, Any] = {
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
