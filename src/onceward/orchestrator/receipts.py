"""Receipts: one file per finished command, which says what it made and how the tree was left."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from typing import Any

from onceward.agents import artifacts
from onceward.errors import OncewardError, StorageError
from onceward.journal import Record
from onceward.orchestrator.replay import ANSWERED, PENDING, RECEIVED, Asked, RunState
from onceward.orchestrator.tree import Tree
from onceward.orchestrator.workspace import Workspace, digest, read_sealed, write_sealed
from onceward.seams import Files

SCHEMA_VERSION = 1
#: How much of a failing check's output is part of the failure's message.
TESTS_CHARACTERS_MAX = 500


def receipt_of(asked: Asked, run_id: str, tree: str) -> Record:
    """Return the receipt of a command that was answered."""
    event = asked.event
    assert event is not None, asked
    return {
        "schemaVersion": SCHEMA_VERSION,
        "run_id": run_id,
        "task_id": asked.task_id,
        "step": asked.step,
        "stage": asked.stage,
        "round": asked.round,
        "idempotency_key": asked.key,
        "snapshot_id": asked.command["version"]["snapshot_id"],
        "agent": asked.command["to"]["agent_type"],
        "event": event["event"],
        "status": event.get("status"),
        "payload": event["payload"],
        "artifacts": event.get("artifacts") or [],
        "tree": tree,
        "asked_at": asked.asked_at,
        "completed_at": asked.answered_at,
    }


def problem_with(asked: Asked, workspace: Workspace) -> tuple[str, str] | None:
    """Return why an answer cannot be accepted, as a code and a sentence; None when it can."""
    event = asked.event
    assert event is not None, asked
    named = event.get("artifacts") or []
    for each in named:
        problem = artifacts.check(workspace.root, each)
        if problem is not None:
            return "BAD_ARTIFACT", problem
    for each in asked.command["expected_outputs"]:
        if each["required"] and not _is_there(workspace, each["path"]):
            return "MISSING_OUTPUT", f"{each['path']} is required and is not there"
    tests = event["payload"].get("tests") if isinstance(event["payload"], dict) else None
    tested = tests if isinstance(tests, dict) and event["event"] == "builder.completed" else {}
    if tested.get("status") == "fail" and not tested.get("allowed_failures"):
        said = str(tested.get("output") or "").strip()[-TESTS_CHARACTERS_MAX:]
        message = "the builder's tests fail, and no failures are allowed"
        return "TESTS_FAILED", f"{message}: {said}" if said else message
    return None


def _is_there(workspace: Workspace, path: str) -> bool:
    try:
        artifacts.describe(workspace.root, path)
    except OncewardError:
        return False
    return True


def write(workspace: Workspace, record: Record, files: Files) -> str:
    """Put a receipt on disk and return its checksum."""
    path = workspace.receipt(record["task_id"], record["run_id"], record["step"])
    return write_sealed(path, record, files)


def restore_missing(state: RunState, workspace: Workspace, files: Files) -> list[str]:
    """Write again what the ledger knows and the disk lost; return the paths."""
    restored = []
    for asked in state.asked:
        if asked.state != RECEIVED or asked.receipt is None:
            continue
        path = workspace.receipt(asked.task_id, state.run_id, asked.step)
        try:
            found = read_sealed(path, files)
        except StorageError:
            found = None
        if found is None or digest(found) != asked.receipt["checksum"]:
            write(workspace, receipt_of(asked, state.run_id, asked.receipt["tree"]), files)
            restored.append(str(path.relative_to(workspace.root)))
    return restored


def latest_artifacts(state: RunState) -> Iterator[tuple[Asked, dict[str, Any]]]:
    """Yield each artifact of the run as the last answer that names its path has it.

    What a person accepted as it was since then is no artifact any more.
    """
    last: dict[str, tuple[Asked, dict[str, Any]]] = {}
    for asked in state.asked:
        if asked.state in (RECEIVED, ANSWERED) and asked.event is not None:
            for each in asked.event.get("artifacts") or []:
                last[each["path"]] = asked, each
    for path, (asked, each) in last.items():
        if asked.receipt is None or asked.receipt["seq"] > state.accepted.get(path, 0):
            yield asked, each


def stale(
    state: RunState, workspace: Workspace, tree: Tree, *, only_lost: bool
) -> dict[int, tuple[str, str]]:
    """Return the steps whose artifacts are not as the run left them: path and problem.

    While a command has no answer nobody can tell its work from damage: ask again when it has. An
    answer without a receipt is checked when it gets one.
    """
    unfinished = state.open_command()
    if unfinished is not None and unfinished.state == PENDING:
        return {}
    return damaged(state, workspace, tree, behind=0, only_lost=only_lost)


def damaged(
    state: RunState, workspace: Workspace, tree: Tree, *, behind: int, only_lost: bool = False
) -> dict[int, tuple[str, str]]:
    """Return who must make what again: the first maker of each content that is gone.

    Only what the run itself left there counts: a later command may have changed or removed a file
    without naming it. `behind` leaves out makers up to that step. `only_lost` leaves out files that
    are there with other content: a person may have written it.
    """
    found: dict[int, tuple[str, str]] = {}
    left = tree.manifest(state.tree) if state.tree else None
    for asked, artifact in latest_artifacts(state):
        problem = artifacts.check(workspace.root, artifact)
        if problem is None or asked.state != RECEIVED or asked.receipt is None:
            continue
        path, content = artifact["path"], (artifact["sha256"], artifact["size"])
        if only_lost and os.path.lexists(workspace.root / path):
            continue
        then = tree.manifest(asked.receipt["tree"])
        # Of a list that is gone nobody knows whether it had the file; it has, if a later one does.
        was_there = path in (then if then is not None else left or {})
        if was_there and left is not None and left.get(path) != content:
            continue  # A later command changed it; snapshots leave out what git or a dot hides.
        maker = _first_maker(state, path, content)
        if maker > behind:
            found.setdefault(maker, (path, problem))
    return found


def _first_maker(state: RunState, path: str, content: tuple[str, int]) -> int:
    """Return the step that first answered for this content; later ones only kept it."""
    steps = []
    for asked in state.asked:
        named = (asked.event or {}).get("artifacts") or [] if asked.state == RECEIVED else []
        if any((e["path"], (e["sha256"], e["size"])) == (path, content) for e in named):
            steps.append(asked.step)
    return steps[0]


def missing_outputs(state: RunState, task_id: str, workspace: Workspace) -> tuple[int, str] | None:
    """Return a required output of a task that is gone, and the last step that had to make it."""
    for asked in reversed(state.of_task(task_id)):
        if asked.state != RECEIVED:
            continue
        for each in asked.command["expected_outputs"]:
            if each["required"] and not _is_there(workspace, each["path"]):
                event = asked.event or {}
                named = [e for e in event.get("artifacts") or [] if e["path"] == each["path"]]
                content = (named[0]["sha256"], named[0]["size"]) if named else None
                maker = _first_maker(state, each["path"], content) if content else asked.step
                return maker, each["path"]
    return None


def paths_of(state: RunState, steps: Container[int]) -> set[str]:
    """Return the paths that the answers of these steps name."""
    return {each["path"] for asked, each in latest_artifacts(state) if asked.step in steps}
