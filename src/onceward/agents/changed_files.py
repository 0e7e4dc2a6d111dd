"""Changed files: which files a command changed since its first attempt, across crashes and retries.

The state before a command is durable before its program starts. After a kill and a rerun the answer
therefore lists all changes, not only those of the last attempt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from onceward.agents import artifacts
from onceward.agents.answer_cache import AgentAnswer, run_digest
from onceward.errors import InvalidArgument, OncewardError, StorageError
from onceward.journal import atomic_file
from onceward.keys import compact_json, loads, snapshot
from onceward.keys.snapshot import DigestCache
from onceward.system import Files, SystemFiles

#: Number of commands whose baseline is kept; recent commands may be sent again.
BASELINES_MAX: Final = 10
#: Sequence number, key and run: another run starts from another tree.
_NAME: Final = re.compile(r"\d{8}-[0-9a-f]{64}-[0-9a-f]{12}\.json")

#: The SHA-256 of each file by its path.
FileDigests = Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeDifference:
    """The difference between two trees: sorted paths."""

    #: New files and files with different content.
    changed: tuple[str, ...]
    deleted: tuple[str, ...]

    def __bool__(self) -> bool:
        """Return whether anything changed."""
        return bool(self.changed or self.deleted)


def read_tree(
    workspace: Path, digests: DigestCache | None = None, *, also: Iterable[str] = ()
) -> FileDigests:
    """Return the digests of all tracked files; with `digests`, reread only files that may differ.

    `also` names files to include although no snapshot contains them, such as ignored ones.
    """
    found = {file.path: file.sha256 for file in snapshot(workspace, digests=digests).files}
    for path in also:
        with suppress(OncewardError):  # Missing, or not a possible artifact.
            found.setdefault(path, artifacts.describe(workspace, path)["sha256"])
    return found


def difference(before: FileDigests, after: FileDigests) -> TreeDifference:
    """Return which files differ between two trees."""
    return TreeDifference(
        changed=tuple(sorted(path for path in after if before.get(path) != after[path])),
        deleted=tuple(sorted(path for path in before if path not in after)),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Baseline:
    """The tree before a command."""

    #: The tree before its first attempt, or before a redo of work that had been done.
    tree: FileDigests
    #: Changes of the work before a redo that are still there: the redo's answer names them, too.
    made: Sequence[str] = ()
    deleted: Sequence[str] = ()

    def is_changed(self, now: FileDigests) -> bool:
        """Return whether the command has changed the tree; a redo counts only its own changes."""
        return bool(difference(self.tree, now))

    def changes(self, now: FileDigests) -> TreeDifference:
        """Return what the command's answer names."""
        before = {path: digest for path, digest in self.tree.items() if path not in self.made}
        return difference({**dict.fromkeys(self.deleted, ""), **before}, now)


class BaselineStore:
    """Stores the tree before each of the most recent commands."""

    def __init__(
        self,
        directory: Path | None,
        *,
        run: str = "",
        digests: DigestCache | None = None,
        files: Files | None = None,
    ) -> None:
        """Store the baselines of a run in `directory`; without one, store nothing."""
        self._directory = directory
        self._run = run_digest(run)
        self._digests = digests
        self._files = files or SystemFiles()

    def get_or_record(self, key: str, workspace: Path, *, also: Iterable[str] = ()) -> Baseline:
        """Return the recorded tree before a command, or record and return the current one."""
        for recorded in reversed(self._names()):
            if recorded.endswith(self._suffix(key)):
                assert self._directory is not None
                found = _read(self._directory / recorded)
                if found is not None:
                    return found
        return self._record(key, Baseline(tree=read_tree(workspace, self._digests, also=also)))

    def record_redo(
        self, key: str, workspace: Path, done: AgentAnswer, *, also: Iterable[str] = ()
    ) -> None:
        """Record the current tree before work that is done again after this answer."""
        kept = [each for each in done.artifacts if artifacts.check(workspace, each) is None]
        made = [*(each["path"] for each in kept), *done.payload.get("other_changes", ())]
        tree = read_tree(workspace, self._digests, also=also)
        self._record(key, Baseline(tree=tree, made=made, deleted=done.payload.get("deleted", ())))

    def _record(self, key: str, baseline: Baseline) -> Baseline:
        """Record the tree before a command, in place of an earlier one of the same key."""
        if self._directory is None:
            return baseline
        recorded = self._names()
        number = int(recorded[-1][:8]) + 1 if recorded else 1
        kept = f"{number:08d}-{self._suffix(key)}"
        content = compact_json(asdict(baseline))
        atomic_file.write(self._directory / kept, content, files=self._files)
        for old in recorded:
            if old in recorded[: -BASELINES_MAX + 1] or old.endswith(self._suffix(key)):
                self._files.remove(self._directory / old)
        return baseline

    def _suffix(self, key: str) -> str:
        return f"{key.removeprefix('ik:')}-{self._run}.json"

    def _names(self) -> list[str]:
        if self._directory is None:
            return []
        return [each for each in self._files.names(self._directory) if _NAME.fullmatch(each)]


def _read(path: Path) -> Baseline | None:
    """Return a recorded tree; None if it cannot be read, so that it is recorded again."""
    try:
        content: Any = loads(path.read_bytes())
        found = Baseline(**content)
    except (OSError, InvalidArgument, StorageError, TypeError):
        return None
    if not isinstance(found.tree, dict) or not isinstance(found.made, list):
        return None
    texts = (*found.tree.values(), *found.made, *found.deleted)
    return found if all(isinstance(each, str) for each in texts) else None
