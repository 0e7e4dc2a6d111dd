"""Workspace: paths of a run's files in the workspace, and JSON files with a checksum.

Receipts and manifests are such files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import orjson

from onceward.agents import program_lock
from onceward.errors import InvalidArgument, StorageError
from onceward.journal import Record, atomic_file
from onceward.keys import canonical_json
from onceward.system import Files

_RUN_ID: Final = re.compile(r"run-[0-9]{8}-[0-9]{6}-[0-9a-f]{8}")
_TASK_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_BYTES_MAX: Final = 256 * 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Workspace:
    """The directory that agents work in, with Onceward's own folders."""

    root: Path

    def ledger(self, run_id: str) -> Path:
        """Return the path of a run's ledger."""
        return self.root / "events" / f"{check_run_id(run_id)}.ndjson"

    def lock(self, run_id: str) -> Path:
        """Return the lock file of a run."""
        return self.root / "state" / "locks" / f"{check_run_id(run_id)}.lock"

    def agents_lock(self, run_id: str) -> Path:
        """Return the lock file that the agents of a run hold."""
        return self.root / "state" / "locks" / f"{check_run_id(run_id)}.agents.lock"

    def orchestrator_lock(self) -> Path:
        """Return the lock file of the workspace's orchestrator."""
        return self.root / "state" / "locks" / "orchestrator.lock"

    def state(self, run_id: str | None = None) -> Path:
        """Return the cached state of a run. Default: of the run worked on last."""
        state = self.root / "state"
        return state / "run.json" if run_id is None else state / "runs" / f"{run_id}.json"

    def digests(self) -> Path:
        """Return the cache of file digests."""
        return self.root / "state" / "digests.json"

    def cache(self, agent: str) -> Path:
        """Return the directory of cached answers of a type of agent."""
        return self.root / "state" / "cache" / agent

    def program_lock(self, agent: str) -> Path:
        """Return the lock file of the program that a type of agent wraps."""
        return self.cache(agent) / program_lock.FILE_NAME

    def receipt(self, task_id: str, run_id: str, step: int) -> Path:
        """Return the receipt of one command."""
        name = f"{check_run_id(run_id)}-step-{step}.json"
        return self.root / "receipts" / check_task_id(task_id) / name

    def manifest(self, snapshot_id: str) -> Path:
        """Return the manifest of a snapshot."""
        return self.root / "snapshots" / f"{snapshot_id}.manifest.json"

    def base(self, name: str) -> Path:
        """Return the base-file archive of a snapshot, or of a run's last recorded tree."""
        return self.root / "state" / "base" / f"{name}.zip"

    def kept(self, run_id: str) -> Path:
        """Return the directory of a run's file backups."""
        return self.root / "state" / "kept" / check_run_id(run_id)

    def retention(self) -> Path:
        """Return the file that records which runs may lack manifests."""
        return self.root / "state" / "retention.json"

    def transcript(self, run_id: str) -> Path:
        """Return the transcript of a run."""
        return self.root / "transcripts" / f"{check_run_id(run_id)}.txt"


def is_run_id(name: str) -> bool:
    """Return whether a name is a run id."""
    return bool(_RUN_ID.fullmatch(name))


def new_run_id(now: datetime, number: str, others: Sequence[str]) -> str:
    """Return a run id that sorts after all others, even if the clock was set back."""
    latest = max(others, default="")
    if latest >= f"run-{now:%Y%m%d-%H%M%S}-{number}":
        with suppress(ValueError, OverflowError):  # Not a valid time, or the maximum one.
            now = datetime.strptime(latest[4:19], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
            now += timedelta(seconds=1)
    return f"run-{now:%Y%m%d-%H%M%S}-{number}"


def check_run_id(run_id: str) -> str:
    """Return a run id; refuse anything that is not safe in a path."""
    if not is_run_id(run_id):
        message = f"run: {run_id!r:.60} is not a run id such as run-20260206-120000-1a2b3c4d"
        raise InvalidArgument(
            message, fix="pass an id that `onceward runs list` shows", field="run"
        )
    return run_id


def check_task_id(task_id: str) -> str:
    """Return a task id; refuse anything that is not safe in a path."""
    if not _TASK_ID.fullmatch(task_id):
        message = f"task: {task_id!r:.80} is not a task id such as T-0042"
        fix = "pass 1 to 64 of A-Z, a-z, 0-9, `.`, `-` and `_`; the first is a letter or digit"
        raise InvalidArgument(message, fix=fix, field="task")
    return task_id


def seal(record: Record) -> bytes:
    """Return a record with its checksum as indented JSON."""
    sealed = {**record, "sum": digest(record)}
    return orjson.dumps(sealed, option=orjson.OPT_INDENT_2) + b"\n"


def write_sealed(path: Path, record: Record, files: Files) -> str:
    """Write a record atomically and return its checksum."""
    files.make_directories(path.parent)
    atomic_file.write(path, seal(record), files=files)
    return digest(record)


def read_sealed(path: Path, files: Files) -> Record | None:
    """Return the record of a file; None if it is missing, StorageError if it is damaged."""
    data = atomic_file.read(path, _BYTES_MAX, files=files)
    if data is None:
        return None
    try:
        record: Any = orjson.loads(data)
        found = record.pop("sum")
        if found == digest(record):
            sealed: Record = record
            return sealed
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, InvalidArgument):
        pass
    message = f"{path} is damaged: it is not JSON with a matching checksum; it was not used"
    raise StorageError(message, fix="restore it from a backup, or remove it", path=str(path))


def digest(record: Record) -> str:
    """Return the checksum of a record."""
    return hashlib.sha256(canonical_json(record)).hexdigest()
