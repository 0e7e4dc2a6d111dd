"""Prompt context: facts that a command passes to its agent in addition to its inputs.

Changed files, test results, findings, and why the last attempt failed. The context is not part of
the idempotency key. It comes from the ledger and its pinned files; it is bounded and redacted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from onceward.agents.line_reader import LINE_BYTES_MAX
from onceward.agents.protocol import Message
from onceward.journal import Record
from onceward.keys import canonical_json, compact_json
from onceward.orchestrator.diffs import CHANGED_FILES_MAX, Diffs, truncate
from onceward.orchestrator.ledger_replay import ABANDONED, CommandState, RunState
from onceward.orchestrator.models import FileChange
from onceward.orchestrator.task_flow import TaskStage
from onceward.orchestrator.workspace_tree import WorkspaceTree
from onceward.system.redaction import Redactor

#: Maximum size of the context as JSON; with the largest task a command still fits into one line.
CONTEXT_BYTES_MAX: Final = 64 * 1024
OUTPUT_CHARACTERS_MAX: Final = 4000
ERROR_CHARACTERS_MAX: Final = 2000
FINDINGS_CHARACTERS_MAX: Final = 8000
#: The order in which fields are dropped if the context is too large.
_DROP_ORDER: Final = ("diff", "changed_files", "findings", "tests")
_REVIEWING_AGENTS: Final = frozenset({"reviewer", "spec_maintainer"})


class PromptContext:
    """Builds the context of the commands of one run."""

    def __init__(self, tree: WorkspaceTree, diffs: Diffs, redactor: Redactor) -> None:
        """Use the tree and the diffs of a workspace; reads nothing yet."""
        self._tree, self._diffs, self._redactor = tree, diffs, redactor

    def for_command(self, state: RunState, task_id: str, stage: TaskStage) -> Record:
        """Return the context of a new command; it is recorded with the command."""
        before = state.of_task(task_id)
        tests = _last_tests(before)
        if stage.agent not in _REVIEWING_AGENTS:
            last = before[-1] if before else None
            failed = tests if tests is not None and tests.get("status") == "fail" else None
            found = _of_failure(last) if last is not None and last.state == ABANDONED else {}
            return self._bounded({"tests": failed, **found})
        assert state.tree is not None, task_id
        changes = self._changes(state, task_id, state.tree)
        return self._bounded(
            {"tests": tests, "findings": _findings(before, stage.agent), **changes}
        )

    def for_attempt(self, command: CommandState, state: RunState, tree: str) -> Record:
        """Return the context of a command that is sent, perhaps again, at this tree.

        Reviewing agents get the changes at this tree: files may have changed since the command was
        recorded.
        """
        context: Record = dict(command.message.get("context", {}))
        found = _of_failure(command) if command.failures else {}
        if state.flow[command.stage].agent in _REVIEWING_AGENTS:
            found |= self._changes(state, command.task_id, tree)
        return self._bounded({**context, **found}) if found else context

    def add_to(
        self, message: Message, command: CommandState, state: RunState, tree: str
    ) -> Message:
        """Return the message with its context, or without it if the line would be too long."""
        context = self.for_attempt(command, state, tree)
        context = {**message, "context": context} if context else message
        if len(compact_json(context)) < LINE_BYTES_MAX:
            return context
        return {name: value for name, value in message.items() if name != "context"}

    def _changes(self, state: RunState, task_id: str, tree: str) -> Record:
        """Return the files that differ from the task's base snapshot, and their diff."""
        base_snapshots = state.base_snapshots[task_id]
        changes: Sequence[FileChange] = self._tree.changes(base_snapshots, tree) or ()
        shown = [f"{each.how} {each.path}" for each in changes]
        return {"changed_files": shown, "diff": self._diffs.since_base(base_snapshots, changes)}

    def _bounded(self, found: Mapping[str, Any]) -> Record:
        """Return the nonempty fields, redacted and within the size limit."""
        context = {name: value for name, value in found.items() if value}
        if "findings" in context:
            context["findings"] = _leading_items(context["findings"], FINDINGS_CHARACTERS_MAX)
        if "changed_files" in context:
            context["changed_files"] = _bounded_names(context["changed_files"])
        clean = self._redactor.value(context)
        assert isinstance(clean, dict), context
        for name in _DROP_ORDER:
            if len(canonical_json(clean)) <= CONTEXT_BYTES_MAX:
                break
            clean.pop(name, None)
        return clean


def _last_tests(before: Sequence[CommandState]) -> Record | None:
    """Return the test results of a task's last build, also of a failed one."""
    for command in reversed(before):
        payload = (command.event or {}).get("payload")
        tests = payload.get("tests") if isinstance(payload, Mapping) else None
        if tests is None:
            tests = command.failed_tests
        if isinstance(tests, Mapping):
            return _shortened(tests)
    return None


def _of_failure(command: CommandState) -> Record:
    failure = command.failure or {}
    message = f"{failure.get('code')}: {failure.get('message')}"
    found: Record = {"last_error": truncate(message, ERROR_CHARACTERS_MAX)} if failure else {}
    if command.failed_tests is not None:
        found["tests"] = _shortened(command.failed_tests)
    return found


def _findings(before: Sequence[CommandState], agent: str) -> list[Any]:
    """Return the comments of the same agent's last answer."""
    for command in reversed(before):
        if command.message["to"]["agent_type"] == agent and command.event is not None:
            comments = command.event["payload"].get("comments")
            return comments if isinstance(comments, list) else [comments] if comments else []
    return []


def _shortened(tests: Mapping[str, Any]) -> Record:
    output = tests.get("output")
    if not isinstance(output, str):
        return dict(tests)
    return {**tests, "output": output[-OUTPUT_CHARACTERS_MAX:]}


def _leading_items(values: Sequence[Any], characters: int) -> list[Any]:
    def fitting(characters_left: int) -> Iterator[Any]:
        for each in values:
            characters_left -= len(canonical_json(each))
            if characters_left < 0:
                return
            yield each

    return list(fitting(characters))


def _bounded_names(names: Sequence[str]) -> list[str]:
    left = len(names) - CHANGED_FILES_MAX
    return [*names[:CHANGED_FILES_MAX], *([f"and {left} more"] if left > 0 else [])]
