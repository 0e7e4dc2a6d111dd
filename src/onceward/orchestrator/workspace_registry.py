"""Workspace registry: the workspaces of this machine in which runs were started.

One small file per workspace in Onceward's home directory. A run never fails because of it.
Workspaces that no longer exist are skipped.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from onceward.errors import OncewardError
from onceward.journal import atomic_file
from onceward.stores.store_urls import home as home_of_onceward
from onceward.system import Files, SystemFiles

SCHEMA_VERSION: Final = 1
#: Number of entries beyond which missing workspaces are removed, and no more are read.
WORKSPACES_MAX: Final = 1_000
#: A path has at most 4,096 bytes, each of which takes at most six characters in JSON.
_NOTE_BYTES_MAX: Final = 32 * 1024
_ID_DIGITS: Final = 12
_NAME: Final = re.compile(rf"[0-9a-f]{{{_ID_DIGITS}}}\.json")


def workspace_id(path: Path) -> str:
    """Return a short id of a workspace: a digest of its real path."""
    return hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:_ID_DIGITS]


class WorkspaceRegistry:
    """The known workspaces of one home directory."""

    def __init__(self, *, home: Path | None = None, files: Files | None = None) -> None:
        """Use `home`. Default: the home directory of the environment."""
        self._folder = (home or home_of_onceward()) / "workspaces"
        self._files = files or SystemFiles()
        #: Entries read before. An entry never changes: its name is a digest of its path.
        self._known: dict[str, Path] = {}

    def add(self, workspace: Path) -> None:
        """Register a workspace; failures are ignored."""
        with suppress(OncewardError, OSError):
            name = f"{workspace_id(workspace)}.json"
            if self._path_in(name) is not None:
                return
            self._files.make_directories(self._folder)
            # Paths need not be valid Unicode; the standard library's encoder accepts them all.
            noted = {"schemaVersion": SCHEMA_VERSION, "path": os.path.realpath(workspace)}
            line = json.dumps(noted).encode() + b"\n"
            atomic_file.write(self._folder / name, line, files=self._files)
            self._remove_missing()

    def workspaces(self) -> list[Path]:
        """Return the registered workspaces that exist, sorted; damaged entries are skipped."""
        try:
            names = self._names()[:WORKSPACES_MAX]
        except OncewardError:
            return []
        found = [self._path_in(name) for name in names]
        return sorted(path for path in found if path is not None and workspace_exists(path))

    def _names(self) -> list[str]:
        return [each for each in self._files.names(self._folder) if _NAME.fullmatch(each)]

    def _path_in(self, name: str) -> Path | None:
        """Return the path of an entry if it matches the entry's name, else None."""
        if name in self._known:
            return self._known[name]
        try:
            with closing(self._files.open_read(self._folder / name)) as file:
                path = Path(json.loads(file.read(0, _NOTE_BYTES_MAX))["path"])
            is_valid = path.is_absolute() and f"{workspace_id(path)}.json" == name
        except (OncewardError, OSError, ValueError, TypeError, KeyError, RecursionError):
            return None
        if is_valid:
            self._known[name] = path
        return self._known.get(name)

    def _remove_missing(self) -> None:
        """Remove entries of missing workspaces if there are too many entries."""
        names = self._names()
        if len(names) <= WORKSPACES_MAX:
            return
        for name in names:
            path = self._path_in(name)
            if path is None or not workspace_exists(path):
                self._files.remove(self._folder / name)


def workspace_exists(path: Path) -> bool:
    """Return whether a workspace exists and is accessible."""
    try:
        return path.is_dir()
    except (OSError, ValueError):  # A parent is not accessible, or the path is invalid.
        return False
