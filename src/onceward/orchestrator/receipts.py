"""Receipts: one file per finished command, which says what it made and how the tree was left."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

from onceward.agents import artifacts
from onceward.errors import OncewardError, StorageError
from onceward.journal import Record
from onceward.orchestrator.replay import ANSWERED, PENDING, RECEIVED, Asked, RunState
from onceward.orchestrator.workspace import Workspace, read_sealed, write_sealed
from onceward.seams import Files

SCHEMA_VERSION = 1


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
    tested = tests if isinstance(tests, dict) else {}
    if tested.get("status") == "fail" and not tested.get("allowed_failures"):
        return "TESTS_FAILED", "the builder's tests fail, and no failures are allowed"
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
        if found is None:
            write(workspace, receipt_of(asked, state.run_id, asked.receipt["tree"]), files)
            restored.append(str(path.relative_to(workspace.root)))
    return restored


def latest_artifacts(state: RunState) -> Iterator[tuple[Asked, dict[str, Any]]]:
    """Yield each artifact of the run as the last answer that names its path has it."""
    last: dict[str, tuple[Asked, dict[str, Any]]] = {}
    for asked in state.asked:
        if asked.state in (RECEIVED, ANSWERED) and asked.event is not None:
            for each in asked.event.get("artifacts") or []:
                last[each["path"]] = asked, each
    yield from last.values()


def stale(state: RunState, workspace: Workspace) -> dict[int, tuple[str, str]]:
    """Return the steps whose artifacts are not as their receipts say: path and problem.

    While a command has no answer nobody can tell its work from damage. An answer without a receipt
    is checked when it gets one.
    """
    found: dict[int, tuple[str, str]] = {}
    unfinished = state.open_command()
    if unfinished is not None and unfinished.state == PENDING:
        return found
    for asked, artifact in latest_artifacts(state):
        problem = artifacts.check(workspace.root, artifact)
        if problem is not None and asked.state == RECEIVED:
            found.setdefault(asked.step, (artifact["path"], problem))
    return found


def paths_of(state: RunState, steps: Container[int]) -> set[str]:
    """Return the paths that the answers of these steps name."""
    return {each["path"] for asked, each in latest_artifacts(state) if asked.step in steps}
