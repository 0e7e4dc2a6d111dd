"""Sessions: store a Lab session and its task, so that it can be resumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from onceward.errors import StorageError
from onceward.journal import atomic_file
from onceward.lab.lab_paths import LabPaths, check_session_id
from onceward.system import Clock, Files, Ids, SystemClock, SystemFiles, timestamp

_BYTES_MAX: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class LabSession:
    """One session of the Lab; two servers may share it."""

    session_id: str
    created_at: str
    #: The task of the person: `{"type": "compare", "experimentId": …}` or a review.
    task: Mapping[str, str] | None = None


def open_session(
    paths: LabPaths,
    session_id: str | None = None,
    *,
    files: Files | None = None,
    clock: Clock | None = None,
    ids: Ids | None = None,
) -> LabSession:
    """Resume a session by its id, or create one; it is durable when this returns."""
    disk, made = files or SystemFiles(), ids or Ids()
    opened = made.new("lab") if session_id is None else check_session_id(session_id)
    found = None if session_id is None else _read(paths, opened, disk)
    if found is not None:
        return found
    now = timestamp((clock or SystemClock()).now())
    session = LabSession(session_id=opened, created_at=now)
    save_session(paths, session, files=disk)
    return session


def save_task(
    paths: LabPaths,
    session: LabSession,
    task: Mapping[str, str] | None,
    *,
    files: Files | None = None,
) -> LabSession:
    """Store the task that this session's page shows."""
    changed = replace(session, task=task)
    save_session(paths, changed, files=files)
    return changed


def save_session(paths: LabPaths, session: LabSession, *, files: Files | None = None) -> None:
    """Write a session to disk, readable by its owner only."""
    record = {
        "schemaVersion": 1,
        "sessionId": session.session_id,
        "createdAt": session.created_at,
        "task": session.task,
    }
    path = paths.session(session.session_id) / "session.json"
    atomic_file.write(path, orjson.dumps(record) + b"\n", files=files)


def _read(paths: LabPaths, session_id: str, files: Files) -> LabSession | None:
    """Return the stored session; None when there is none."""
    path = paths.session(session_id) / "session.json"
    text = atomic_file.read(path, _BYTES_MAX, files=files)
    if text is None:
        return None
    try:
        return _session(session_id, orjson.loads(text))
    except (KeyError, TypeError, AttributeError, ValueError) as exc:  # ValueError: not JSON.
        message = f"{path} is not a valid session file; it was left unchanged"
        fix = (
            "remove it, and run the command again: only its open task is lost; "
            "request ids and feedback are in other files"
        )
        raise StorageError(message, fix=fix, path=str(path)) from exc


def _session(session_id: str, record: Any) -> LabSession:  # noqa: ANN401 - whatever the file held
    created_at, task = record["createdAt"], record.get("task")
    is_task = task is None or all(isinstance(each, str) for each in task.values())
    if not isinstance(created_at, str) or not is_task:
        message = "a field has the wrong type"
        raise ValueError(message)
    return LabSession(session_id=session_id, created_at=created_at, task=task)
