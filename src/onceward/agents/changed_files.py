"""Changed files: which files a command changed since its first attempt, across crashes and retries.

The state before a command is durable before its program starts. After a kill and a rerun the answer
therefore lists all changes, not only those of the last attempt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from onceward.agents import artifacts
from onceward.agents.answer_cache import run_digest
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

    def get_or_record(self, key: str, workspace: Path, *, also: Iterable[str] = ()) -> FileDigests:
        """Return the recorded tree before a command, or record and return the current one."""
        if self._directory is None:
            return read_tree(workspace, self._digests, also=also)
        named = f"{key.removeprefix('ik:')}-{self._run}.json"
        recorded = self._names()
        name = next((each for each in recorded if each.endswith(named)), None)
        if name is not None:
            found = _read(self._directory / name)
            if found is not None:
                return found
        now = read_tree(workspace, self._digests, also=also)
        number = int(recorded[-1][:8]) + 1 if recorded else 1
        kept = name or f"{number:08d}-{named}"
        atomic_file.write(self._directory / kept, compact_json(now), files=self._files)
        for old in recorded[: -BASELINES_MAX + 1]:
            self._files.remove(self._directory / old)
        return now

    def _names(self) -> list[str]:
        assert self._directory is not None
        return [each for each in self._files.names(self._directory) if _NAME.fullmatch(each)]


def _read(path: Path) -> FileDigests | None:
    """Return a recorded tree; None if it cannot be read, so that it is recorded again."""
    try:
        found = loads(path.read_bytes())
    except (OSError, InvalidArgument, StorageError):
        return None
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        return None
    return found
