"""Run views: runs as JSON for the API, and the latest runs of all workspaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from typing_extensions import TypedDict

from onceward.console.responses import extended, moment
from onceward.console.run_history import INVALID_RECORD_ERRORS, Ending, RunHistory, RunProcess
from onceward.console.run_index import RunItem, RunStateName, item_of, runs_of
from onceward.console.workspaces import WorkspaceItem, Workspaces, workspace_item
from onceward.orchestrator.models import CommandExplanation, CommandView, TaskRunSummary
from onceward.orchestrator.views import explain_commands, view_of
from onceward.orchestrator.workspace import Workspace

__all__ = ["RunItem", "detail_of", "explanations_of", "list_item", "newest_runs"]

#: How many of a run's latest commands are shown.
COMMANDS_MAX: Final = 2_000


def newest_runs(workspaces: Workspaces, limit: int) -> list[RunItem]:
    """Return the latest runs; unchanged ledgers are not read again."""
    return runs_of(workspaces).newest(limit)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSummary(TaskRunSummary):
    """The summary of a run, and whether a process works on it."""

    state: RunStateName
    #: Whether an orchestrator process holds the run's lock.
    is_held: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class RunListItem(RunSummary):
    """A run in a list."""

    workspace: WorkspaceItem
    #: The goal of the first task, in one short line.
    goal: str | None


#: A process that worked on a run; a dictionary, since `from` cannot be the name of a field.
RunLife = TypedDict("RunLife", {"from": str, "to": str | None, "ending": Ending})


@dataclass(frozen=True, kw_only=True, slots=True)
class RunCrash:
    """At which step a process of a run crashed."""

    at: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskRunDetail:
    """One run: its commands, its processes, and the steps redone."""

    summary: RunSummary
    workspace: WorkspaceItem
    goal: str | None
    #: The latest ones.
    commands: tuple[CommandView, ...]
    #: Whether there are more commands.
    is_cut: bool
    lives: list[RunLife]
    crashes: list[RunCrash]
    #: How many recorded steps the last resume reused.
    replays: int
    redone: int
    headline: str
    as_of: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandExplanations:
    """Why each command of a run was sent; empty if the ledger is invalid."""

    commands: list[CommandExplanation]
    as_of: str


def list_item(item: RunItem) -> RunListItem:
    """Return a run for a list."""
    workspace = workspace_item(item.workspace)
    return extended(RunListItem, _summary(item), workspace=workspace, goal=item.goal)


def detail_of(place: Workspace, history: RunHistory) -> TaskRunDetail:
    """Return one run: its commands, its processes, and the steps redone."""
    item = item_of(history, place.root).with_lock_state()
    processes = history.processes(is_held=item.is_held)
    try:
        commands = view_of(history.state).commands[-COMMANDS_MAX:]
    except INVALID_RECORD_ERRORS:
        commands = ()
    return TaskRunDetail(
        summary=_summary(item),
        workspace=workspace_item(place.root),
        goal=item.goal,
        commands=commands,
        is_cut=len(history.state.commands) > len(commands),
        lives=[{"from": e.from_at, "to": e.to_at, "ending": e.ending} for e in processes],
        crashes=_crashes(processes),
        replays=len(history.kept),
        redone=history.redone,
        headline=history.headline(processes),
        as_of=moment(),
    )


def explanations_of(history: RunHistory) -> CommandExplanations:
    """Return why each command was sent."""
    try:
        commands = explain_commands(history.state)[-COMMANDS_MAX:]
    except INVALID_RECORD_ERRORS:
        commands = []
    return CommandExplanations(commands=commands, as_of=moment())


def _summary(item: RunItem) -> RunSummary:
    return extended(RunSummary, item.summary, state=item.state, is_held=item.is_held)


def _crashes(processes: Sequence[RunProcess]) -> list[RunCrash]:
    """Return at which steps a run's processes crashed."""
    crashes = []
    for at, process in enumerate(processes):
        if process.ending != "crashed" or process.to_at is None:
            continue
        text = (
            f"died in step {process.step}, {process.stage}"
            if process.step
            else "died between two steps"
        )
        if at + 1 == len(processes):
            text += "; it has not been resumed yet"
        crashes.append(RunCrash(at=process.to_at, text=text))
    return crashes
