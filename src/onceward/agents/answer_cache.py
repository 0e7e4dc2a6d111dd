"""Answer cache: an agent's answers by idempotency key and run, so that a resend repeats no work.

One file per answer, written atomically after its artifacts are durable, plus a copy in memory. A
cached answer is valid only while its artifacts are unchanged. An answer that other runs may reuse
also keeps the bytes of its artifacts. Knows neither handlers nor pipes.
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
from onceward.agents.handler_results import is_success
from onceward.errors import InvalidArgument, InvalidJson, StorageError
from onceward.journal import atomic_file
from onceward.keys.canonical import canonical_json, loads
from onceward.system import Clock, Files, SystemClock, SystemFiles, timestamp
from onceward.system.crash_points import crash_point

#: Number of answers held in memory; all answers are on disk.
ENTRIES_IN_MEMORY_MAX: Final = 1000
#: A larger file was not written by this cache.
ENTRY_BYTES_MAX: Final = 1024 * 1024
#: Answers that no unfinished run names are pruned beyond this age or number.
ENTRY_DAYS_MAX: Final = 30
ENTRIES_MAX: Final = 500
SCHEMA_VERSION: Final = 2

_KEY: Final = re.compile(r"ik:([0-9a-f]{64})")
_FILE: Final = re.compile(r"([0-9a-f]{64})-[0-9a-f]{12}\.json")
_RUN_DIGITS: Final = 12


def cache_folder(agent_type: str, workspace: Path, env: Mapping[str, str]) -> Path:
    """Return the directory for files that outlive an agent's process."""
    configured = env.get("ONCEWARD_AGENT_CACHE")
    return Path(configured) if configured else workspace / "state" / "cache" / agent_type


def run_digest(run: str) -> str:
    """Return a digest of a run's name that is safe in a file name."""
    return hashlib.sha256(run.encode()).hexdigest()[:_RUN_DIGITS]


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentAnswer:
    """The answer to a command, without fields that differ each time it is sent."""

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
    #: The version of the agent that answered. Another version may answer differently.
    version: str = ""
    #: Why other runs may reuse it: it depends only on the `snapshot`, or only on files whose
    #: digests the `inputs` contain. Empty: valid for its own run only, since a key does not cover
    #: files that other commands made, such as reviewed ones.
    basis: str = ""
    #: The files it depends on, each with path, sha256 and size, if the basis is `inputs`.
    read: Sequence[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class _CacheEntry:
    """The content of an answer's file."""

    answer: AgentAnswer
    kept_at: str
    #: Checksum of the archive with the bytes of the artifacts, if there is one.
    archive: str | None


class AnswerCache:
    """The cached answers of one agent."""

    def __init__(
        self, directory: Path, *, files: Files | None = None, clock: Clock | None = None
    ) -> None:
        """Use this directory, which is created with the first answer."""
        #: Where its files are.
        self.directory = directory
        self.files = files or SystemFiles()
        self._clock = clock or SystemClock()
        self._known: OrderedDict[tuple[str, str], AgentAnswer] = OrderedDict()

    def get(self, key: str, workspace: Path, *, run: str = "") -> AgentAnswer | None:
        """Return the cached answer of this run and key, or None if its artifacts have changed.

        Answers stored without a run match only lookups without a run.
        """
        answer = self._known.get((key, run)) or self._answer_in(self._path(key, run))
        if answer is None or (answer.key, answer.run) != (key, run):
            return None
        if any(artifacts.check(workspace, each) for each in answer.artifacts):
            return None
        self._remember(answer)
        return answer

    def stored(self, key: str, *, run: str) -> AgentAnswer | None:
        """Return the answer of this run and key, even if its artifacts have changed."""
        answer = self._answer_in(self._path(key, run))
        return answer if answer is not None and (answer.key, answer.run) == (key, run) else None

    def drop(self, key: str, *, run: str) -> None:
        """Remove an answer whose files have changed; on return this is durable."""
        self._known.pop((key, run), None)
        self.files.remove(self._path(key, run))
        self.files.sync_directory(self.directory)

    def find_reusable(self, key: str, *, run: str) -> list[AgentAnswer]:
        """Return reusable answers of other runs to this key, latest first."""
        digest = _digest_in(key)
        found = [entry for name, entry in self._entries() if name.startswith(digest)]
        found.sort(key=lambda entry: entry.kept_at, reverse=True)
        answers = [entry.answer for entry in found]
        return [each for each in answers if each.key == key and each.run != run and each.basis]

    def restore(self, answer: AgentAnswer, workspace: Path, tracked: Collection[str]) -> bool:
        """Restore the artifacts of an answer from the archive; return False if impossible.

        Nothing is written unless all files can be. An existing file is overwritten only if it is
        in `tracked`, whose content the caller knows.
        """
        path = self._path(answer.key, answer.run)
        entry = self._read(path)
        if entry is None or entry.archive is None:
            return False
        kept = artifact_bytes.read(path.with_suffix(".zip"), entry.archive, answer.artifacts)
        if kept is None:
            return False
        staging = self.directory / "restored"
        return artifact_bytes.write_back(workspace, kept, tracked, staging, self.files)

    def put(self, answer: AgentAnswer, workspace: Path) -> None:
        """Store an answer; on return the answer and its artifacts are durable.

        Only successes are stored: after a failure the same key may be tried again.
        """
        path = self._path(answer.key, answer.run)
        if not is_success(answer.event, answer.payload):
            return
        artifacts.sync(workspace, [each["path"] for each in answer.artifacts], self.files)
        archive = None
        if answer.basis == "snapshot":
            packed = artifact_bytes.pack(workspace, answer.artifacts, key=answer.key)
            if packed is None:  # Too large, or changed since: valid for this run only.
                answer = replace(answer, basis="")
            else:
                archive = hashlib.sha256(packed).hexdigest()
                atomic_file.write(path.with_suffix(".zip"), packed, files=self.files)
        crash_point("agents.cache.before_store")
        at = timestamp(self._clock.now())
        content = {"schemaVersion": SCHEMA_VERSION, "kept_at": at, "archive": archive}
        body = canonical_json({**content, **asdict(answer)}) + b"\n"
        atomic_file.write(path, body, files=self.files)
        self._remember(answer)
        crash_point("agents.cache.after_store")

    def prune(self, keep: Collection[str]) -> int:
        """Remove answers beyond the age or number limit; return how many were removed.

        Answers to the keys in `keep`, which unfinished runs name, stay. Only files that a cache
        wrote are touched: unreadable files and a killed writer's temporary files stay.
        """
        oldest = timestamp(self._clock.now() - timedelta(days=ENTRY_DAYS_MAX))
        found = sorted(self._entries(), key=lambda each: each[1].kept_at, reverse=True)
        prunable = [each for each in found if each[1].answer.key not in keep]
        pruned = [
            each
            for number, each in enumerate(prunable)
            if number >= ENTRIES_MAX or each[1].kept_at < oldest
        ]
        for name, entry in pruned:
            # The archive last: one without its answer is found by its comment, below.
            self.files.remove(self.directory / name)
            self._known.pop((entry.answer.key, entry.answer.run), None)
        self._remove_archives({name for name, _ in found} - {name for name, _ in pruned})
        return len(pruned)

    def _remove_archives(self, answers: Collection[str]) -> None:
        """Remove archives of this cache whose answer is gone."""
        for name in self.files.names(self.directory):
            owner = name.removesuffix(".zip") + ".json"
            if name.endswith(".zip") and _FILE.fullmatch(owner) and owner not in answers:
                path = self.directory / name
                if artifact_bytes.key_of(path) == f"ik:{name[:64]}":
                    self.files.remove(path)

    def _path(self, key: str, run: str) -> Path:
        return self.directory / f"{_digest_in(key)}-{run_digest(run)}.json"

    def _entries(self) -> Iterator[tuple[str, _CacheEntry]]:
        """Yield every answer of this cache with its file name."""
        for name in self.files.names(self.directory):
            entry = self._read(self.directory / name) if _FILE.fullmatch(name) else None
            if entry is not None and self._path(entry.answer.key, entry.answer.run).name == name:
                yield name, entry

    def _answer_in(self, path: Path) -> AgentAnswer | None:
        entry = self._read(path)
        return entry.answer if entry is not None else None

    def _read(self, path: Path) -> _CacheEntry | None:
        """Return the content of a file; None if it is missing or damaged."""
        try:
            file = self.files.open_read(path)
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

    def _remember(self, answer: AgentAnswer) -> None:
        self._known[answer.key, answer.run] = answer
        self._known.move_to_end((answer.key, answer.run))
        if len(self._known) > ENTRIES_IN_MEMORY_MAX:
            self._known.popitem(last=False)


def _digest_in(key: str) -> str:
    matched = _KEY.fullmatch(key)
    if matched is None:
        message = f"key: {key[:80]!r} is not an idempotency key"
        raise InvalidArgument(message, fix="pass `ik:` and 64 lower-case hex digits", field="key")
    return matched[1]


def _entry(content: object) -> _CacheEntry | None:
    if not isinstance(content, dict) or content.pop("schemaVersion", None) != SCHEMA_VERSION:
        return None
    kept_at, archive = content.pop("kept_at"), content.pop("archive")
    answer = AgentAnswer(**content)
    texts = (answer.key, answer.snapshot_id, answer.event, answer.run, answer.version, answer.basis)
    is_valid = all(isinstance(each, str) for each in texts) and isinstance(answer.payload, dict)
    is_valid = is_valid and bool(_KEY.fullmatch(answer.key)) and (archive is None or archive != "")
    for each in (*answer.artifacts, *answer.read):
        is_valid = is_valid and set(each) == {"path", "sha256", "size"}
    datetime.fromisoformat(kept_at)
    return _CacheEntry(answer=answer, kept_at=kept_at, archive=archive) if is_valid else None
