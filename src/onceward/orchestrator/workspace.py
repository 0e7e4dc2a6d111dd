"""Workspace: which files a run keeps in the directory it works on, and how they are named.

Owns paths and the two kinds of sealed JSON files, receipts and manifests. Knows no run.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from onceward.errors import InvalidArgument, StorageError
from onceward.journal import Record, atomic
from onceward.keys import canonical_json
from onceward.seams import Files

_RUN_ID: Final = re.compile(r"run-[0-9]{8}-[0-9]{6}-[0-9a-f]{8}")
_TASK_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_BYTES_MAX: Final = 256 * 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Workspace:
    """The directory that agents work on, and our own folders in it."""

    root: Path

    def ledger(self, run_id: str) -> Path:
        """Return the ledger of a run."""
        return self.root / "events" / f"{check_run_id(run_id)}.ndjson"

    def lock(self, run_id: str) -> Path:
        """Return the file whose lock means that somebody works on a run."""
        return self.root / "state" / "locks" / f"{check_run_id(run_id)}.lock"

    def orchestrator_lock(self) -> Path:
        """Return the file whose lock means that an orchestrator works in this workspace."""
        return self.root / "state" / "locks" / "orchestrator.lock"

    def state(self, run_id: str | None = None) -> Path:
        """Return the cached state of a run, or of the one that was worked on last."""
        state = self.root / "state"
        return state / "run.json" if run_id is None else state / "runs" / f"{run_id}.json"

    def digests(self) -> Path:
        """Return the cache of file digests."""
        return self.root / "state" / "digests.json"

    def cache(self, agent: str) -> Path:
        """Return the directory in which agents of a type keep their results."""
        return self.root / "state" / "cache" / agent

    def receipt(self, task_id: str, run_id: str, step: int) -> Path:
        """Return the receipt of one command."""
        name = f"{check_run_id(run_id)}-step-{step}.json"
        return self.root / "receipts" / check_task_id(task_id) / name

    def manifest(self, snapshot_id: str) -> Path:
        """Return the list of files of a snapshot."""
        return self.root / "snapshots" / f"{snapshot_id}.manifest.json"

    def base(self, snapshot_id: str) -> Path:
        """Return the archive of a snapshot's small text files."""
        return self.root / "state" / "base" / f"{snapshot_id}.zip"

    def kept(self, run_id: str) -> Path:
        """Return the directory for copies of files that a run found changed."""
        return self.root / "state" / "kept" / check_run_id(run_id)

    def retention(self) -> Path:
        """Return the note of which runs may lack lists of files."""
        return self.root / "state" / "retention.json"

    def transcript(self, run_id: str) -> Path:
        """Return the story of a run, for people."""
        return self.root / "transcripts" / f"{check_run_id(run_id)}.txt"


def is_run_id(name: str) -> bool:
    """Say whether a name is the id of a run."""
    return bool(_RUN_ID.fullmatch(name))


def check_run_id(run_id: str) -> str:
    """Return the id of a run if it can be part of a path."""
    if not is_run_id(run_id):
        message = f"{run_id!r:.60} is not the id of a run, such as run-20260206-120000-1a2b3c4d"
        raise InvalidArgument(message, fix="see `onceward runs list`", field="run")
    return run_id


def check_task_id(task_id: str) -> str:
    """Return the id of a task if it can be part of a path."""
    if not _TASK_ID.fullmatch(task_id):
        message = f"{task_id!r:.60} is not the id of a task, such as T-0042"
        fix = "use letters, digits, dots, dashes and underscores, at most 64"
        raise InvalidArgument(message, fix=fix, field="task")
    return task_id


def seal(record: Record) -> bytes:
    """Return a record as a file holds it: with its checksum, readable for people."""
    sealed = {**record, "sum": digest(record)}
    return orjson.dumps(sealed, option=orjson.OPT_INDENT_2) + b"\n"


def write_sealed(path: Path, record: Record, files: Files) -> str:
    """Put a record on disk in one step and return its checksum."""
    files.make_directories(path.parent)
    atomic.write(path, seal(record), files=files)
    return digest(record)


def read_sealed(path: Path, files: Files) -> Record | None:
    """Return the record of a file, None when it is missing; StorageError when it is damaged."""
    data = atomic.read(path, _BYTES_MAX, files=files)
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
    message = f"{path} is damaged: its checksum does not fit"
    raise StorageError(message, fix="restore it from a backup, or remove it", path=str(path))


def digest(record: Record) -> str:
    """Return the checksum of a record."""
    return hashlib.sha256(canonical_json(record)).hexdigest()
