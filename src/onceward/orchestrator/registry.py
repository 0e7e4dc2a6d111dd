"""Registry: in which directories of this machine runs were started, for who looks at all of them.

One small file for each workspace in Onceward's home. No run fails because of it, and a workspace
that is gone is passed over. Knows no run.
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
from onceward.journal import atomic
from onceward.seams import Files, SystemFiles
from onceward.stores.opening import home as home_of_onceward

SCHEMA_VERSION: Final = 1
#: Beyond so many, those that are gone are forgotten, and no more are read.
WORKSPACES_MAX: Final = 1_000
#: A path has at most 4,096 bytes, each of which may be written with six characters.
_NOTE_BYTES_MAX: Final = 32 * 1024
_ID_DIGITS: Final = 12
_NAME: Final = re.compile(rf"[0-9a-f]{{{_ID_DIGITS}}}\.json")


def workspace_id(path: Path) -> str:
    """Return what names a workspace where its path cannot: the same by whatever way one comes."""
    return hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:_ID_DIGITS]


class Registry:
    """The workspaces that one home knows."""

    def __init__(self, *, home: Path | None = None, files: Files | None = None) -> None:
        """Use this home, else that of the environment."""
        self._folder = (home or home_of_onceward()) / "workspaces"
        self._files = files or SystemFiles()
        #: What notes said; a note is named after what it says, so it never says anything else.
        self._known: dict[str, Path] = {}

    def add(self, workspace: Path) -> None:
        """Note that there are runs here; if that cannot be noted, nobody is the worse for it."""
        with suppress(OncewardError, OSError):
            name = f"{workspace_id(workspace)}.json"
            if self._path_in(name) is not None:
                return
            self._files.make_directories(self._folder)
            # Not every path is text: the standard library's encoder takes them all.
            noted = {"schemaVersion": SCHEMA_VERSION, "path": os.path.realpath(workspace)}
            line = json.dumps(noted).encode() + b"\n"
            atomic.write(self._folder / name, line, files=self._files)
            self._forget_gone()

    def workspaces(self) -> list[Path]:
        """Return the workspaces that are known and there, by path; a damaged note is none."""
        try:
            names = self._names()[:WORKSPACES_MAX]
        except OncewardError:
            return []
        found = [self._path_in(name) for name in names]
        return sorted(path for path in found if path is not None and is_there(path))

    def _names(self) -> list[str]:
        return [each for each in self._files.names(self._folder) if _NAME.fullmatch(each)]

    def _path_in(self, name: str) -> Path | None:
        """Return the path in a note, if it is the one that the note is named after."""
        if name in self._known:
            return self._known[name]
        try:
            with closing(self._files.open_read(self._folder / name)) as file:
                path = Path(json.loads(file.read(0, _NOTE_BYTES_MAX))["path"])
            is_its_own = path.is_absolute() and f"{workspace_id(path)}.json" == name
        except (OncewardError, OSError, ValueError, TypeError, KeyError, RecursionError):
            return None
        if is_its_own:
            self._known[name] = path
        return self._known.get(name)

    def _forget_gone(self) -> None:
        """Keep the folder from growing: of too many notes, take those away of what is gone."""
        names = self._names()
        if len(names) <= WORKSPACES_MAX:
            return
        for name in names:
            path = self._path_in(name)
            if path is None or not is_there(path):
                self._files.remove(self._folder / name)


def is_there(path: Path) -> bool:
    """Say whether a workspace exists, as far as we may know."""
    try:
        return path.is_dir()
    except (OSError, ValueError):  # Somebody closed a directory on the way; or it is no path.
        return False
