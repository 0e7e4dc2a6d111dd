"""Tasks: read and validate task files such as `tasks/T-0042.json` before a run starts.

Warns about inputs that look ephemeral, which would change the key of every attempt. Secrets are
redacted before anything else sees the task.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from onceward.agents.artifacts import check_path
from onceward.errors import FileMissing, InvalidArgument, NotCanonical, OncewardError
from onceward.keys import canonical_json, lint
from onceward.keys.canonical import join_path
from onceward.orchestrator.config import TASKS_DIRECTORY, Document, closest_name, json_type_name
from onceward.orchestrator.models import AgentTask
from onceward.system.redaction import Redactor
from onceward.system.safe_paths import RootedDirectory

#: A task is part of every command, and a command is one line of at most 256 KiB.
TASK_BYTES_MAX: Final = 128 * 1024
OUTPUTS_MAX: Final = 1000
#: Maximum number of tasks listed in a message.
NAMED_MAX: Final = 20
FIELDS: Final = ("id", "goal", "inputs", "expected_outputs")
OUTPUT_FIELDS: Final = ("path", "description", "required")
#: Names of inputs that the run sets.
RESERVED: Final = ("goal", "round", "previous", "changes")
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SUFFIX: Final = ".json"

Warn = Callable[[str], None]


def _ignore_warning(_: str) -> None:
    pass


def load_task(
    workspace: Path,
    task_id: str,
    *,
    tasks_dir: str = TASKS_DIRECTORY,
    redactor: Redactor | None = None,
    warn: Warn = _ignore_warning,
) -> AgentTask:
    """Return a task; `warn` is called with probable mistakes that do not stop it.

    Secrets known to `redactor` are redacted. Default: secrets in the environment.
    """
    if not _ID.fullmatch(task_id):
        message = f"task: {task_id!r:.80} is not a task id"
        fix = "pass 1 to 64 of A-Z, a-z, 0-9, `.`, `-` and `_`; the first is a letter or digit"
        raise InvalidArgument(message, fix=fix, field="task")
    name = f"{task_id}{_SUFFIX}"
    try:
        with RootedDirectory.open(workspace.resolve(), tasks_dir) as directory:
            shown = str(workspace / tasks_dir / name)
            document = Document.read(directory, name, shown=shown, most=TASK_BYTES_MAX)
    except FileMissing as exc:
        raise _unknown(workspace, task_id, tasks_dir) from exc
    task = _task(document, task_id)
    for finding in lint(task.inputs):
        warn(f"{shown}: {finding.path} {finding.reason}: a different value gives a different key")
    return _without_secrets(document, task, redactor or Redactor.from_environment(os.environ), warn)


def list_tasks(workspace: Path, *, tasks_dir: str = TASKS_DIRECTORY) -> list[str]:
    """Return the sorted ids of all task files, including invalid ones."""
    try:
        with RootedDirectory.open(workspace.resolve(), tasks_dir) as directory:
            names = [entry.name for entry in directory.entries()]
    except FileMissing:
        return []
    found = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
    return [each for each in found if _ID.fullmatch(each)]


def _unknown(workspace: Path, task_id: str, tasks_dir: str) -> FileMissing:
    known = list_tasks(workspace, tasks_dir=tasks_dir)
    place = workspace / tasks_dir
    if not known:
        message = f"there is no task {task_id}: {place} has no tasks"
        return FileMissing(message, fix=f"write {place / task_id}{_SUFFIX}", tasks=known)
    more = f" and {len(known) - NAMED_MAX} more" if len(known) > NAMED_MAX else ""
    message = f"there is no task {task_id}; the tasks are {', '.join(known[:NAMED_MAX])}{more}"
    meant = closest_name(task_id, known)
    fix = f"{f'pass {meant}, or ' if meant else ''}write {place / task_id}{_SUFFIX}"
    return FileMissing(message, fix=fix, tasks=known)


def _task(document: Document, task_id: str) -> AgentTask:
    fields = document.value
    document.check_names("", fields, FIELDS)
    found = fields.get("id", task_id)
    if found != task_id:
        problem = f"is {found!r:.80}, but the file is named {task_id}{_SUFFIX}"
        document.refuse("id", problem, f'write "id": "{task_id}", or rename the file')
    if "goal" not in fields:
        document.refuse("goal", "is missing", 'write "goal": "what is to be done"')
    return AgentTask(
        id=task_id,
        goal=document.text("goal", fields["goal"], '"goal": "what is to be done"'),
        inputs=_inputs(document, fields.get("inputs", {})),
        expected_outputs=_outputs(document, fields.get("expected_outputs", [])),
    )


def _inputs(document: Document, value: object) -> Mapping[str, Any]:
    table = document.table("inputs", value, '"inputs": {"name": "value"}')
    for name in RESERVED:
        if name in table:
            fix = "give it another name" if name != "goal" else "write it beside inputs, not in it"
            document.refuse(f"inputs.{name}", "is reserved: every run sets it", fix)
    try:
        canonical_json(table, root="inputs")
    except NotCanonical as exc:
        document.refuse(exc.path, exc.message.removeprefix(f"{exc.path}: "), exc.fix)
    return table


def _outputs(document: Document, value: object) -> tuple[Mapping[str, Any], ...]:
    example = '[{"path": "src/main.py", "required": true}]'
    if not isinstance(value, list):
        problem = f"must be a list, not {json_type_name(value)}"
        document.refuse("expected_outputs", problem, f"write {example}")
    if len(value) > OUTPUTS_MAX:
        problem = f"has {len(value)} files; at most {OUTPUTS_MAX} are allowed"
        document.refuse("expected_outputs", problem, "split it into several tasks")
    found = [_output(document, f"expected_outputs[{n}]", each) for n, each in enumerate(value)]
    seen: set[str] = set()
    for place, each in enumerate(found):
        if each["path"] in seen:
            problem = f"names {each['path']!r} a second time"
            document.refuse(f"expected_outputs[{place}].path", problem, "remove it")
        seen.add(each["path"])
    return tuple(found)


def _output(document: Document, where: str, value: object) -> Mapping[str, Any]:
    example = '{"path": "src/main.py", "required": true}'
    table = document.table(where, value, example)
    document.check_names(where, table, OUTPUT_FIELDS)
    if "path" not in table:
        document.refuse(f"{where}.path", "is missing", f"write {example}")
    path = document.text(f"{where}.path", table["path"], example)
    try:
        check_path(path)
    except OncewardError as exc:
        fix = "name a file inside the workspace, relative to it, such as src/main.py"
        document.refuse(f"{where}.path", exc.message, fix)
    required = table.get("required", True)
    if not isinstance(required, bool):
        problem = f"must be true or false, not {json_type_name(required)}"
        document.refuse(f"{where}.required", problem, 'write "required": true')
    found: dict[str, Any] = {"path": path}
    if "description" in table:
        place = f"{where}.description"
        found["description"] = document.text(place, table["description"], '"what it holds"')
    return {**found, "required": required}


def _without_secrets(
    document: Document, task: AgentTask, redactor: Redactor, warn: Warn
) -> AgentTask:
    before = task.to_record()
    after: Any = redactor.value(before)
    for path in _changed(before, after, ""):
        fix = "pass it to the agent in its environment instead"
        warn(f"{document.shown}: {path} contains a secret, which is redacted: {fix}")
    return task if after == before else AgentTask.from_record(after)


def _changed(before: Any, after: Any, path: str) -> list[str]:  # noqa: ANN401 - any JSON
    """Return the paths whose values differ."""
    if before == after:
        return []
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        places = [_changed(before[name], after[name], join_path(path, name)) for name in before]
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = zip(before, after, strict=True)
        places = [_changed(a, b, join_path(path, n)) for n, (a, b) in enumerate(pairs)]
    else:
        return [path]
    return [each for some in places for each in some]
