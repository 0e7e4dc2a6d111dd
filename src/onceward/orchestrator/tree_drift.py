"""Tree drift: files that changed since a run recorded its tree, outside of any command."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from onceward.agents import artifacts
from onceward.errors import Drifted
from onceward.orchestrator import receipts
from onceward.orchestrator.ledger_replay import RECEIVED, RunState
from onceward.orchestrator.models import FileChange
from onceward.orchestrator.workspace import Workspace
from onceward.orchestrator.workspace_tree import WorkspaceTree

#: Steps whose artifacts have changed since the run: path and problem.
StaleSteps = Mapping[int, tuple[str, str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Drift:
    """How the workspace differs from what a run recorded."""

    #: The recorded and the current snapshot.
    before: str
    now: str
    #: None if the recorded manifest is missing.
    changes: tuple[FileChange, ...] | None

    @property
    def paths(self) -> list[str]:
        """Return the paths that differ; empty if unknown."""
        return [each.path for each in self.changes or ()]

    def to_error(self, run_id: str, diff: str) -> Drifted:
        """Return the error that lists the changes, with a diff."""
        shown = [f"{each.how} {each.path}" for each in self.changes or ()]
        count = f"{len(shown)} files differ" if len(shown) > 1 else "1 file differs"
        count = count if self.changes is not None else "some files differ"
        message = f"the workspace is not as {run_id} left it: {count}; nothing was started"
        return Drifted(message, changes=shown, diff=diff, before=self.before, now=self.now)


def find_drift(state: RunState, workspace: Workspace, tree: WorkspaceTree) -> Drift | None:
    """Return the drift or None. While a command is pending, its work looks like drift."""
    command = state.open_command()
    if (command is not None and command.sent) or state.tree is None:
        return None
    now = tree.now()
    changes = tree.changes(state.tree, now)
    hidden = _untracked_changes(state, workspace, tree, now)
    if now == state.tree and not hidden:
        return None
    found = None if changes is None else (*changes, *hidden)
    return Drift(before=state.tree, now=now, changes=found)


def is_only_lost(drift: Drift, workspace: Workspace, stale: StaleSteps, state: RunState) -> bool:
    """Return whether the only drift is missing artifacts, so that no content can be overwritten."""
    made = receipts.paths_of_steps(state, stale)
    return drift.changes is not None and all(
        path in made and not os.path.lexists(workspace.root / path) for path in drift.paths
    )


def _untracked_changes(
    state: RunState, workspace: Workspace, tree: WorkspaceTree, now: str
) -> list[FileChange]:
    """Return changed artifacts that snapshots do not track."""
    tracked = {**(tree.manifest(state.tree or "") or {}), **(tree.manifest(now) or {})}
    found = []
    for command, artifact in receipts.latest_artifacts(state):
        path = artifact["path"]
        if (
            command.state != RECEIVED
            or path in tracked
            or _was_tracked(command.receipt, path, tree)
        ):
            continue
        if artifacts.check(workspace.root, artifact) is not None:
            how = "changed" if os.path.lexists(workspace.root / path) else "removed"
            found.append(FileChange(path=path, how=how))
    return found


def _was_tracked(receipt: Mapping[str, object] | None, path: str, tree: WorkspaceTree) -> bool:
    """Return whether the receipt's snapshot had the path: then a later command removed it."""
    then = tree.manifest(str(receipt["tree"])) if receipt is not None else None
    return then is None or path in then
