"""Run views: runs as JSON for the API, and the latest runs of all workspaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any, Final

from onceward.console.run_history import INVALID_RECORD_ERRORS, RunHistory, RunProcess
from onceward.console.run_index import RunItem, item_of, runs_of
from onceward.console.workspaces import Workspaces, plain_workspace
from onceward.orchestrator.models import CommandExplanation, CommandView
from onceward.orchestrator.views import explain_commands, view_of
from onceward.orchestrator.workspace import Workspace

__all__ = ["RunItem", "newest_runs", "plain_explanations", "plain_item", "plain_whole"]

#: How many of a run's latest commands are shown.
COMMANDS_MAX: Final = 2_000


def newest_runs(workspaces: Workspaces, limit: int) -> list[RunItem]:
    """Return the latest runs; unchanged ledgers are not read again."""
    return runs_of(workspaces).newest(limit)


def plain_item(item: RunItem) -> dict[str, Any]:
    """Return a run as JSON for a list."""
    return {
        **_summary(item),
        "workspace": plain_workspace(item.workspace),
        "goal": item.goal,
    }


def plain_whole(place: Workspace, history: RunHistory) -> dict[str, Any]:
    """Return one run as JSON: its commands, its processes, and the steps redone."""
    item = item_of(history, place.root).with_lock_state()
    processes = history.processes(is_held=item.is_held)
    try:
        commands = [_plain(each) for each in view_of(history.state).commands[-COMMANDS_MAX:]]
    except INVALID_RECORD_ERRORS:
        commands = []
    return {
        "summary": _summary(item),
        "workspace": plain_workspace(place.root),
        "goal": item.goal,
        "commands": commands,
        "is_cut": len(history.state.commands) > len(commands),
        "lives": [{"from": e.from_at, "to": e.to_at, "ending": e.ending} for e in processes],
        "crashes": _crashes(processes),
        "replays": len(history.kept),
        "redone": history.redone,
        "headline": history.headline(processes),
    }


def plain_explanations(history: RunHistory) -> list[dict[str, Any]]:
    """Return why each command was sent; an empty list if the ledger is invalid."""
    try:
        return [_plain(each) for each in explain_commands(history.state)[-COMMANDS_MAX:]]
    except INVALID_RECORD_ERRORS:
        return []


def _summary(item: RunItem) -> dict[str, Any]:
    return {**asdict(item.summary), "state": item.state, "is_held": item.is_held}


def _plain(view: CommandView | CommandExplanation) -> dict[str, Any]:
    """Return one command as JSON, with nested values of agents unchanged."""
    return {each.name: getattr(view, each.name) for each in fields(view)}


def _crashes(processes: Sequence[RunProcess]) -> list[dict[str, Any]]:
    """Return at which steps a run's processes crashed."""
    crashes = []
    for at, process in enumerate(processes):
        if process.ending != "crashed":
            continue
        text = (
            f"died in step {process.step}, {process.stage}"
            if process.step
            else "died between two steps"
        )
        if at + 1 == len(processes):
            text += "; it has not been resumed yet"
        crashes.append({"at": process.to_at, "text": text})
    return crashes
