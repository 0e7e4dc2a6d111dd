"""Drift: which files changed since a run last recorded its tree, while no command was under way."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from onceward.agents import artifacts
from onceward.errors import Drifted
from onceward.orchestrator import receipts
from onceward.orchestrator.models import Change
from onceward.orchestrator.replay import RECEIVED, RunState
from onceward.orchestrator.tree import Tree
from onceward.orchestrator.workspace import Workspace

#: Steps whose artifacts are not as the run left them: path and problem.
Stale = Mapping[int, tuple[str, str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Drift:
    """How the workspace differs from what a run recorded."""

    #: The recorded and the present state.
    before: str
    now: str
    #: None when the list of recorded files is gone.
    changes: tuple[Change, ...] | None

    @property
    def paths(self) -> list[str]:
        """Return the paths that differ, as far as that is known."""
        return [each.path for each in self.changes or ()]

    def refused(self, run_id: str) -> Drifted:
        """Return the error that names the changes."""
        shown = [f"{each.how} {each.path}" for each in self.changes or ()]
        count = len(shown) if self.changes is not None else "some"
        message = f"the workspace is not as {run_id} left it: {count} files differ"
        return Drifted(message, changes=shown, before=self.before, now=self.now)


def find_drift(state: RunState, workspace: Workspace, tree: Tree) -> Drift | None:
    """Return what changed; None while a command is under way, whose work would look the same."""
    if state.open_command() is not None or state.tree is None:
        return None
    now = tree.now()
    changes = tree.changes(state.tree, now)
    hidden = _hidden(state, workspace, tree, now)
    if now == state.tree and not hidden:
        return None
    found = None if changes is None else (*changes, *hidden)
    return Drift(before=state.tree, now=now, changes=found)


def is_only_lost(drift: Drift, workspace: Workspace, stale: Stale, state: RunState) -> bool:
    """Say whether files that a step made are gone and nothing else differs: nobody wrote a byte."""
    made = receipts.paths_of(state, stale)
    return drift.changes is not None and all(
        path in made and not os.path.lexists(workspace.root / path) for path in drift.paths
    )


def _hidden(state: RunState, workspace: Workspace, tree: Tree, now: str) -> list[Change]:
    """Return artifacts that snapshots leave out, and that are not as they were."""
    tracked = {**(tree.manifest(state.tree or "") or {}), **(tree.manifest(now) or {})}
    found = []
    for asked, artifact in receipts.latest_artifacts(state):
        path = artifact["path"]
        if asked.state != RECEIVED or path in tracked or _was_tracked(asked.receipt, path, tree):
            continue
        if artifacts.check(workspace.root, artifact) is not None:
            how = "changed" if os.path.lexists(workspace.root / path) else "removed"
            found.append(Change(path=path, how=how))
    return found


def _was_tracked(receipt: Mapping[str, object] | None, path: str, tree: Tree) -> bool:
    """Say whether the snapshot behind a receipt held the path: then a later command removed it."""
    then = tree.manifest(str(receipt["tree"])) if receipt is not None else None
    return then is None or path in then
