"""Diffs: unified diffs of changed files for reviewers and people; bounded and redacted.

The old content comes from `state/base`: from a task's start or from a run's last record.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final

from onceward.orchestrator import base_files
from onceward.orchestrator.ledger_replay import RunState
from onceward.orchestrator.models import FileChange
from onceward.orchestrator.workspace import Workspace
from onceward.orchestrator.workspace_tree import WorkspaceTree
from onceward.system import Files
from onceward.system.redaction import Redactor
from onceward.system.safe_paths import RootedDirectory

DIFF_CHARACTERS_MAX: Final = 32 * 1024
FILE_DIFF_CHARACTERS_MAX: Final = 8 * 1024
#: Comparing two files can take time quadratic in their lines.
FILE_LINES_MAX: Final = 5000
CHANGED_FILES_MAX: Final = 200


class Diffs:
    """The diffs of one workspace."""

    def __init__(
        self, workspace: Workspace, tree: WorkspaceTree, redactor: Redactor, *, files: Files
    ) -> None:
        """Use the workspace and its tree; reads nothing yet."""
        self._workspace, self._tree, self._redactor = workspace, tree, redactor
        self._files = files

    def save_base(self, snapshot_id: str) -> None:
        """Archive the files of a task's base snapshot, unless that was done before."""
        if self._files.stat(self._workspace.base(snapshot_id)) is None:
            manifest = self._tree.manifest(snapshot_id) or {}
            base_files.write_archive(self._workspace, snapshot_id, manifest, self._files)

    def save_recorded(self, state: RunState, snapshot_id: str) -> None:
        """Archive the tree that a run is about to record; replaces its previous archive.

        Files of base snapshots are archived already.
        """
        base = [self._tree.manifest(each) or {} for each in set(state.base_snapshots.values())]
        manifest = self._tree.manifest(snapshot_id) or {}
        new = {
            path: file
            for path, file in manifest.items()
            if all(each.get(path) != file for each in base)
        }
        if new:
            base_files.write_archive(self._workspace, state.run_id, new, self._files)

    def since_base(self, snapshot_id: str, changes: Sequence[FileChange]) -> str:
        """Return how files changed since a task began."""
        return self._diff(snapshot_id, changes, [snapshot_id])

    def since_recorded(self, state: RunState, changes: Sequence[FileChange]) -> str:
        """Return how files changed since a run recorded its tree."""
        assert state.tree is not None, state.run_id
        return self._diff(state.tree, changes, [state.run_id, *set(state.base_snapshots.values())])

    def _diff(self, before: str, changes: Sequence[FileChange], archives: Sequence[str]) -> str:
        manifest = self._tree.manifest(before) or {}
        shown = changes[:CHANGED_FILES_MAX]
        old = {each.path: manifest[each.path][0] for each in shown if each.path in manifest}
        kept: dict[str, bytes] = {}
        for name in archives:
            kept |= base_files.read_archive(self._workspace, name, set(old.values()))
        parts: list[str] = []
        characters_left = DIFF_CHARACTERS_MAX
        with RootedDirectory.open(self._workspace.root) as root:
            for each in shown:
                # A file that did not exist, or was removed, is compared as empty.
                was = b"" if each.how == "added" else kept.get(old.get(each.path, ""))
                now = b"" if each.how == "removed" else base_files.read_text(root, each.path)
                part = self._redactor.text(_file_diff(each.path, was, now))
                part = truncate(part, min(characters_left, FILE_DIFF_CHARACTERS_MAX))
                characters_left -= len(part)
                parts.append(part)
                if characters_left <= 0:
                    break
        return "\n".join(part for part in parts if part)


def _file_diff(path: str, was: bytes | None, now: bytes | None) -> str:
    if was is None or now is None:
        return f"--- {path}: no diff: not text, too large, or not archived\n"
    lines = (_lines(was), _lines(now))
    if max(map(len, lines)) > FILE_LINES_MAX:
        return f"--- {path}: no diff: too many lines\n"
    found = "".join(difflib.unified_diff(*lines, fromfile=f"a/{path}", tofile=f"b/{path}"))
    return found if found or was == now else f"--- {path}: only line endings changed\n"


def _lines(content: bytes) -> list[str]:
    return [f"{line}\n" for line in content.decode(errors="replace").splitlines()]


def truncate(text: str, characters: int) -> str:
    """Return the text, truncated to about `characters` and marked if it was longer."""
    return text if len(text) <= characters else f"{text[:characters]}\n… truncated …\n"
