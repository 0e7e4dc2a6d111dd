"""Run views: summaries of runs, their commands, and explanations why each was sent. Pure."""

from __future__ import annotations

from onceward.journal import Record
from onceward.orchestrator.ledger_replay import ABANDONED, RECEIVED, CommandState, RunState
from onceward.orchestrator.models import CommandExplanation, CommandView, RunView, TaskRunSummary
from onceward.orchestrator.progress import tests_of
from onceward.orchestrator.transcript import UNCHECKED


def summary_of(state: RunState, damaged: int = 0) -> TaskRunSummary:
    """Return the summary of a run."""
    last = state.open_command() or (state.commands[-1] if state.commands else None)
    return TaskRunSummary(
        run_id=state.run_id,
        status=state.status,
        reason=state.reason,
        tasks=tuple(each.id for each in state.tasks),
        task_id=last.task_id if last else (state.task.id if state.task else None),
        stage=last.stage if last else None,
        round=last.round if last else None,
        steps=sum(each.state == RECEIVED for each in state.commands),
        started_at=state.started_at,
        updated_at=state.updated_at,
        resumed=state.resumed,
        damaged=damaged,
        unchecked=unchecked_of(state),
    )


def unchecked_of(state: RunState) -> tuple[str, ...]:
    """Return the tasks whose last build passed no check."""
    last = {
        command.task_id: status
        for command in state.commands
        if command.event is not None and (status := tests_of(command.event.get("payload")))
    }
    return tuple(task_id for task_id, status in last.items() if status in UNCHECKED)


def view_of(state: RunState, damaged: int = 0) -> RunView:
    """Return a run with its commands."""
    commands = tuple(_command_view(each) for each in state.commands)
    return RunView(summary=summary_of(state, damaged), commands=commands)


def explain_commands(state: RunState) -> list[CommandExplanation]:
    """Return why each command was issued and sent again, and what a resume does with it."""
    return [_story(state, each) for each in state.commands]


def _command_view(command: CommandState) -> CommandView:
    event = command.event or {}
    failure = command.failure if command.state != RECEIVED else None
    return CommandView(
        step=command.step,
        task_id=command.task_id,
        stage=command.stage,
        round=command.round,
        agent=command.message["to"]["agent_type"],
        idempotency_key=command.key,
        state=command.state,
        attempts=command.failures + (command.event is not None),
        sent=command.sent,
        asked_at=command.asked_at,
        answered_at=command.answered_at,
        event=event.get("event"),
        status=event.get("status") or _tests(event),
        artifacts=tuple(event.get("artifacts") or ()),
        problem=f"{failure['code']}: {failure['message']}" if failure else None,
    )


def _tests(event: Record) -> str | None:
    status = tests_of(event.get("payload"))
    return status if status is None or status in UNCHECKED else f"tests {status}"


def _story(state: RunState, command: CommandState) -> CommandExplanation:
    message = command.message
    return CommandExplanation(
        step=command.step,
        task_id=command.task_id,
        stage=command.stage,
        round=command.round,
        idempotency_key=command.key,
        why=tuple(_why(state, command)),
        components={
            "action": message["action"],
            "task_id": message["task_id"],
            "snapshot_id": message["version"]["snapshot_id"],
            "inputs": message["inputs"],
            "expected_outputs": message["expected_outputs"],
        },
    )


def _why(state: RunState, command: CommandState) -> list[str]:
    """Return the reasons for a command and its handling, as sentences."""
    before = [each for each in state.of_task(command.task_id) if each.step < command.step]
    if not before:
        why = [f"{command.task_id} begins with {command.stage}"]
    elif before[-1].state == ABANDONED:
        why = [f"step {before[-1].step} failed and was retried on request: new round, new key"]
    else:
        event = before[-1].event or {}
        answer = f"{event.get('event')} {event.get('status') or ''}".strip()
        why = [f"step {before[-1].step} answered {answer}"]
    if command.round > 1 and before and before[-1].state != ABANDONED:
        why.append(f"round {command.round}: its inputs have the round and `previous`, so a new key")
    if command.sent > 1:
        why.append(f"sent {command.sent} times with this key: an agent with a cached answer")
        why[-1] += " does not repeat the work"
    why += [f"sent again because of {each}" for each in command.redo_reasons]
    if command.state == RECEIVED:
        why.append("it has a receipt, so a resume does not send it")
    elif command.event is not None:
        why.append(
            "it is answered without a receipt: a resume checks the answer, and sends nothing"
        )
    elif command.failure is not None and command.state != "pending":
        why.append(f"it failed: {command.failure['code']}: {command.failure['message']}")
    else:
        why.append("it has no answer yet: a resume sends it again with this key")
    return why
