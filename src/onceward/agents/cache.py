"""Cache: the answers an agent has given, by key and run, so that no work is done twice.

Owns one file per answer, written in one step after everything it names is on disk, and a copy in
memory. An answer counts only while its artifacts are what they were. One that may answer for other
runs has the bytes of its artifacts beside it. Knows neither handlers nor pipes.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from onceward.agents import artifact_bytes, artifacts
from onceward.agents.results import is_success
from onceward.crash import crash_point
from onceward.errors import InvalidArgument, InvalidJson, StorageError
from onceward.journal import atomic
from onceward.keys.canonical import canonical_json, loads
from onceward.seams import Clock, Files, SystemClock, SystemFiles, timestamp

#: As many answers are held in memory; all are on disk.
ENTRIES_IN_MEMORY_MAX: Final = 1000
#: A file that is longer is none of ours.
ENTRY_BYTES_MAX: Final = 1024 * 1024
#: What no unfinished run names is pruned when it is older, or when there are more.
ENTRY_DAYS_MAX: Final = 30
ENTRIES_MAX: Final = 500
SCHEMA_VERSION: Final = 2

_KEY: Final = re.compile(r"ik:([0-9a-f]{64})")
_FILE: Final = re.compile(r"([0-9a-f]{64})-[0-9a-f]{12}\.json")
_RUN_DIGITS: Final = 12


def cache_folder(agent_type: str, workspace: Path, env: Mapping[str, str]) -> Path:
    """Return where an agent keeps what outlives its process."""
    told = env.get("ONCEWARD_AGENT_CACHE")
    return Path(told) if told else workspace / "state" / "cache" / agent_type


def run_digest(run: str) -> str:
    """Return a run as part of a file's name, whatever it is called."""
    return hashlib.sha256(run.encode()).hexdigest()[:_RUN_DIGITS]


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
    #: The run that it was for.
    run: str = ""
    #: Which version of the agent gave it. Another one may answer otherwise.
    version: str = ""
    #: Why it may answer for other runs: it depends on the `snapshot`, or on files whose digests the
    #: `inputs` carry. Empty: it counts for its run only, since a key does not name the files that
    #: other commands have made, such as those that were reviewed.
    basis: str = ""
    #: The files that it depends on, each with path, sha256 and size, if the basis is `inputs`.
    read: Sequence[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entry:
    """An answer as its file has it."""

    answer: Answer
    kept_at: str
    #: The checksum of the archive with the bytes of its artifacts, if there is one.
    archive: str | None


class ResultCache:
    """The kept answers of one agent."""

    def __init__(
        self, directory: Path, *, files: Files | None = None, clock: Clock | None = None
    ) -> None:
        """Keep them in this directory, which is made when the first one is."""
        self._directory = directory
        self._files = files or SystemFiles()
        self._clock = clock or SystemClock()
        self._known: OrderedDict[tuple[str, str], Answer] = OrderedDict()

    def get(self, key: str, workspace: Path, *, run: str = "") -> Answer | None:
        """Return this run's answer to this key, if there is one and its artifacts are as they were.

        What is of no run counts only where there is none.
        """
        answer = self._known.get((key, run)) or self._answer_in(self._path(key, run))
        if answer is None or (answer.key, answer.run) != (key, run):
            return None
        if any(artifacts.check(workspace, each) for each in answer.artifacts):
            return None
        self._remember(answer)
        return answer

    def of_other_runs(self, key: str, *, run: str) -> list[Answer]:
        """Return what other runs were answered to this key and may be reused, the latest first."""
        digest = _digest_in(key)
        found = [entry for name, entry in self._entries() if name.startswith(digest)]
        found.sort(key=lambda entry: entry.kept_at, reverse=True)
        answers = [entry.answer for entry in found]
        return [each for each in answers if each.key == key and each.run != run and each.basis]

    def restore(self, answer: Answer, workspace: Path, tracked: Collection[str]) -> bool:
        """Write the artifacts of an answer from the kept bytes; False when that cannot be done.

        Nothing is written unless all of it can be. A file that exists and is not among the
        `tracked` ones, of which the caller knows the content, is not overwritten.
        """
        path = self._path(answer.key, answer.run)
        entry = self._read(path)
        if entry is None or entry.archive is None:
            return False
        kept = artifact_bytes.read(path.with_suffix(".zip"), entry.archive, answer.artifacts)
        if kept is None:
            return False
        return artifact_bytes.write_back(workspace, kept, tracked, self._files)

    def put(self, answer: Answer, workspace: Path) -> None:
        """Keep an answer; when this returns, it and the files it names survive a crash.

        Answers that are no success are not kept: the same key may be tried again.
        """
        path = self._path(answer.key, answer.run)
        if not is_success(answer.event, answer.payload):
            return
        artifacts.sync(workspace, [each["path"] for each in answer.artifacts], self._files)
        archive = None
        if answer.basis == "snapshot":
            packed = artifact_bytes.pack(workspace, answer.artifacts, key=answer.key)
            if packed is None:  # Too much to keep, or changed meanwhile: it is this run's alone.
                answer = replace(answer, basis="")
            else:
                archive = hashlib.sha256(packed).hexdigest()
                atomic.write(path.with_suffix(".zip"), packed, files=self._files)
        crash_point("agents.cache.before_store")
        at = timestamp(self._clock.now())
        content = {"schemaVersion": SCHEMA_VERSION, "kept_at": at, "archive": archive}
        body = canonical_json({**content, **asdict(answer)}) + b"\n"
        atomic.write(path, body, files=self._files)
        self._remember(answer)
        crash_point("agents.cache.after_store")

    def prune(self, keep: Collection[str]) -> int:
        """Remove answers that are old, or too many, and return how many.

        Those to the keys in `keep`, which unfinished runs name, stay. Only files that a cache wrote
        are touched: what cannot be read as an answer, and a killed writer's temporary, stay.
        """
        oldest = timestamp(self._clock.now() - timedelta(days=ENTRY_DAYS_MAX))
        found = sorted(self._entries(), key=lambda each: each[1].kept_at, reverse=True)
        spare = [each for each in found if each[1].answer.key not in keep]
        gone = [
            each
            for number, each in enumerate(spare)
            if number >= ENTRIES_MAX or each[1].kept_at < oldest
        ]
        for name, entry in gone:
            # The archive last: without its answer it is found by its mark, below.
            self._files.remove(self._directory / name)
            self._known.pop((entry.answer.key, entry.answer.run), None)
        self._remove_archives({name for name, _ in found} - {name for name, _ in gone})
        return len(gone)

    def _remove_archives(self, answers: Collection[str]) -> None:
        """Remove archives of ours that belong to no answer any more."""
        for name in self._files.names(self._directory):
            owner = name.removesuffix(".zip") + ".json"
            if name.endswith(".zip") and _FILE.fullmatch(owner) and owner not in answers:
                path = self._directory / name
                if artifact_bytes.key_of(path) == f"ik:{name[:64]}":
                    self._files.remove(path)

    def _path(self, key: str, run: str) -> Path:
        return self._directory / f"{_digest_in(key)}-{run_digest(run)}.json"

    def _entries(self) -> Iterator[tuple[str, _Entry]]:
        """Yield every answer that is ours, with the name of its file."""
        for name in self._files.names(self._directory):
            entry = self._read(self._directory / name) if _FILE.fullmatch(name) else None
            if entry is not None and self._path(entry.answer.key, entry.answer.run).name == name:
                yield name, entry

    def _answer_in(self, path: Path) -> Answer | None:
        entry = self._read(path)
        return entry.answer if entry is not None else None

    def _read(self, path: Path) -> _Entry | None:
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
            return _entry(loads(content))
        except (InvalidJson, KeyError, TypeError, ValueError):
            return None

    def _remember(self, answer: Answer) -> None:
        self._known[answer.key, answer.run] = answer
        self._known.move_to_end((answer.key, answer.run))
        if len(self._known) > ENTRIES_IN_MEMORY_MAX:
            self._known.popitem(last=False)


def _digest_in(key: str) -> str:
    matched = _KEY.fullmatch(key)
    if matched is None:
        message = f"key: {key[:80]!r} is no idempotency key"
        raise InvalidArgument(message, fix="pass `ik:` and 64 hexadecimal digits", field="key")
    return matched[1]


def _entry(content: object) -> _Entry | None:
    if not isinstance(content, dict) or content.pop("schemaVersion", None) != SCHEMA_VERSION:
        return None
    kept_at, archive = content.pop("kept_at"), content.pop("archive")
    answer = Answer(**content)
    texts = (answer.key, answer.snapshot_id, answer.event, answer.run, answer.version, answer.basis)
    sound = all(isinstance(each, str) for each in texts) and isinstance(answer.payload, dict)
    sound = sound and bool(_KEY.fullmatch(answer.key)) and (archive is None or archive != "")
    for each in (*answer.artifacts, *answer.read):
        sound = sound and set(each) == {"path", "sha256", "size"}
    datetime.fromisoformat(kept_at)
    return _Entry(answer=answer, kept_at=kept_at, archive=archive) if sound else None
