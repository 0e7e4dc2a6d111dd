"""Views: a run as people look at it: in a list, command by command, and why each was sent. Pure."""

from __future__ import annotations

from onceward.journal import Record
from onceward.orchestrator.models import CommandStory, CommandView, RunSummary, RunView
from onceward.orchestrator.progress import tests_of
from onceward.orchestrator.replay import ABANDONED, RECEIVED, Asked, RunState
from onceward.orchestrator.transcript import UNCHECKED


def summary_of(state: RunState, damaged: int = 0) -> RunSummary:
    """Return a run in one line."""
    last = state.open_command() or (state.asked[-1] if state.asked else None)
    return RunSummary(
        run_id=state.run_id,
        status=state.status,
        reason=state.reason,
        tasks=tuple(each.id for each in state.tasks),
        task_id=last.task_id if last else (state.task.id if state.task else None),
        stage=last.stage if last else None,
        round=last.round if last else None,
        steps=sum(each.state == RECEIVED for each in state.asked),
        started_at=state.started_at,
        updated_at=state.updated_at,
        resumed=state.resumed,
        damaged=damaged,
        unchecked=unchecked_of(state),
    )


def unchecked_of(state: RunState) -> tuple[str, ...]:
    """Return the tasks whose last build no check has passed."""
    last = {
        asked.task_id: status
        for asked in state.asked
        if asked.event is not None and (status := tests_of(asked.event.get("payload")))
    }
    return tuple(task_id for task_id, status in last.items() if status in UNCHECKED)


def view_of(state: RunState, damaged: int = 0) -> RunView:
    """Return a run with its commands."""
    commands = tuple(_command_view(each) for each in state.asked)
    return RunView(summary=summary_of(state, damaged), commands=commands)


def stories_of(state: RunState) -> list[CommandStory]:
    """Return for every command why it was sent, replayed or skipped."""
    return [_story(state, each) for each in state.asked]


def _command_view(asked: Asked) -> CommandView:
    event = asked.event or {}
    failure = asked.failure if asked.state != RECEIVED else None
    return CommandView(
        step=asked.step,
        task_id=asked.task_id,
        stage=asked.stage,
        round=asked.round,
        agent=asked.command["to"]["agent_type"],
        idempotency_key=asked.key,
        state=asked.state,
        attempts=asked.failures + (asked.event is not None),
        sent=asked.sent,
        asked_at=asked.asked_at,
        answered_at=asked.answered_at,
        event=event.get("event"),
        status=event.get("status") or _tests(event),
        artifacts=tuple(event.get("artifacts") or ()),
        problem=f"{failure['code']}: {failure['message']}" if failure else None,
    )


def _tests(event: Record) -> str | None:
    status = tests_of(event.get("payload"))
    return status if status is None or status in UNCHECKED else f"tests {status}"


def _story(state: RunState, asked: Asked) -> CommandStory:
    command = asked.command
    return CommandStory(
        step=asked.step,
        task_id=asked.task_id,
        stage=asked.stage,
        round=asked.round,
        idempotency_key=asked.key,
        why=tuple(_why(state, asked)),
        components={
            "action": command["action"],
            "task_id": command["task_id"],
            "snapshot_id": command["version"]["snapshot_id"],
            "inputs": command["inputs"],
            "expected_outputs": command["expected_outputs"],
        },
    )


def _why(state: RunState, asked: Asked) -> list[str]:
    """Return what led to a command and what was done about it, in sentences."""
    before = [each for each in state.of_task(asked.task_id) if each.step < asked.step]
    if not before:
        why = [f"{asked.task_id} begins with {asked.stage}"]
    elif before[-1].state == ABANDONED:
        why = [f"step {before[-1].step} failed, and a retry was asked for: a new round, a new key"]
    else:
        said = before[-1].event or {}
        answer = f"{said.get('event')} {said.get('status') or ''}".strip()
        why = [f"step {before[-1].step} answered {answer}"]
    if asked.round > 1 and before and before[-1].state != ABANDONED:
        why.append(f"round {asked.round}: the inputs name it and the answer before, so a new key")
    if asked.sent > 1:
        why.append(f"sent {asked.sent} times, always with this key: an agent that has the result")
        why[-1] += " answers from its cache"
    why += [f"sent again because of {each}" for each in asked.redone]
    if asked.state == RECEIVED:
        why.append("it has a receipt, so a resume does not send it")
    elif asked.event is not None:
        why.append("it is answered and has no receipt yet: a resume checks it and does not send it")
    elif asked.failure is not None and asked.state != "pending":
        why.append(f"it failed: {asked.failure['code']}: {asked.failure['message']}")
    else:
        why.append("it has no answer yet: a resume sends it again with this key")
    return why
