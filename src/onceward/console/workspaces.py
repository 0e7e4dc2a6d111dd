"""Workspaces: find the workspace directories whose runs a console shows, named or registered.

A missing directory is skipped, and listed again once it exists.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from onceward.errors import NotFound
from onceward.orchestrator.workspace_registry import (
    WorkspaceRegistry,
    workspace_exists,
    workspace_id,
)

#: How many characters of an unknown id an error repeats.
_SHOWN_CHARACTERS: Final = 40


class Workspaces:
    """The workspaces of one console."""

    def __init__(self, named: Sequence[Path] = (), *, home: Path | None = None) -> None:
        """Use these workspaces, and those in which a run was started on this machine."""
        self._named = tuple(Path(os.path.realpath(each)) for each in named)
        self._registry = WorkspaceRegistry(home=home)

    def list(self) -> tuple[Path, ...]:
        """Return the existing workspaces: first the named ones, then the others by path."""
        there = [each for each in self._named if workspace_exists(each)]
        return tuple(dict.fromkeys([*there, *self._registry.workspaces()]))

    def find(self, id_: str) -> Path:
        """Return the workspace with this id; NotFound if there is none."""
        for each in self.list():
            if workspace_id(each) == id_:
                return each
        message = f"there is no workspace {id_[:_SHOWN_CHARACTERS]!r} here"
        fix = "name it when the server is started: `onceward up --workspace DIR`"
        raise NotFound(message, fix=fix, field="workspace")


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkspaceItem:
    """A workspace in a list."""

    id: str
    #: Bytes that are not UTF-8 are escaped.
    path: str


def workspace_item(path: Path) -> WorkspaceItem:
    """Return a workspace for a list."""
    shown = os.fsencode(path).decode(errors="backslashreplace")
    return WorkspaceItem(id=workspace_id(path), path=shown)
