"""Trees: which files a command has changed since it was first begun, over crashes and retries.

The state before a command is on disk before its program starts. So a program that is killed and
runs again is answered with all that changed, not only with what the second run did.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from onceward.agents import artifacts
from onceward.agents.cache import run_digest
from onceward.errors import InvalidArgument, OncewardError, StorageError
from onceward.journal import atomic
from onceward.keys import compact_json, loads, snapshot
from onceward.keys.snapshot import Digests
from onceward.seams import Files, SystemFiles

#: Of how many commands the state before is kept; the last ones may be asked for again.
KEPT_MAX: Final = 10
#: A number, the key, and the run: another run begins with another tree.
_NAME: Final = re.compile(r"\d{8}-[0-9a-f]{64}-[0-9a-f]{12}\.json")

#: The content of each file by its path.
Tree = Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """What became of a tree, by path, sorted."""

    #: New, or with other content.
    changed: tuple[str, ...]
    deleted: tuple[str, ...]

    def __bool__(self) -> bool:
        """Say whether anything changed."""
        return bool(self.changed or self.deleted)


def tree(workspace: Path, digests: Digests | None = None, *, also: Iterable[str] = ()) -> Tree:
    """Read all tracked files of a workspace; with digests, only those that may have changed.

    `also` names files that count though no snapshot holds them, such as ignored ones.
    """
    found = {file.path: file.sha256 for file in snapshot(workspace, digests=digests).files}
    for path in also:
        with suppress(OncewardError):  # Not there, or nothing that can be an artifact.
            found.setdefault(path, artifacts.describe(workspace, path)["sha256"])
    return found


def difference(before: Tree, after: Tree) -> Difference:
    """Compare two states."""
    return Difference(
        changed=tuple(sorted(path for path in after if before.get(path) != after[path])),
        deleted=tuple(sorted(path for path in before if path not in after)),
    )


class Beginnings:
    """The state of a workspace before each of the last commands."""

    def __init__(
        self,
        directory: Path | None,
        *,
        run: str = "",
        digests: Digests | None = None,
        files: Files | None = None,
    ) -> None:
        """Keep those of a run in a directory, or, without one, only for the moment."""
        self._directory = directory
        self._run = run_digest(run)
        self._digests = digests
        self._files = files or SystemFiles()

    def of(self, key: str, workspace: Path, *, also: Iterable[str] = ()) -> Tree:
        """Return the state before a command: as recorded, else as it is, which is recorded now."""
        if self._directory is None:
            return tree(workspace, self._digests, also=also)
        named = f"{key.removeprefix('ik:')}-{self._run}.json"
        recorded = self._names()
        name = next((each for each in recorded if each.endswith(named)), None)
        if name is not None:
            found = _read(self._directory / name)
            if found is not None:
                return found
        now = tree(workspace, self._digests, also=also)
        number = int(recorded[-1][:8]) + 1 if recorded else 1
        kept = name or f"{number:08d}-{named}"
        atomic.write(self._directory / kept, compact_json(now), files=self._files)
        for old in recorded[: -KEPT_MAX + 1]:
            self._files.remove(self._directory / old)
        return now

    def _names(self) -> list[str]:
        assert self._directory is not None
        return [each for each in self._files.names(self._directory) if _NAME.fullmatch(each)]


def _read(path: Path) -> Tree | None:
    """Return what was recorded; None when it cannot be read, for then it is recorded anew."""
    try:
        found = loads(path.read_bytes())
    except (OSError, InvalidArgument, StorageError):
        return None
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        return None
    return found
