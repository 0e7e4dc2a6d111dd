"""Reuse: whether what one run was answered may be answered to another.

A key names the work, and not the files that earlier commands have made. So an answer of another run
counts only where all that it depends on is known to be the same: the tree is the snapshot of the
command, and the answer's files can be restored; or the inputs carry the digest of every file read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from onceward.agents import artifacts
from onceward.agents.cache import Answer, ResultCache
from onceward.agents.messages import Message
from onceward.agents.trees import Tree, difference
from onceward.errors import OncewardError
from onceward.keys.snapshot import Digests, Snapshot, snapshot


class Reuse:
    """The answers of other runs in one workspace."""

    def __init__(self, cache: ResultCache, workspace: Path, run: str) -> None:
        """Look for a run; what belongs to none is not reused."""
        self._cache, self._workspace, self._run = cache, workspace, run
        self._digests = Digests()

    def find(self, message: Message, version: str) -> Answer | None:
        """Return another run's answer of the same agent, its artifacts restored; None without."""
        if not self._run or not version:
            return None
        now: Snapshot | None = None
        for answer in self._cache.of_other_runs(message["idempotency_key"], run=self._run):
            if answer.version != version:
                continue
            if answer.basis == "inputs" and self._holds(answer):
                return answer
            if answer.basis == "snapshot":
                now = now or self._now()
                if now is None or now.id != message["version"]["snapshot_id"]:
                    continue
                tracked = {each.path for each in now.files}
                if self._cache.restore(answer, self._workspace, tracked):
                    return answer
        return None

    def begin(self, message: Message, version: str) -> Tree | None:
        """Return the tree before the work, if it is the command's snapshot; None if it is not."""
        if not self._run or not version:
            return None
        now = self._now()
        if now is None or now.id != message["version"]["snapshot_id"]:
            return None
        return _tree(now)

    def basis(
        self,
        message: Message,
        answer: Answer,
        before: Tree | None,
        read: Sequence[Mapping[str, Any]] | None,
    ) -> str:
        """Return why an answer may be reused by other runs: snapshot, inputs or, for none, ''."""
        carried = set(_digests_in(message["inputs"]))
        if read is not None and all((each["path"], each["sha256"]) in carried for each in read):
            return "inputs"
        if before is None or (answer.event == "builder.completed" and not answer.artifacts):
            return ""  # Nothing was built: another run may do better.
        after = self._now()
        if after is None:
            return ""
        changed = difference(before, _tree(after))
        named = {each["path"] for each in answer.artifacts}
        return "" if changed.deleted or set(changed.changed) - named else "snapshot"

    def _now(self) -> Snapshot | None:
        """Return the workspace as it is; None when it cannot be read, and nothing is reused."""
        try:
            return snapshot(self._workspace, digests=self._digests)
        except OncewardError:
            return None

    def _holds(self, answer: Answer) -> bool:
        """Say whether the files that were read and made are here, as they were."""
        named = (*answer.read, *answer.artifacts)
        return not any(artifacts.check(self._workspace, each) for each in named)


def _tree(found: Snapshot) -> Tree:
    return {each.path: each.sha256 for each in found.files}


def _digests_in(value: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - any JSON
    """Yield every path with its digest that stands anywhere in the inputs."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            if isinstance(each.get("path"), str) and isinstance(each.get("sha256"), str):
                yield each["path"], each["sha256"]
            waiting += each.values()
        elif isinstance(each, (list, tuple)):
            waiting += each
