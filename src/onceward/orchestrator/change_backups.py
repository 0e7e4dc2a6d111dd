"""Change backups: back up files that differ from a run's record before they can be overwritten.

Decides which files those are; `file_backups` copies them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Container, Mapping
from typing import Final

from onceward.agents import artifacts
from onceward.errors import InvalidArgument
from onceward.journal import Record
from onceward.orchestrator.approvals import Manifest
from onceward.orchestrator.file_backups import FileBackups
from onceward.orchestrator.ledger_replay import RunState
from onceward.orchestrator.workspace import Workspace
from onceward.orchestrator.workspace_tree import WorkspaceTree
from onceward.system import Files

#: Maximum number of backups in a row while a person keeps changing files.
_ATTEMPTS_MAX: Final = 5


class ChangeBackups:
    """The backups of changes in the workspace of one run."""

    def __init__(
        self,
        state: RunState,
        workspace: Workspace,
        tree: WorkspaceTree,
        record: Callable[..., Record],
        *,
        files: Files,
    ) -> None:
        """Compare with `state`; `record` appends a record to its ledger."""
        self._state, self._workspace, self._tree = state, workspace, tree
        self._record = record
        self._copies = FileBackups(workspace, state.run_id, files=files)

    def make(self, paths: Collection[str] = (), named: Manifest | None = None) -> str:
        """Back up files that differ from the record and may be overwritten; return the tree.

        `paths` are backed up too, as a precaution. Files in `named` are not, as long as they have
        the content that an agent declared.
        """
        vouched = named or {}
        for _ in range(_ATTEMPTS_MAX):
            now, recorded = self._tree.now(), self._state.tree
            if recorded is None:
                break
            changes, present = self._tree.changes(recorded, now), self._tree.manifest(now) or {}
            found = set(present) if changes is None else {each.path for each in changes}
            declared = {path for path, file in vouched.items() if present.get(path) == file}
            changed = found - declared | self._untracked_changes(present, vouched)
            to_copy = changed | set(paths)
            copied = self._copies.copy(to_copy, before=recorded, after=now) if to_copy else None
            if copied is None:
                break
            where, count = copied
            fields = {"path": where, "files": count, "from": recorded, "to": now}
            self._record("files.kept", **fields, **({} if changed else {"precaution": True}))
        return now

    def _untracked_changes(self, tracked: Container[str], vouched: Manifest) -> set[str]:
        """Return the artifacts that snapshots leave out and whose content no answer declared last.

        An attempt that failed vouches for nothing.
        """
        declared: Mapping[str, tuple[str, int] | None] = {**self._state.declared, **vouched}
        return {
            path
            for path, content in declared.items()
            if path not in tracked and self._is_changed(path, content)
        }

    def _is_changed(self, path: str, content: tuple[str, int] | None) -> bool:
        try:
            artifacts.check_path(path)
        except InvalidArgument:
            return False  # An answer that was refused named it.
        if not os.path.lexists(self._workspace.root / path):
            return False
        if content is None:
            return True
        described = {"path": path, "sha256": content[0], "size": content[1]}
        return artifacts.check(self._workspace.root, described) is not None
