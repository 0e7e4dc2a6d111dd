"""Answer reuse: decide whether an answer of one run may be reused by another.

A key covers the work but not the files that earlier commands made. An answer of another run is
therefore reused in two cases only. Either the tree equals the command's snapshot and the answer's
files can be restored, or the inputs contain the digest of every file that was read. A restore that
was killed is completed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from onceward.agents import artifacts
from onceward.agents.answer_cache import AgentAnswer, AnswerCache
from onceward.agents.changed_files import FileDigests, difference
from onceward.agents.protocol import Message
from onceward.errors import InvalidJson, OncewardError
from onceward.journal import atomic_file
from onceward.keys import compact_json, loads
from onceward.keys.snapshot import DigestCache, Snapshot, snapshot


class AnswerReuse:
    """Finds reusable answers of other runs in one workspace."""

    def __init__(self, cache: AnswerCache, workspace: Path, run: str) -> None:
        """Look up answers for this run; without a run nothing is reused."""
        self._cache, self._workspace, self._run = cache, workspace, run
        self._files, self._digests = cache.files, DigestCache()

    def find(self, message: Message, version: str) -> AgentAnswer | None:
        """Return another run's answer by the same agent version, artifacts restored, or None."""
        if not self._run or not version:
            return None
        now: Snapshot | None = None
        for answer in self._cache.find_reusable(message["idempotency_key"], run=self._run):
            if answer.version != version:
                continue
            if answer.basis == "inputs" and self._is_current(answer):
                return answer
            if answer.basis == "snapshot":
                now = now or self._current_snapshot()
                if now is None:
                    continue
                if now.id == message["version"]["snapshot_id"]:
                    self._record_restore(answer, now)
                elif not self._is_restoring(answer, now):
                    continue
                tracked = {each.path for each in now.files}
                if self._cache.restore(answer, self._workspace, tracked):
                    return answer
        return None

    def _record_restore(self, answer: AgentAnswer, now: Snapshot) -> None:
        """Record what is restored over which tree, so that a restore can be completed."""
        content = {"for": self._run, "key": answer.key, "of": answer.run, "tree": _tree(now)}
        atomic_file.write(self._restore_record(), compact_json(content), files=self._files)

    def _is_restoring(self, answer: AgentAnswer, now: Snapshot) -> bool:
        """Return whether the tree is the recorded one but for restored files of this answer."""
        try:
            found: Any = loads(self._restore_record().read_bytes())
            before = found["tree"]
            names = (found["for"], found["key"], found["of"])
            if names != (self._run, answer.key, answer.run):
                return False
            made = {each["path"]: each["sha256"] for each in answer.artifacts}
            changed = difference(before, _tree(now))
        except (OSError, InvalidJson, KeyError, TypeError, AttributeError):
            return False
        is_restored = all(made.get(path) == _tree(now)[path] for path in changed.changed)
        return is_restored and not changed.deleted

    def _restore_record(self) -> Path:
        return self._cache.directory / "restoring.json"

    def tree_before(self, message: Message, version: str) -> FileDigests | None:
        """Return the tree before the work if it equals the command's snapshot, else None."""
        if not self._run or not version:
            return None
        now = self._current_snapshot()
        if now is None or now.id != message["version"]["snapshot_id"]:
            return None
        return _tree(now)

    def basis(
        self,
        message: Message,
        answer: AgentAnswer,
        before: FileDigests | None,
        read: Sequence[Mapping[str, Any]] | None,
    ) -> str:
        """Return why other runs may reuse an answer: `snapshot`, `inputs`, or '' for none."""
        carried = set(_digests_in(message["inputs"]))
        if read is not None and all((each["path"], each["sha256"]) in carried for each in read):
            return "inputs"
        if before is None or (answer.event == "builder.completed" and not answer.artifacts):
            return ""  # Nothing was built: another run may succeed in building it.
        after = self._current_snapshot()
        if after is None:
            return ""
        changed = difference(before, _tree(after))
        named = {each["path"] for each in answer.artifacts}
        return "" if changed.deleted or set(changed.changed) - named else "snapshot"

    def _current_snapshot(self) -> Snapshot | None:
        """Return a snapshot of the workspace; None if it cannot be read, so nothing is reused."""
        try:
            return snapshot(self._workspace, digests=self._digests)
        except OncewardError:
            return None

    def _is_current(self, answer: AgentAnswer) -> bool:
        """Return whether all files that were read or made are unchanged."""
        named = (*answer.read, *answer.artifacts)
        return not any(artifacts.check(self._workspace, each) for each in named)


def _tree(found: Snapshot) -> FileDigests:
    return {each.path: each.sha256 for each in found.files}


def _digests_in(value: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - any JSON
    """Yield every path and digest found anywhere in the inputs."""
    stack = [value]
    while stack:
        each = stack.pop()
        if isinstance(each, Mapping):
            if isinstance(each.get("path"), str) and isinstance(each.get("sha256"), str):
                yield each["path"], each["sha256"]
            stack += each.values()
        elif isinstance(each, (list, tuple)):
            stack += each
