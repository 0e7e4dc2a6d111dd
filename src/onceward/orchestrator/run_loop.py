"""Run loop: perform and record a run's next step until it ends; the same after a crash.

Decides the next step from the ledger, performs it, records it, and repeats. All of its state is
computed from recorded events, so after a crash another process continues exactly where this one
ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from datetime import timedelta
from typing import Any, Final

from onceward.agents import protocol
from onceward.agents.supervisor import Supervisor
from onceward.errors import AgentFailed, RunHeld, StorageError
from onceward.journal import Record
from onceward.orchestrator import approvals, receipts, run_retention
from onceward.orchestrator.approvals import Manifest
from onceward.orchestrator.change_backups import ChangeBackups
from onceward.orchestrator.diffs import Diffs
from onceward.orchestrator.ledger import Ledger
from onceward.orchestrator.ledger_replay import UNSYNCED_KINDS, CommandState, RunState
from onceward.orchestrator.models import RunLimits
from onceward.orchestrator.next_step import (
    AcceptAnswer,
    CompleteRun,
    CompleteTask,
    FailRun,
    IssueCommand,
    NextStep,
    SendCommand,
    StartTask,
    WithdrawApproval,
    next_step,
)
from onceward.orchestrator.progress import Progress
from onceward.orchestrator.prompt_context import PromptContext
from onceward.orchestrator.task_flow import next_stage
from onceward.orchestrator.transcript import transcript_line
from onceward.orchestrator.workspace import Workspace
from onceward.orchestrator.workspace_tree import WorkspaceTree
from onceward.retries import AGENTS
from onceward.system import Clock, Files, Ids, Randomness, timestamp
from onceward.system.crash_points import crash_point
from onceward.system.redaction import Redactor

#: How often a wait checks whether it should stop.
STOP_CHECK_SECONDS: Final = 0.2
#: Kinds of records that do not change the cached state of the run.
_UNCACHED_KINDS: Final = frozenset(
    {"event", "command.sent", "command.answered", "agent.noise", "agent.log", "agent.exited"}
)
#: Fields with text of people or agents, which are redacted; names, keys and paths are not.
_REDACTED_FIELDS: Final = ("message", "reason", "detail", "problem")
#: Maximum number of paths in a record.
_PATHS_MAX: Final = 20


class Stopped(Exception):
    """The run was asked to stop; it can be resumed."""


class RunLoop:
    """Works on one run in this process."""

    def __init__(  # noqa: PLR0913 - its parts
        self,
        state: RunState,
        *,
        workspace: Workspace,
        ledger: Ledger,
        limits: RunLimits,
        redactor: Redactor,
        tree: WorkspaceTree,
        supervisor: Callable[[RunLoop], Supervisor],
        progress: Progress,
        is_held: Callable[[], bool],
        watch: Callable[[Record], None],
        files: Files,
        clock: Clock,
        ids: Ids,
        randomness: Randomness,
    ) -> None:
        """Continue from `state`; the caller holds the run's lock."""
        self.state, self.workspace, self.limits = state, workspace, limits
        self._ledger, self._redactor, self._tree = ledger, redactor, tree
        self._watch, self._files, self._clock = watch, files, clock
        self._ids, self._randomness = ids, randomness
        self.diffs = Diffs(workspace, tree, redactor, files=files)
        self._context = PromptContext(tree, self.diffs, redactor)
        self._lock = threading.Lock()
        self.stopping = threading.Event()
        #: The step that had no answer when this process took up the run.
        self.pending: int | None = None
        self._progress, self._is_held = progress, is_held
        self._is_closed = False
        self._backups = ChangeBackups(state, workspace, tree, self.record, files=files)
        self._new_supervisor = supervisor
        self._supervisor = supervisor(self)

    def run(self) -> None:
        """Work until the run is done, failed or stopped; agents are stopped in any case."""
        try:
            while self.state.status == "running":
                self.check_stopping()
                self._perform(next_step(self.state, self.limits))
        except Stopped:
            self.record("run.stopped", reason="it was asked to stop")
        finally:
            self._supervisor.stop()
            self._tree.save()

    def stop(self) -> None:
        """Stop the work soon. Safe in any thread and in signal handlers."""
        self.stopping.set()
        self._supervisor.interrupt()

    def check_stopping(self) -> None:
        """Raise Stopped if the run was asked to stop."""
        if self.stopping.is_set():
            raise Stopped

    def record(self, kind: str, **fields: Any) -> Record:  # noqa: ANN401 - whatever the kind needs
        """Append a record to the ledger, apply it to the state, and pass it to the watcher."""
        texts = {
            name: self._redactor.text(fields[name]) for name in _REDACTED_FIELDS if fields.get(name)
        }
        with self._lock:
            if self._is_closed:
                return {}
            record = self._append(kind, {**fields, **texts})
            self.state.apply(record)
            self._progress.apply(record)
            line = transcript_line(record, self._progress)
            if line:
                self._append_transcript(line)
            if kind not in _UNCACHED_KINDS:
                run_retention.cache(self.state, self.workspace, self._files)
        self._watch(record)
        return record

    def record_agent_event(self, kind: str, fields: dict[str, object]) -> None:
        """Record an event of the supervisor about an agent."""
        self.record(kind, **fields)
        if kind == "agent.started":
            # The agent gets its command next; after a restart it may overwrite changed files.
            self.back_up_changes()

    def back_up_changes(self, paths: Collection[str] = (), named: Manifest | None = None) -> str:
        """Back up files that differ from the record and may be overwritten; return the tree.

        `paths` are backed up too. Files in `named` are not, as long as they have the content that
        an agent declared.
        """
        return self._backups.make(paths, named)

    # --- steps -----------------------------------------------------------------------------------

    def _perform(self, step: NextStep) -> None:
        match step:
            case StartTask():
                self._start_task(step)
            case IssueCommand():
                self._issue_command(step)
            case SendCommand():
                self._send_command(step.command)
            case AcceptAnswer():
                self._accept_answer(step.command)
            case CompleteTask():
                self._complete_task(step)
            case CompleteRun():
                self._complete_run()
            case WithdrawApproval():
                reason = "what it approved was redone with a different result"
                self._withdraw(step.approval, reason, [])
            case FailRun():
                # Partial work of agents is not drift when the run is retried. A person may have
                # written some of it, and the retry may overwrite it: back it up.
                tree = self.back_up_changes()
                self.diffs.save_recorded(self.state, tree)
                self.record("run.failed", reason=step.reason, step=step.step, tree=tree)

    def _start_task(self, step: StartTask) -> None:
        """Pin the files for a task; if they changed since the last review, withdraw it instead."""
        snapshot_id = self.back_up_changes()
        if not self._is_approved(snapshot_id):
            return  # No later review would show what changed before this task.
        crash_point("orchestrator.task.before_pin")
        self.record("task.started", task_id=step.task.id, snapshot_id=snapshot_id)
        crash_point("orchestrator.task.after_pin")

    def _complete_task(self, step: CompleteTask) -> None:
        gone = receipts.missing_outputs(self.state, step.task.id, self.workspace)
        if gone is not None:
            number, path = gone
            self.record("redo", step=number, path=path, problem="it is required and missing")
        elif self._is_approved(self._tree.now()):
            self.record("task.completed", task_id=step.task.id)
            crash_point("orchestrator.task.after_complete")

    def _complete_run(self) -> None:
        # A completed run has no agents, so the next run need not search for orphans.
        self._supervisor.stop()
        tree = self._tree.now()
        if not self._is_approved(tree):
            self._supervisor = self._new_supervisor(self)
            return
        crash_point("orchestrator.run.before_complete")
        self.record("run.completed", tree=tree)

    def _is_approved(self, now: str) -> bool:
        """Return whether the last approval covers the files; if not, withdraw it."""
        approval, present = approvals.last_approval(self.state), self._tree.manifest(now) or {}
        if approval is None:
            return True
        beside = receipts.untracked_artifacts(self.state, self.workspace, present)
        files_of = self._tree.manifest
        paths = approvals.unapproved_paths(self.state, approval, files_of, present, beside)
        if paths is None:
            self._withdraw(approval, "the list of files that it approved is missing", [])
        elif paths:
            self._withdraw(approval, "files changed since they were reviewed", paths)
        return paths == []

    def _withdraw(self, approval: CommandState, reason: str, paths: Sequence[str]) -> None:
        fields = {"step": approval.step, "task_id": approval.task_id, "reason": reason}
        self.record("approval.withdrawn", **fields, paths=list(paths[:_PATHS_MAX]))

    def _issue_command(self, step: IssueCommand) -> None:
        """Record a command before it is sent; this fixes its key."""
        needs_approval = not step.stage.makes_outputs and not step.stage.approves
        if needs_approval and not self._is_approved(self._tree.now()):
            return
        message = protocol.command(
            message_id=self._ids.new("msg"),
            correlation_id=self._ids.new("corr"),
            task_id=step.task.id,
            agent_type=step.stage.agent,
            action=step.stage.name,
            inputs=step.inputs,
            expected_outputs=step.task.expected_outputs if step.stage.makes_outputs else (),
            snapshot_id=self.state.pinned[step.task.id],
            deadline=self._deadline(step.stage.name),
            max_attempts=self.limits.attempts_max,
            context=self._command_context(step),
        )
        crash_point("orchestrator.command.before_record")
        number = len(self.state.commands) + 1
        self.record(
            "command", step=number, stage=step.stage.name, round=step.round, command=message
        )
        crash_point("orchestrator.command.after_record")

    def _command_context(self, step: IssueCommand) -> Record:
        """Return the context of a new command; archive base files for later diffs first."""
        snapshot_id = self.state.base_snapshots[step.task.id]
        if not self.state.of_task(step.task.id) and self.state.tree == snapshot_id:
            self.diffs.save_base(snapshot_id)
            crash_point("orchestrator.base.after_write")
        return self._context.for_command(self.state, step.task.id, step.stage)

    def _send_command(self, command: CommandState) -> None:
        """Send a command to its agent and record the answer or the failure."""
        if command.failures:
            self._pause(command.failures)
        attempt = command.failures + 1
        message = {
            **command.message,
            "message_id": self._ids.new("msg"),
            # A late answer to an earlier attempt must not be taken for the answer to this one.
            "correlation_id": self._ids.new("corr"),
            "deadline": self._deadline(command.stage),
            "retry": {"attempt": attempt, "max_attempts": self.limits.attempts_max},
        }
        tree = self.back_up_changes(receipts.observed_files(self.state, self.workspace))
        message = self._context.add_to(message, command, self.state, tree)
        shown = receipts.shown_files(self.state, command, self.workspace, self._tree, tree)
        self.record("command.sent", step=command.step, attempt=attempt, **shown)
        crash_point("orchestrator.send.before_call")
        agent = command.message["to"]["agent_type"]
        try:
            event = self._supervisor.call(
                message, on_event=lambda each: self._record_event(command.step, agent, each)
            )
        except AgentFailed as exc:
            self.check_stopping()
            text = protocol.message_and_fix(exc)
            self._record_failure(command, exc.code, text, retryable=exc.retryable)
            return
        if next_stage(self.state.flow[command.stage], event) is None:
            answer = f"{event['event']} {event.get('status') or ''}".strip()
            self._record_failure(
                command, "UNEXPECTED_ANSWER", f"{answer} is not an answer to {command.stage}"
            )
            return
        crash_point("orchestrator.answer.before_record")
        self.record("command.answered", step=command.step, event=event)
        crash_point("orchestrator.answer.after_record")

    def _accept_answer(self, command: CommandState) -> None:
        """Check an answer and its artifacts, and write its receipt."""
        problem = receipts.answer_problem(command, self.workspace)
        if problem is not None:
            self._record_failure(command, *problem)
            return
        self._redo_lost_work(command)
        # Files not declared by the answer may be a person's; the next command may overwrite them.
        tree = self.back_up_changes(named=approvals.declared_files(self.state, command))
        self.diffs.save_recorded(self.state, tree)
        receipt = receipts.receipt_of(command, self.state.run_id, tree)
        crash_point("orchestrator.receipt.before_file")
        checksum = receipts.write(self.workspace, receipt, self._files)
        crash_point("orchestrator.receipt.after_file")
        path = self.workspace.receipt(command.task_id, self.state.run_id, command.step)
        self.record(
            "receipt",
            step=command.step,
            path=str(path.relative_to(self.workspace.root)),
            checksum=checksum,
            tree=tree,
        )
        crash_point("orchestrator.receipt.after_record")

    def _redo_lost_work(self, command: CommandState) -> None:
        """Before a receipt, request the redo of work that was lost during this command.

        A redone step may have overwritten the work of later steps. Files also may have been lost
        while the run was not running: if this command makes no files, missing ones are redone.
        """
        was_pending_at_start = (
            command.step == self.pending and not self.state.flow[command.stage].makes_outputs
        )
        if command.redo_reasons or was_pending_at_start:
            after_step, only_lost = (command.step, False) if command.redo_reasons else (0, True)
            found = receipts.steps_to_redo(
                self.state, self.workspace, self._tree, after_step=after_step, only_lost=only_lost
            )
            self.redo(found)
        if command.step == self.pending:
            self.pending = None

    def redo(self, stale: Mapping[int, tuple[str, str]]) -> None:
        """Record which steps must be redone, and because of which files."""
        for step, (path, problem) in sorted(stale.items()):
            self.record("redo", step=step, path=path, problem=problem)

    def _record_failure(
        self, command: CommandState, code: str, message: str, *, retryable: bool = True
    ) -> None:
        fields = {"code": code, "message": message, "retryable": retryable}
        self.record("command.failed", step=command.step, **fields, attempt=command.failures + 1)

    def _record_event(self, step: int, agent: str, event: Mapping[str, Any]) -> None:
        self.record("event", step=step, agent=agent, event=dict(event))

    # --- helpers ---------------------------------------------------------------------------------

    def _pause(self, failures: int) -> None:
        """Wait before the next attempt (backoff); raises Stopped if asked to stop."""
        wait = AGENTS.delay(failures, self._randomness) or 0.0
        end = self._clock.monotonic() + wait
        while (left := end - self._clock.monotonic()) > 0:
            self.check_stopping()
            self._clock.sleep(min(left, STOP_CHECK_SECONDS))

    def _deadline(self, action: str) -> str:
        seconds = self.limits.timeout_seconds[action]
        return timestamp(self._clock.now() + timedelta(seconds=seconds))

    def _append(self, kind: str, fields: Record) -> Record:
        """Append a record. After a failure, when its fate is ambiguous, nothing more is written."""
        self._is_closed = True
        if not self._is_held():
            run_id = self.state.run_id
            message = f"this process lost the lock of {run_id}: its file was removed or replaced"
            message += "; the run was stopped, and its completed steps are recorded"
            fix = f"do not touch state/locks; continue with `onceward resume --run {run_id}`"
            raise RunHeld(message, fix=fix)
        if self.state.unsynced:
            fields = {**fields, "unsynced": self.state.unsynced}
        sync = kind not in UNSYNCED_KINDS
        record = self._ledger.append(self.state.seq + 1, kind, fields, sync=sync)
        self._is_closed = False
        return record

    def _append_transcript(self, line: str) -> None:
        """Append a line to the transcript, which is informational only."""
        path = self.workspace.transcript(self.state.run_id)
        with suppress(StorageError):
            self._files.make_directories(path.parent)
            with closing(self._files.open_append(path, follow_links=False)) as file:
                file.write(f"{line}\n".encode())
