"""Run views: runs as JSON for the API, and the latest runs of all workspaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any, Final

from onceward.console.run_history import NONSENSE, RunHistory, RunProcess
from onceward.console.run_index import RunItem, item_of, runs_of
from onceward.console.workspaces import Workspaces, plain_workspace
from onceward.orchestrator.models import CommandExplanation, CommandView
from onceward.orchestrator.views import explain_commands, view_of
from onceward.orchestrator.workspace import Workspace

__all__ = ["RunItem", "newest_runs", "plain_item", "plain_stories", "plain_whole"]

#: Commands of one run that are shown, the latest.
COMMANDS_MAX: Final = 2_000


def newest_runs(workspaces: Workspaces, limit: int) -> list[RunItem]:
    """Return the latest runs; what was read before and has not changed is not read again."""
    return runs_of(workspaces).newest(limit)


def plain_item(item: RunItem) -> dict[str, Any]:
    """Return a run as JSON has it in a list."""
    return {
        **_summary(item),
        "workspace": plain_workspace(item.workspace),
        "goal": item.goal,
    }


def plain_whole(place: Workspace, story: RunHistory) -> dict[str, Any]:
    """Return a run as JSON has it alone: its commands, its lives, and what they cost."""
    item = item_of(story, place.root).as_it_stands()
    lives = story.lives(is_held=item.is_held)
    try:
        commands = [_plain(each) for each in view_of(story.state).commands[-COMMANDS_MAX:]]
    except NONSENSE:
        commands = []
    return {
        "summary": _summary(item),
        "workspace": plain_workspace(place.root),
        "goal": item.goal,
        "commands": commands,
        "is_cut": len(story.state.commands) > len(commands),
        "lives": [{"from": e.from_at, "to": e.to_at, "ending": e.ending} for e in lives],
        "crashes": _crashes(lives),
        "replays": len(story.kept),
        "redone": story.redone,
        "headline": story.headline(lives),
    }


def plain_stories(story: RunHistory) -> list[dict[str, Any]]:
    """Return why each command was sent; nothing of a ledger that makes no sense."""
    try:
        return [_plain(each) for each in explain_commands(story.state)[-COMMANDS_MAX:]]
    except NONSENSE:
        return []


def _summary(item: RunItem) -> dict[str, Any]:
    return {**asdict(item.summary), "state": item.state, "is_held": item.is_held}


def _plain(told: CommandView | CommandExplanation) -> dict[str, Any]:
    """Return one command as JSON has it; what agents nested in it stays as it is."""
    return {each.name: getattr(told, each.name) for each in fields(told)}


def _crashes(lives: Sequence[RunProcess]) -> list[dict[str, Any]]:
    """Return where a run died, and in the middle of what."""
    crashes = []
    for at, life in enumerate(lives):
        if life.ending != "crashed":
            continue
        text = f"died in step {life.step}, {life.stage}" if life.step else "died between two steps"
        if at + 1 == len(lives):
            text += "; it has not been resumed yet"
        crashes.append({"at": life.to_at, "text": text})
    return crashes
