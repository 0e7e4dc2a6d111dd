"""Deciding: what a run does next, from what its ledger says and nothing else.

Pure: the same state gives the same step, in the first life of a run and in every later one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onceward.journal import Record
from onceward.orchestrator.approvals import approval_of, outdated, previous
from onceward.orchestrator.flow import DONE, Stage, following
from onceward.orchestrator.models import RunLimits, Task
from onceward.orchestrator.replay import ABANDONED, ANSWERED, Asked, RunState


@dataclass(frozen=True, kw_only=True, slots=True)
class StartTask:
    """Pin the workspace for a task."""

    task: Task


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """Announce a new command."""

    task: Task
    stage: Stage
    round: int
    inputs: Record


@dataclass(frozen=True, kw_only=True, slots=True)
class Send:
    """Give an announced command to its agent."""

    asked: Asked


@dataclass(frozen=True, kw_only=True, slots=True)
class Receive:
    """Check what an answer brought, and write its receipt."""

    asked: Asked


@dataclass(frozen=True, kw_only=True, slots=True)
class CompleteTask:
    """Nothing is left to do for a task."""

    task: Task


@dataclass(frozen=True, kw_only=True, slots=True)
class CompleteRun:
    """Nothing is left to do at all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fail:
    """Give up, and say why."""

    reason: str
    #: The command that it failed at.
    step: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Withdraw:
    """Let an approval count no more: what it approved was made again, with another result."""

    approval: Asked


Step = StartTask | Ask | Send | Receive | CompleteTask | CompleteRun | Withdraw | Fail


def decide(state: RunState, limits: RunLimits) -> Step:
    """Return the next step of a run that is running."""
    unfinished = state.open_command()
    if unfinished is not None:
        return _go_on(unfinished, limits)
    approval = outdated(state)
    if approval is not None:
        return Withdraw(approval=approval)
    task = state.task
    if task is None:
        return CompleteRun()
    return StartTask(task=task) if task.id not in state.pinned else _continue(state, task, limits)


def _continue(state: RunState, task: Task, limits: RunLimits) -> Step:
    """Return what follows from the last answer of a task."""
    asked = state.of_task(task.id)
    if not asked:
        return _ask(state, task, next(iter(state.flow.values())), limits)
    last = asked[-1]
    if last.state == ABANDONED:  # Somebody wants it tried once more, as new work.
        return _ask(state, task, state.flow[last.stage], limits)
    assert last.event is not None, last
    name = following(state.flow[last.stage], last.event)
    assert name is not None, last.event
    reviewing = _lacking(state, task, name)
    if reviewing is not None:
        return _ask(state, task, reviewing, limits)
    return CompleteTask(task=task) if name == DONE else _ask(state, task, state.flow[name], limits)


def _lacking(state: RunState, task: Task, name: str) -> Stage | None:
    """Return the review that must come before a stage, because its approval was withdrawn."""
    stage = state.flow.get(name)
    if stage is not None and (stage.makes_outputs or stage.approves):
        return None
    reviewing = next((each for each in state.flow.values() if each.approves), None)
    return reviewing if approval_of(state, task.id) is None else None


def _go_on(asked: Asked, limits: RunLimits) -> Step:
    if asked.state == ANSWERED:
        return Receive(asked=asked)
    failure = asked.failure
    if failure is None or not asked.failures:
        return Send(asked=asked)
    if failure["retryable"] and asked.failures < limits.attempts_max:
        return Send(asked=asked)
    times = f" after {asked.failures} attempts" if asked.failures > 1 else ""
    reason = (
        f"{asked.stage} of {asked.task_id} failed{times}: {failure['code']}: {failure['message']}"
    )
    return Fail(reason=reason, step=asked.step)


def _ask(state: RunState, task: Task, stage: Stage, limits: RunLimits) -> Step:
    before = state.of_task(task.id)
    number = 1 + sum(each.stage == stage.name for each in before)
    allowed = limits.rounds_max + state.rounds_granted
    if number > allowed:
        reason = f"{stage.name} of {task.id} would be round {number}, and {allowed} are allowed"
        return Fail(reason=reason, step=None)
    inputs: dict[str, Any] = {"goal": task.goal, **task.inputs}
    if stage.takes_changes:
        # The last one may have failed without an answer; what it was asked to change still counts.
        inputs["changes"] = next(each.event["payload"] for each in reversed(before) if each.event)
    if before:
        inputs["previous"] = previous(state, before)
    if number > 1:
        inputs["round"] = number
    return Ask(task=task, stage=stage, round=number, inputs=inputs)
