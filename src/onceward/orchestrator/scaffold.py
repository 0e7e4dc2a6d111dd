"""Scaffold: create a workspace with scripted agents, in which a first run works at once.

Writes the files of `onceward init`. Existing files are kept. The configuration is written last, so
that an interrupted init can be repeated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from onceward.errors import Conflict
from onceward.journal import atomic_file
from onceward.keys.snapshot import OWN_FOLDERS
from onceward.orchestrator.config import CONFIG_NAME, SCHEMA_VERSION, TASKS_DIRECTORY
from onceward.orchestrator.models import RunLimits
from onceward.orchestrator.task_flow import AGENTS
from onceward.system import Files, SystemFiles

AGENTS_DIRECTORY: Final = "agents"
FIRST_TASK: Final = "T-0001"
EXAMPLE_TASK: Final = "T-0002"


@dataclass(frozen=True, kw_only=True, slots=True)
class Scaffold:
    """The created and the existing files of a new workspace."""

    #: A real path.
    workspace: Path
    #: Files that were created or extended, relative to the workspace.
    made: tuple[str, ...]
    #: Files that existed and were left unchanged.
    kept: tuple[str, ...]
    #: The first task to run.
    task_id: str


def create_workspace(
    directory: Path, *, example: bool = False, files: Files | None = None
) -> Scaffold:
    """Create a workspace in a directory; Conflict if it is a workspace already."""
    disk = files or SystemFiles()
    workspace = directory.resolve()
    if (workspace / CONFIG_NAME).exists():
        message = (
            f"{workspace / CONFIG_NAME} exists: this is a workspace already; nothing was written"
        )
        fix = "edit that file, or remove it and run `onceward init` again"
        raise Conflict(message, fix=fix, path=str(workspace / CONFIG_NAME))
    made: list[str] = []
    kept: list[str] = []
    for name, content in _documents(example=example).items():
        path = workspace / name
        if path.exists() or path.is_symlink():
            kept.append(name)
            continue
        disk.make_directories(path.parent)
        if name == CONFIG_NAME and _update_gitignore(workspace, disk):
            made.append(".gitignore")
        text = json.dumps(content, indent=2, ensure_ascii=False)
        atomic_file.write(path, f"{text}\n".encode(), files=disk)
        made.append(name)
    task_id = EXAMPLE_TASK if example else FIRST_TASK
    return Scaffold(workspace=workspace, made=tuple(made), kept=tuple(kept), task_id=task_id)


def _update_gitignore(workspace: Path, disk: Files) -> bool:
    """Add the directories of runs to .gitignore; return whether it was changed."""
    path = workspace / ".gitignore"
    before = path.read_bytes() if path.is_file() else b""
    known = {line.strip().strip(b"/") for line in before.splitlines()}
    missing = [f"/{name}/" for name in sorted(OWN_FOLDERS) if name.encode() not in known]
    if not missing:
        return False
    gap = b"" if not before or before.endswith(b"\n") else b"\n"
    added = "\n".join(["# What Onceward writes for itself.", *missing, ""]).encode()
    atomic_file.write(path, before + gap + added, files=disk)
    return True


def _documents(*, example: bool) -> dict[str, Mapping[str, Any]]:
    """Return the files of a new workspace in the order of writing."""
    tasks = (_FIRST, _EXAMPLE) if example else (_FIRST,)
    scenarios = _scenarios(example=example)
    return {
        **{f"{AGENTS_DIRECTORY}/{kind}.json": scenarios[kind] for kind in AGENTS},
        **{f"{TASKS_DIRECTORY}/{task['id']}.json": task for task in tasks},
        CONFIG_NAME: _config(),
    }


def _config() -> dict[str, Any]:
    limits = RunLimits()
    scripted = ["onceward", "agent", "script", "--type"]
    return {
        "schemaVersion": SCHEMA_VERSION,
        "agents": {
            kind: {"command": [*scripted, kind, f"{AGENTS_DIRECTORY}/{kind}.json"], "env": {}}
            for kind in AGENTS
        },
        "limits": {
            "rounds_max": limits.rounds_max,
            "attempts_max": limits.attempts_max,
            "restarts_max": limits.restarts_max,
            "heartbeat_seconds": _plain_number(limits.heartbeat_seconds),
            "heartbeats_missed_max": limits.heartbeats_missed_max,
            "timeout_seconds": {
                action: _plain_number(seconds) for action, seconds in limits.timeout_seconds.items()
            },
        },
        "tasks_dir": TASKS_DIRECTORY,
    }


def _plain_number(seconds: float) -> float:
    return int(seconds) if seconds == int(seconds) else seconds


_FIRST: Final[Mapping[str, Any]] = {
    "id": FIRST_TASK,
    "goal": "Write a greeting",
    "inputs": {"language": "English"},
    "expected_outputs": [{"path": "greeting.txt", "required": True}],
}
_EXAMPLE: Final[Mapping[str, Any]] = {
    "id": EXAMPLE_TASK,
    "goal": "Write a farewell that says who leaves",
    "expected_outputs": [{"path": "farewell.txt", "required": True}],
}


def _scenarios(*, example: bool) -> dict[str, dict[str, Any]]:
    """Return the scenario of each scripted agent."""
    builder: dict[str, Any] = {
        "actions": {
            "implement": _writing_steps("greeting.txt", "Hello!\n"),
            "implement_changes": _writing_steps("greeting.txt", "Hello, world!\n"),
        }
    }
    reviewer: dict[str, Any] = {"actions": {"review": [{"answer": {"status": "approved"}}]}}
    spec_maintainer: dict[str, Any] = {
        "actions": {"update_spec": [{"answer": {"status": "no_changes_needed"}}]}
    }
    if example:
        changes = {"status": "changes_requested", "comments": ["say who leaves"]}
        builder["tasks"] = {
            EXAMPLE_TASK: {
                "implement": _writing_steps("farewell.txt", "Goodbye!\n"),
                "implement_changes": _writing_steps("farewell.txt", "Goodbye from Ada!\n"),
            }
        }
        approval = [{"answer": {"status": "approved"}}]
        reviewer["tasks"] = {
            EXAMPLE_TASK: {"review": {"rounds": [[{"answer": changes}], approval]}}
        }
        spec_maintainer["tasks"] = {
            EXAMPLE_TASK: {
                "update_spec": [
                    {"write": {"path": "SPEC.md", "content": "A farewell says who leaves.\n"}},
                    {"answer": {"status": "updated", "artifacts": ["SPEC.md"]}},
                ]
            }
        }
    return {"builder": builder, "reviewer": reviewer, "spec_maintainer": spec_maintainer}


def _writing_steps(path: str, content: str) -> list[dict[str, Any]]:
    return [
        {"progress": f"writing {path}"},
        {"write": {"path": path, "content": content}},
        {"answer": {"tests": "pass", "artifacts": [path]}},
    ]
