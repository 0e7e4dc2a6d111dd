"""Prompt context: what a command tells its agent beside its inputs, and outside of its key.

What changed, how it was tested, what was found, and why the last attempt failed. All of it comes
from the ledger and from files that are pinned by it. It is bounded and without secrets.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from onceward.agents.lines import LINE_BYTES_MAX
from onceward.agents.messages import Message
from onceward.journal import Record
from onceward.keys import canonical_json, compact_json
from onceward.orchestrator import base_files
from onceward.orchestrator.flow import Stage
from onceward.orchestrator.models import Change
from onceward.orchestrator.replay import ABANDONED, Asked, RunState
from onceward.orchestrator.tree import Tree
from onceward.orchestrator.workspace import Workspace
from onceward.rooted import RootedDirectory
from onceward.secrets import Redactor

#: The whole context, as JSON; with a task of the largest size it still fits into one line.
CONTEXT_BYTES_MAX: Final = 64 * 1024
DIFF_CHARACTERS_MAX: Final = 32 * 1024
FILE_DIFF_CHARACTERS_MAX: Final = 8 * 1024
#: A comparison takes up to the square of the lines.
FILE_LINES_MAX: Final = 5000
CHANGED_FILES_MAX: Final = 200
OUTPUT_CHARACTERS_MAX: Final = 4000
ERROR_CHARACTERS_MAX: Final = 2000
FINDINGS_CHARACTERS_MAX: Final = 8000
#: What is left out first when there is too much, the least needed first.
_DROPPED: Final = ("diff", "changed_files", "findings", "tests")
_JUDGES: Final = frozenset({"reviewer", "spec_maintainer"})


class PromptContext:
    """What the commands of one run tell their agents."""

    def __init__(self, workspace: Workspace, tree: Tree, redactor: Redactor) -> None:
        """Look at nothing yet."""
        self._workspace, self._tree, self._redactor = workspace, tree, redactor

    def of_command(self, state: RunState, task_id: str, stage: Stage) -> Record:
        """Return what a new command tells; it is recorded with the command."""
        before = state.of_task(task_id)
        tests = _last_tests(before)
        if stage.agent not in _JUDGES:
            last = before[-1] if before else None
            failed = tests if tests is not None and tests.get("status") == "fail" else None
            found = _of_failure(last) if last is not None and last.state == ABANDONED else {}
            return self._bounded({"tests": failed, **found})
        changes = self._changes(state, task_id)
        return self._bounded(
            {
                "tests": tests,
                "findings": _findings(before, stage.agent),
                "changed_files": [f"{each.how} {each.path}" for each in changes],
                "diff": self._diff(state.pinned[task_id], changes),
            }
        )

    def of_attempt(self, asked: Asked) -> Record:
        """Return what a command tells when it is sent again after a failure."""
        told: Record = dict(asked.command.get("context", {}))
        return self._bounded({**told, **_of_failure(asked)}) if asked.failures else told

    def added_to(self, message: Message, asked: Asked) -> Message:
        """Return a command with what it tells beside its inputs, if a line has room for it."""
        context = self.of_attempt(asked)
        told = {**message, "context": context} if context else message
        if len(compact_json(told)) < LINE_BYTES_MAX:
            return told
        return {name: value for name, value in message.items() if name != "context"}

    def _changes(self, state: RunState, task_id: str) -> Sequence[Change]:
        assert state.tree is not None, task_id
        return self._tree.changes(state.pinned[task_id], state.tree) or ()

    def _diff(self, snapshot_id: str, changes: Sequence[Change]) -> str:
        before = self._tree.manifest(snapshot_id) or {}
        shown = changes[:CHANGED_FILES_MAX]
        old = {each.path: before[each.path][0] for each in shown if each.path in before}
        kept = base_files.read(self._workspace, snapshot_id, set(old.values()))
        parts: list[str] = []
        room = DIFF_CHARACTERS_MAX
        with RootedDirectory.open(self._workspace.root) as root:
            for each in shown:
                # A file that was not there, or is not any more, is an empty one.
                was = b"" if each.how == "added" else kept.get(old.get(each.path, ""))
                now = b"" if each.how == "removed" else base_files.read_text(root, each.path)
                part = self._redactor.text(_file_diff(each.path, was, now))
                part = _cut(part, min(room, FILE_DIFF_CHARACTERS_MAX))
                room -= len(part)
                parts.append(part)
                if room <= 0:
                    break
        return "\n".join(part for part in parts if part)

    def _bounded(self, found: Mapping[str, Any]) -> Record:
        """Return what there is, without secrets and short enough."""
        told = {name: value for name, value in found.items() if value}
        if "findings" in told:
            told["findings"] = _first(told["findings"], FINDINGS_CHARACTERS_MAX)
        if "changed_files" in told:
            told["changed_files"] = _some(told["changed_files"])
        clean = self._redactor.value(told)
        assert isinstance(clean, dict), told
        for name in _DROPPED:
            if len(canonical_json(clean)) <= CONTEXT_BYTES_MAX:
                break
            clean.pop(name, None)
        return clean


def _last_tests(before: Sequence[Asked]) -> Record | None:
    """Return how the last build of a task was tested, also when that made it fail."""
    for asked in reversed(before):
        payload = (asked.event or {}).get("payload")
        tests = payload.get("tests") if isinstance(payload, Mapping) else None
        if tests is None:
            tests = asked.failed_tests
        if isinstance(tests, Mapping):
            return _shortened(tests)
    return None


def _of_failure(asked: Asked) -> Record:
    failure = asked.failure or {}
    message = f"{failure.get('code')}: {failure.get('message')}"
    found: Record = {"last_error": _cut(message, ERROR_CHARACTERS_MAX)} if failure else {}
    if asked.failed_tests is not None:
        found["tests"] = _shortened(asked.failed_tests)
    return found


def _findings(before: Sequence[Asked], agent: str) -> list[Any]:
    """Return what the same agent found the last time."""
    for asked in reversed(before):
        if asked.command["to"]["agent_type"] == agent and asked.event is not None:
            comments = asked.event["payload"].get("comments")
            return comments if isinstance(comments, list) else [comments] if comments else []
    return []


def _shortened(tests: Mapping[str, Any]) -> Record:
    output = tests.get("output")
    if not isinstance(output, str):
        return dict(tests)
    return {**tests, "output": output[-OUTPUT_CHARACTERS_MAX:]}


def _file_diff(path: str, was: bytes | None, now: bytes | None) -> str:
    if was is None or now is None:
        return f"--- {path}: too large, or not text, to show how it changed\n"
    lines = (_lines(was), _lines(now))
    if max(map(len, lines)) > FILE_LINES_MAX:
        return f"--- {path}: too many lines to show how it changed\n"
    return "".join(difflib.unified_diff(*lines, fromfile=f"a/{path}", tofile=f"b/{path}"))


def _lines(content: bytes) -> list[str]:
    return [f"{line}\n" for line in content.decode(errors="replace").splitlines()]


def _first(values: Sequence[Any], characters: int) -> list[Any]:
    def fitting(room: int) -> Iterator[Any]:
        for each in values:
            room -= len(canonical_json(each))
            if room < 0:
                return
            yield each

    return list(fitting(characters))


def _some(names: Sequence[str]) -> list[str]:
    left = len(names) - CHANGED_FILES_MAX
    return [*names[:CHANGED_FILES_MAX], *([f"and {left} more"] if left > 0 else [])]


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[:characters]}\n… cut …\n"
