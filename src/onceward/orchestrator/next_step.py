"""Next step: decide what a run does next, from the state of its ledger alone.

Pure and deterministic: equal states give equal steps, before and after a crash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from onceward.journal import Record
from onceward.orchestrator.approvals import approval_of, outdated_approval, previous_digest
from onceward.orchestrator.ledger_replay import ABANDONED, ANSWERED, CommandState, RunState
from onceward.orchestrator.models import AgentTask, RunLimits
from onceward.orchestrator.task_flow import DONE, TaskStage, next_stage

#: Maximum number of files in a reason.
_RESTLESS_FILES_MAX: Final = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class StartTask:
    """Pin the workspace for a task."""

    task: AgentTask


@dataclass(frozen=True, kw_only=True, slots=True)
class IssueCommand:
    """Record a new command."""

    task: AgentTask
    stage: TaskStage
    round: int
    inputs: Record


@dataclass(frozen=True, kw_only=True, slots=True)
class SendCommand:
    """Send a recorded command to its agent."""

    command: CommandState


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptAnswer:
    """Check an answer and write its receipt."""

    command: CommandState


@dataclass(frozen=True, kw_only=True, slots=True)
class CompleteTask:
    """Record that a task is complete."""

    task: AgentTask


@dataclass(frozen=True, kw_only=True, slots=True)
class CompleteRun:
    """Record that all tasks are complete."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FailRun:
    """End the run as failed."""

    reason: str
    #: The step that failed; None if none did.
    step: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class WithdrawApproval:
    """Withdraw an approval: what it approved was redone with a different result."""

    approval: CommandState


NextStep = (
    StartTask
    | IssueCommand
    | SendCommand
    | AcceptAnswer
    | CompleteTask
    | CompleteRun
    | WithdrawApproval
    | FailRun
)


def next_step(state: RunState, limits: RunLimits) -> NextStep:
    """Return the next step of a running run."""
    unfinished = state.open_command()
    if unfinished is not None:
        return _continue_command(unfinished, limits)
    approval = outdated_approval(state)
    if approval is not None:
        return WithdrawApproval(approval=approval)
    task = state.task
    if task is None:
        return CompleteRun()
    return StartTask(task=task) if task.id not in state.pinned else _continue(state, task, limits)


def _continue(state: RunState, task: AgentTask, limits: RunLimits) -> NextStep:
    """Return the step that follows the last answer of a task."""
    commands = state.of_task(task.id)
    if not commands:
        return _issue_command(state, task, next(iter(state.flow.values())), limits)
    last = commands[-1]
    if last.state == ABANDONED:  # The operator asked for a retry: a new round with a new key.
        return _issue_command(state, task, state.flow[last.stage], limits)
    assert last.event is not None, last
    name = next_stage(state.flow[last.stage], last.event)
    assert name is not None, last.event
    reviewing = _missing_review(state, task, name)
    if reviewing is not None:
        return _issue_command(state, task, reviewing, limits)
    return (
        CompleteTask(task=task)
        if name == DONE
        else _issue_command(state, task, state.flow[name], limits)
    )


def _missing_review(state: RunState, task: AgentTask, name: str) -> TaskStage | None:
    """Return the review that a stage still needs, because its approval was withdrawn, or None."""
    stage = state.flow.get(name)
    if stage is not None and (stage.makes_outputs or stage.approves):
        return None
    reviewing = next((each for each in state.flow.values() if each.approves), None)
    return reviewing if approval_of(state, task.id) is None else None


def _continue_command(command: CommandState, limits: RunLimits) -> NextStep:
    if command.state == ANSWERED:
        return AcceptAnswer(command=command)
    failure = command.failure
    if failure is None or not command.failures:
        return SendCommand(command=command)
    if failure["retryable"] and command.failures < limits.attempts_max:
        return SendCommand(command=command)
    times = f" after {command.failures} attempts" if command.failures > 1 else ""
    error = f"{failure['code']}: {failure['message']}"
    reason = f"{command.stage} of {command.task_id} failed{times}: {error}"
    return FailRun(reason=reason, step=command.step)


def _restless_files(before: Sequence[CommandState]) -> str:
    """Return which files withdrew the last two approvals of a task, as the end of a sentence."""
    withdrawn = [set(each.withdrawn_paths) for each in before if each.is_withdrawn][-2:]
    found = sorted(set.intersection(*withdrawn)) if len(withdrawn) == 2 else []
    if not found:
        return ""
    shown = ", ".join(found[:_RESTLESS_FILES_MAX])
    return (
        f"; {shown} changed again after each of the last reviews: ignore it in git, or move it out "
        "of the workspace"
    )


def _issue_command(
    state: RunState, task: AgentTask, stage: TaskStage, limits: RunLimits
) -> NextStep:
    before = state.of_task(task.id)
    number = 1 + sum(each.stage == stage.name for each in before)
    allowed = limits.rounds_max + state.rounds_granted
    if number > allowed:
        reason = f"{stage.name} of {task.id} would be round {number}, and {allowed} are allowed"
        reason += _restless_files(before)
        return FailRun(reason=reason, step=None)
    inputs: dict[str, Any] = {"goal": task.goal, **task.inputs}
    if stage.takes_changes:
        # The last command may have failed without an answer; use the last answer that exists.
        inputs["changes"] = next(each.event["payload"] for each in reversed(before) if each.event)
    if before:
        inputs["previous"] = previous_digest(state, before)
    if number > 1:
        inputs["round"] = number
    return IssueCommand(task=task, stage=stage, round=number, inputs=inputs)
