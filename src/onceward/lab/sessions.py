"""Sessions: one sitting at the Lab and its task, kept so that it can be resumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from onceward.errors import StorageError
from onceward.journal import atomic
from onceward.lab.paths import LabPaths, check_session_id
from onceward.seams import Clock, Files, Ids, SystemClock, SystemFiles, timestamp

_BYTES_MAX: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """One sitting at the Lab; two servers may share it."""

    session_id: str
    created_at: str
    #: What somebody was asked to do in it: `{"type": "compare", "experimentId": …}` or the like.
    task: Mapping[str, str] | None = None


def open_session(
    paths: LabPaths,
    session_id: str | None = None,
    *,
    files: Files | None = None,
    clock: Clock | None = None,
    ids: Ids | None = None,
) -> Session:
    """Resume a session by its id, or begin one; either way it is on disk when this returns."""
    disk, made = files or SystemFiles(), ids or Ids()
    wanted = made.new("lab") if session_id is None else check_session_id(session_id)
    found = None if session_id is None else _read(paths, wanted, disk)
    if found is not None:
        return found
    now = timestamp((clock or SystemClock()).now())
    session = Session(session_id=wanted, created_at=now)
    save_session(paths, session, files=disk)
    return session


def save_task(
    paths: LabPaths, session: Session, task: Mapping[str, str] | None, *, files: Files | None = None
) -> Session:
    """Remember what is asked of whoever opens this session's page."""
    changed = replace(session, task=task)
    save_session(paths, changed, files=files)
    return changed


def save_session(paths: LabPaths, session: Session, *, files: Files | None = None) -> None:
    """Put a session on disk, readable by its owner only."""
    record = {
        "schemaVersion": 1,
        "sessionId": session.session_id,
        "createdAt": session.created_at,
        "task": session.task,
    }
    path = paths.session(session.session_id) / "session.json"
    atomic.write(path, orjson.dumps(record) + b"\n", files=files)


def _read(paths: LabPaths, session_id: str, files: Files) -> Session | None:
    """Return the stored session; None when there is none."""
    path = paths.session(session_id) / "session.json"
    text = atomic.read(path, _BYTES_MAX, files=files)
    if text is None:
        return None
    try:
        return _session(session_id, orjson.loads(text))
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, AssertionError) as exc:
        message = f"{path} does not hold a session"
        fix = "remove it; request ids and feedback of the session are kept elsewhere"
        raise StorageError(message, fix=fix, path=str(path)) from exc


def _session(session_id: str, record: Any) -> Session:  # noqa: ANN401 - whatever the file held
    created_at, task = record["createdAt"], record.get("task")
    assert isinstance(created_at, str), session_id
    assert task is None or all(isinstance(each, str) for each in task.values()), session_id
    return Session(session_id=session_id, created_at=created_at, task=task)
