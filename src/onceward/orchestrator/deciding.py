"""Deciding: what a run does next, from what its ledger says and nothing else.

Pure: the same state gives the same step, in the first life of a run and in every later one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from onceward.journal import Record
from onceward.keys import canonical_json
from onceward.orchestrator.flow import DONE, FIRST, FLOW, Stage, following
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


Step = StartTask | Ask | Send | Receive | CompleteTask | CompleteRun | Fail


def decide(state: RunState, limits: RunLimits) -> Step:
    """Return the next step of a run that is running."""
    unfinished = state.open_command()
    if unfinished is not None:
        return _go_on(unfinished, limits)
    task = state.task
    if task is None:
        return CompleteRun()
    if task.id not in state.pinned:
        return StartTask(task=task)
    asked = state.of_task(task.id)
    if not asked:
        return _ask(state, task, FLOW[FIRST], limits)
    last = asked[-1]
    if last.state == ABANDONED:  # Somebody wants it tried once more, as new work.
        return _ask(state, task, FLOW[last.stage], limits)
    assert last.event is not None, last
    name = following(FLOW[last.stage], last.event)
    assert name is not None, last.event
    return CompleteTask(task=task) if name == DONE else _ask(state, task, FLOW[name], limits)


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
    last = before[-1] if before else None
    if stage.takes_changes:
        # The last one may have failed without an answer; what it was asked to change still counts.
        inputs["changes"] = next(each.event["payload"] for each in reversed(before) if each.event)
    if number > 1:
        assert last is not None, number
        inputs |= {"round": number, "previous": digest(last)}
    return Ask(task=task, stage=stage, round=number, inputs=inputs)


def digest(asked: Asked) -> str:
    """Return what an answer said, without ids and times: the same whenever it is said again."""
    if asked.event is None:
        failure = asked.failure or {}
        said: Record = {"code": failure.get("code"), "message": failure.get("message")}
    else:
        found = asked.event.get("artifacts") or []
        said = {
            "status": asked.event.get("status"),
            "payload": asked.event["payload"],
            "artifacts": sorted(
                ({"path": each["path"], "sha256": each["sha256"]} for each in found),
                key=lambda each: each["path"],
            ),
        }
    return hashlib.sha256(canonical_json(said)).hexdigest()
