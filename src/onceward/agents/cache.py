"""Cache: the answers an agent has given, by key, so that no work is done twice.

Owns one file per key, written in one step after everything it names is on disk, and a copy in
memory. An answer counts only while its artifacts are what they were. Knows neither handlers nor
pipes.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from onceward.agents import artifacts
from onceward.agents.results import is_success
from onceward.crash import crash_point
from onceward.errors import InvalidArgument, InvalidJson, StorageError
from onceward.journal import atomic
from onceward.keys.canonical import canonical_json, loads
from onceward.seams import Files, SystemFiles

#: As many answers are held in memory; all are on disk.
ENTRIES_IN_MEMORY_MAX: Final = 1000
#: A file that is longer is none of ours.
ENTRY_BYTES_MAX: Final = 1024 * 1024
SCHEMA_VERSION: Final = 1

_KEY: Final = re.compile(r"ik:([0-9a-f]{64})")
_FILE: Final = re.compile(r"[0-9a-f]{64}\.json")


def cache_folder(agent_type: str, workspace: Path, env: Mapping[str, str]) -> Path:
    """Return where an agent keeps what outlives its process."""
    told = env.get("ONCEWARD_AGENT_CACHE")
    return Path(told) if told else workspace / "state" / "cache" / agent_type


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What was answered to a command, without what differs from one telling to the next."""

    #: The command's key.
    key: str
    #: The snapshot that the command started from.
    snapshot_id: str
    #: Name of the event.
    event: str
    #: The event's status, if it has one.
    status: str | None
    payload: dict[str, Any]
    #: Each with path, sha256 and size.
    artifacts: Sequence[dict[str, Any]]
    #: The run that it was for. A key names the work and not the files that others have made since,
    #: such as those that were reviewed: only within one run are they what the answer is about.
    run: str = ""


class ResultCache:
    """The kept answers of one agent."""

    def __init__(self, directory: Path, *, files: Files | None = None) -> None:
        """Keep them in this directory, which is made when the first one is."""
        self._directory = directory
        self._files = files or SystemFiles()
        self._known: OrderedDict[str, Answer] = OrderedDict()

    def get(self, key: str, workspace: Path, *, run: str = "") -> Answer | None:
        """Return this run's answer to this key, if there is one and its artifacts are as they were.

        What is of no run counts only where there is none.
        """
        answer = self._known.get(key) or self._read(self._path(key))
        if answer is None or answer.key != key or answer.run != run:
            return None
        if any(artifacts.check(workspace, each) for each in answer.artifacts):
            return None
        self._remember(answer)
        return answer

    def put(self, answer: Answer, workspace: Path) -> None:
        """Keep an answer; when this returns, it and the files it names survive a crash.

        Answers that are no success are not kept: the same key may be tried again.
        """
        path = self._path(answer.key)
        if not is_success(answer.event, answer.payload):
            return
        artifacts.sync(workspace, [each["path"] for each in answer.artifacts], self._files)
        crash_point("agents.cache.before_store")
        content = {"schemaVersion": SCHEMA_VERSION, **asdict(answer)}
        atomic.write(path, canonical_json(content) + b"\n", files=self._files)
        self._remember(answer)
        crash_point("agents.cache.after_store")

    def prune(self, keep_snapshots: Collection[str]) -> int:
        """Remove answers to commands of other snapshots, and return how many there were.

        What a killed writer left behind stays: whoever writes that answer again writes over it.
        """
        removed = 0
        for name in self._files.names(self._directory):
            if not _FILE.fullmatch(name):
                continue
            path = self._directory / name
            answer = self._read(path)
            if answer is None or answer.snapshot_id not in keep_snapshots:
                self._files.remove(path)
                removed += 1
        for key, answer in list(self._known.items()):
            if answer.snapshot_id not in keep_snapshots:
                del self._known[key]
        return removed

    def _path(self, key: str) -> Path:
        matched = _KEY.fullmatch(key)
        if matched is None:
            message = f"key: {key[:80]!r} is no idempotency key"
            raise InvalidArgument(message, fix="pass `ik:` and 64 hexadecimal digits", field="key")
        return self._directory / f"{matched[1]}.json"

    def _read(self, path: Path) -> Answer | None:
        """Return what a file holds; one that is missing or damaged holds nothing."""
        try:
            file = self._files.open_read(path)
        except StorageError:
            return None
        try:
            size = file.stat().size
            content = file.read(0, size) if size <= ENTRY_BYTES_MAX else b""
        except StorageError:
            return None
        finally:
            file.close()
        try:
            return _answer(loads(content))
        except (InvalidJson, KeyError, TypeError):
            return None

    def _remember(self, answer: Answer) -> None:
        self._known[answer.key] = answer
        self._known.move_to_end(answer.key)
        if len(self._known) > ENTRIES_IN_MEMORY_MAX:
            self._known.popitem(last=False)


def _answer(content: object) -> Answer | None:
    if not isinstance(content, dict) or content.pop("schemaVersion", None) != SCHEMA_VERSION:
        return None
    answer = Answer(**content)
    texts = (answer.key, answer.snapshot_id, answer.event, answer.run)
    sound = all(isinstance(each, str) for each in texts) and isinstance(answer.payload, dict)
    for each in answer.artifacts:
        sound = sound and set(each) == {"path", "sha256", "size"}
    return answer if sound else None
