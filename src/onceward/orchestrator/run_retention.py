"""Run retention: which files of old runs may be deleted.

Ledgers, receipts and transcripts are kept. Agents' cached answers and manifests of snapshots are
deleted once no recent run needs them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import orjson

from onceward.errors import StorageError
from onceward.journal import Record, atomic_file
from onceward.orchestrator.ledger_replay import RunState
from onceward.orchestrator.views import summary_of
from onceward.orchestrator.workspace import Workspace, read_sealed, write_sealed
from onceward.system import Files
from onceward.system.crash_points import crash_point

#: Number of manifests kept in any case; beyond it, those that no recent run names are deleted.
MANIFESTS_MAX: Final = 1_000
_SUFFIX: Final = ".manifest.json"
_STATE_BYTES_MAX: Final = 1024 * 1024


def is_done(workspace: Workspace, run_id: str, files: Files) -> bool:
    """Return whether a run is done, without reading its ledger; False if that is unknown.

    The cached state is written after its record, and a run that is done stays done.
    """
    return _cached(workspace.state(run_id), files).get("status") == "done"


def last_run(workspace: Workspace, files: Files) -> str | None:
    """Return the run that was worked on last according to the cached state, or None."""
    found = _cached(workspace.state(), files).get("run_id")
    return found if isinstance(found, str) else None


def cache(state: RunState, workspace: Workspace, files: Files) -> None:
    """Cache the summary of a run for fast access; the ledger stays authoritative."""
    body = orjson.dumps(asdict(summary_of(state)), option=orjson.OPT_INDENT_2)
    for path in (workspace.state(state.run_id), workspace.state()):
        files.make_directories(path.parent)
        atomic_file.write(path, body + b"\n", files=files)
    crash_point("orchestrator.cache.after_write")


def _cached(path: Path, files: Files) -> Record:
    try:
        data = atomic_file.read(path, _STATE_BYTES_MAX, files=files)
        found = orjson.loads(data or b"{}")
    except (StorageError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def manifests(workspace: Workspace, files: Files) -> list[str]:
    """Return the snapshots that have a manifest."""
    names = files.names(workspace.manifest("").parent)
    return [each.removesuffix(_SUFFIX) for each in names if each.endswith(_SUFFIX)]


def snapshots_of(states: Iterable[RunState]) -> set[str]:
    """Return all snapshots that these runs refer to."""
    found: set[str] = set()
    for state in states:
        found |= {*state.pinned.values(), *state.base_snapshots.values()}
        found |= {each.receipt["tree"] for each in state.commands if each.receipt is not None}
        found |= {tree for each in state.commands for tree in each.trees}
        found |= {state.tree} if state.tree is not None else set()
    return found


def may_lack_manifests(workspace: Workspace, run_id: str, files: Files) -> bool:
    """Return whether manifests of a completed run may have been removed."""
    return run_id < _removed_before(workspace, files)


def record_removal(workspace: Workspace, latest: Sequence[str], files: Files) -> None:
    """Record that runs before the latest ones lose their manifests; run ids sort by time."""
    before = max(*latest[:1], _removed_before(workspace, files), "")
    write_sealed(workspace.retention(), {"schemaVersion": 1, "before": before}, files)


def _removed_before(workspace: Workspace, files: Files) -> str:
    try:
        recorded = read_sealed(workspace.retention(), files) or {}
    except StorageError:
        return ""
    return str(recorded.get("before", ""))


def remove_manifests(
    workspace: Workspace, existing: Iterable[str], needed: Collection[str], files: Files
) -> int:
    """Remove manifests that are not needed; return how many were removed.

    A removed manifest is written again when the same snapshot occurs again. Until then a run that
    refers to it can only tell that files differ, not which.
    """
    removed = [each for each in existing if each not in needed]
    for snapshot_id in removed:
        files.remove(workspace.manifest(snapshot_id))
    if removed:
        files.sync_directory(workspace.manifest("").parent)
    return len(removed)
