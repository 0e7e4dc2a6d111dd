"""Retention: which files of old runs a workspace may lose, so that it does not grow with every run.

Ledgers, receipts and transcripts stay: they are what happened. Results that agents keep for a
repeat, and lists of files at a moment, go once no recent run needs them. Knows no agent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import orjson

from onceward.crash import crash_point
from onceward.errors import StorageError
from onceward.journal import Record, atomic
from onceward.orchestrator.replay import RunState
from onceward.orchestrator.views import summary_of
from onceward.orchestrator.workspace import Workspace, read_sealed, write_sealed
from onceward.seams import Files

#: So many lists of files stay, whoever needs them; beyond that, those that no recent run names go.
MANIFESTS_MAX: Final = 1_000
_SUFFIX: Final = ".manifest.json"
_STATE_BYTES_MAX: Final = 1024 * 1024


def is_done(workspace: Workspace, run_id: str, files: Files) -> bool:
    """Say whether a run is complete, without its ledger; False when that is not known.

    The cached state is written after the record that it tells of, and a complete run stays so.
    """
    return _cached(workspace.state(run_id), files).get("status") == "done"


def last_run(workspace: Workspace, files: Files) -> str | None:
    """Return the run that was worked on last, as far as the cached state tells."""
    found = _cached(workspace.state(), files).get("run_id")
    return found if isinstance(found, str) else None


def cache(state: RunState, workspace: Workspace, files: Files) -> None:
    """Keep what a run has come to where it is found at once; the ledger is the truth."""
    body = orjson.dumps(asdict(summary_of(state)), option=orjson.OPT_INDENT_2)
    for path in (workspace.state(state.run_id), workspace.state()):
        files.make_directories(path.parent)
        atomic.write(path, body + b"\n", files=files)
    crash_point("orchestrator.cache.after_write")


def _cached(path: Path, files: Files) -> Record:
    try:
        data = atomic.read(path, _STATE_BYTES_MAX, files=files)
        found = orjson.loads(data or b"{}")
    except (StorageError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def manifests(workspace: Workspace, files: Files) -> list[str]:
    """Return the snapshots whose lists of files are there."""
    names = files.names(workspace.manifest("").parent)
    return [each.removesuffix(_SUFFIX) for each in names if each.endswith(_SUFFIX)]


def snapshots_of(states: Iterable[RunState]) -> set[str]:
    """Return the snapshots that runs began with, got receipts for, and left behind."""
    found: set[str] = set()
    for state in states:
        found |= set(state.pinned.values())
        found |= {each.receipt["tree"] for each in state.asked if each.receipt is not None}
        found |= {tree for each in state.asked for tree in each.trees}
        found |= {state.tree} if state.tree is not None else set()
    return found


def may_lack_manifests(workspace: Workspace, run_id: str, files: Files) -> bool:
    """Say whether the lists of a run that is done may have been removed."""
    return run_id < _removed_before(workspace, files)


def note_removal(workspace: Workspace, latest: Sequence[str], files: Files) -> None:
    """Keep that runs before the latest ones lose their lists; their ids are in order of time."""
    before = max(*latest[:1], _removed_before(workspace, files), "")
    write_sealed(workspace.retention(), {"schemaVersion": 1, "before": before}, files)


def _removed_before(workspace: Workspace, files: Files) -> str:
    try:
        noted = read_sealed(workspace.retention(), files) or {}
    except StorageError:
        return ""
    return str(noted.get("before", ""))


def remove_manifests(
    workspace: Workspace, there: Iterable[str], needed: Collection[str], files: Files
) -> int:
    """Remove the lists that nobody needs, and return how many.

    One that a run needs after all is made again when the same files are there again; until then
    that run cannot say which files differ, only that some do.
    """
    gone = [each for each in there if each not in needed]
    for snapshot_id in gone:
        files.remove(workspace.manifest(snapshot_id))
    if gone:
        files.sync_directory(workspace.manifest("").parent)
    return len(gone)
