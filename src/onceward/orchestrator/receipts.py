"""Receipts: one file per finished command, with its artifacts and the tree after it."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from contextlib import suppress
from typing import Any

from onceward.agents import artifacts
from onceward.errors import OncewardError, StorageError
from onceward.journal import Record
from onceward.orchestrator.ledger_replay import ANSWERED, PENDING, RECEIVED, CommandState, RunState
from onceward.orchestrator.workspace import Workspace, digest, read_sealed, write_sealed
from onceward.orchestrator.workspace_tree import WorkspaceTree
from onceward.system import Files

SCHEMA_VERSION = 1
#: How much of a failing check's output is part of the failure's message.
TESTS_CHARACTERS_MAX = 500


def receipt_of(command: CommandState, run_id: str, tree: str) -> Record:
    """Return the receipt of a command that was answered."""
    event = command.event
    assert event is not None, command
    return {
        "schemaVersion": SCHEMA_VERSION,
        "run_id": run_id,
        "task_id": command.task_id,
        "step": command.step,
        "stage": command.stage,
        "round": command.round,
        "idempotency_key": command.key,
        "snapshot_id": command.message["version"]["snapshot_id"],
        "agent": command.message["to"]["agent_type"],
        "event": event["event"],
        "status": event.get("status"),
        "payload": event["payload"],
        "artifacts": event.get("artifacts") or [],
        "tree": tree,
        "asked_at": command.asked_at,
        "completed_at": command.answered_at,
    }


def answer_problem(command: CommandState, workspace: Workspace) -> tuple[str, str] | None:
    """Return a code and a message if an answer cannot be accepted, else None."""
    event = command.event
    assert event is not None, command
    named = event.get("artifacts") or []
    for each in named:
        problem = artifacts.check(workspace.root, each)
        if problem is not None:
            return "BAD_ARTIFACT", problem
    for each in command.message["expected_outputs"]:
        if each["required"] and not _exists(workspace, each["path"]):
            return "MISSING_OUTPUT", f"{each['path']} is required and does not exist"
    tests = event["payload"].get("tests") if isinstance(event["payload"], dict) else None
    tested = tests if isinstance(tests, dict) and event["event"] == "builder.completed" else {}
    if tested.get("status") == "fail" and not tested.get("allowed_failures"):
        output = str(tested.get("output") or "").strip()[-TESTS_CHARACTERS_MAX:]
        message = "the builder's tests fail, and no failures are allowed"
        return "TESTS_FAILED", f"{message}: {output}" if output else message
    return None


def _exists(workspace: Workspace, path: str) -> bool:
    try:
        artifacts.describe(workspace.root, path)
    except OncewardError:
        return False
    return True


def write(workspace: Workspace, record: Record, files: Files) -> str:
    """Write a receipt durably and return its checksum."""
    path = workspace.receipt(record["task_id"], record["run_id"], record["step"])
    return write_sealed(path, record, files)


def restore_missing(state: RunState, workspace: Workspace, files: Files) -> list[str]:
    """Rewrite receipts that are missing or damaged on disk, from the ledger; return the paths."""
    restored = []
    for command in state.commands:
        if command.state != RECEIVED or command.receipt is None:
            continue
        path = workspace.receipt(command.task_id, state.run_id, command.step)
        try:
            found = read_sealed(path, files)
        except StorageError:
            found = None
        if found is None or digest(found) != command.receipt["checksum"]:
            write(workspace, receipt_of(command, state.run_id, command.receipt["tree"]), files)
            restored.append(str(path.relative_to(workspace.root)))
    return restored


def latest_artifacts(state: RunState) -> Iterator[tuple[CommandState, dict[str, Any]]]:
    """Yield each artifact of the run, as declared by the last answer that names its path.

    Files whose changes a person has accepted since are no longer artifacts.
    """
    last: dict[str, tuple[CommandState, dict[str, Any]]] = {}
    for command in state.commands:
        if command.state in (RECEIVED, ANSWERED) and command.event is not None:
            for each in command.event.get("artifacts") or []:
                last[each["path"]] = command, each
    for path, (command, each) in last.items():
        if command.receipt is None or command.receipt["seq"] > state.accepted.get(path, 0):
            yield command, each


def untracked_artifacts(
    state: RunState, workspace: Workspace, tracked: Container[str]
) -> dict[str, tuple[str, int]]:
    """Return the run's artifacts that a snapshot leaves out, as they are on disk now."""
    named = {
        each["path"]
        for command in state.commands
        for each in (command.event or {}).get("artifacts") or []
    }
    found: dict[str, tuple[str, int]] = {}
    for path in sorted(named):
        if path not in tracked:
            with suppress(OncewardError):  # Missing, or no longer a possible artifact.
                described = artifacts.describe(workspace.root, path)
                found[path] = described["sha256"], described["size"]
    return found


def shown_files(
    state: RunState, command: CommandState, workspace: Workspace, tree: WorkspaceTree, now: str
) -> Record:
    """Return the state of the files that an agent is shown; a review approves it."""
    if not state.flow[command.stage].approves:
        return {"tree": now}
    untracked = untracked_artifacts(state, workspace, tree.manifest(now) or {})
    # Lists, as they are read back from the ledger.
    return {"tree": now, "untracked": {path: list(file) for path, file in untracked.items()}}


def observed_files(state: RunState, workspace: Workspace) -> list[str]:
    """Return files that changed during earlier commands; any command may overwrite them."""
    return [each for each in state.observed if os.path.lexists(workspace.root / each)]


def stale_steps(
    state: RunState, workspace: Workspace, tree: WorkspaceTree, *, only_lost: bool
) -> dict[int, tuple[str, str]]:
    """Return the steps whose artifacts have changed since the run: path and problem.

    While a command is unanswered its work cannot be distinguished from damage, so the result is
    empty. An answer without a receipt is checked when it gets one.
    """
    unfinished = state.open_command()
    if unfinished is not None and unfinished.state == PENDING:
        return {}
    return steps_to_redo(state, workspace, tree, after_step=0, only_lost=only_lost)


def steps_to_redo(
    state: RunState,
    workspace: Workspace,
    tree: WorkspaceTree,
    *,
    after_step: int,
    only_lost: bool = False,
) -> dict[int, tuple[str, str]]:
    """Return the steps that must be redone: the first step that made each lost content.

    Only files in the run's last recorded tree count: a later command may have changed or removed a
    file without declaring it. Steps up to `after_step` are left out. `only_lost` ignores files that
    exist with other content, which a person may have written.
    """
    found: dict[int, tuple[str, str]] = {}
    left = tree.manifest(state.tree) if state.tree else None
    for command, artifact in latest_artifacts(state):
        problem = artifacts.check(workspace.root, artifact)
        if problem is None or command.state != RECEIVED or command.receipt is None:
            continue
        path, content = artifact["path"], (artifact["sha256"], artifact["size"])
        if only_lost and os.path.lexists(workspace.root / path):
            continue
        then = tree.manifest(command.receipt["tree"])
        # Without the manifest of that receipt, assume that it had the file if the last one does.
        was_there = path in (then if then is not None else left or {})
        if was_there and left is not None and left.get(path) != content:
            continue  # A later command changed it; untracked files are in no manifest.
        maker = _first_maker(state, path, content)
        if maker > after_step:
            found.setdefault(maker, (path, problem))
    return found


def _first_maker(state: RunState, path: str, content: tuple[str, int]) -> int:
    """Return the first step that declared this content."""
    steps = []
    for command in state.commands:
        named = (command.event or {}).get("artifacts") or [] if command.state == RECEIVED else []
        if any((e["path"], (e["sha256"], e["size"])) == (path, content) for e in named):
            steps.append(command.step)
    return steps[0]


def missing_outputs(state: RunState, task_id: str, workspace: Workspace) -> tuple[int, str] | None:
    """Return a missing required output of a task and the step that must make it again, or None."""
    for command in reversed(state.of_task(task_id)):
        if command.state != RECEIVED:
            continue
        for each in command.message["expected_outputs"]:
            if each["required"] and not _exists(workspace, each["path"]):
                event = command.event or {}
                named = [e for e in event.get("artifacts") or [] if e["path"] == each["path"]]
                content = (named[0]["sha256"], named[0]["size"]) if named else None
                maker = _first_maker(state, each["path"], content) if content else command.step
                return maker, each["path"]
    return None


def paths_of_steps(state: RunState, steps: Container[int]) -> set[str]:
    """Return the artifact paths of these steps."""
    return {each["path"] for command, each in latest_artifacts(state) if command.step in steps}
