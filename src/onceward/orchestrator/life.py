"""Life: one process working on one run, from where the ledger stands until it ends or dies.

Looks at what the ledger says, does the one step that follows, writes it down, and looks again. All
that it knows is folded from what it wrote, so a later life goes on exactly where this one ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from datetime import timedelta
from typing import Any, Final

from onceward.agents import messages
from onceward.agents.supervisor import Supervisor
from onceward.crash import crash_point
from onceward.errors import AgentFailed, RunHeld, StorageError
from onceward.journal import Record
from onceward.orchestrator import approvals, base_files, receipts, retention
from onceward.orchestrator.deciding import (
    Ask,
    CompleteRun,
    CompleteTask,
    Fail,
    Receive,
    Send,
    StartTask,
    Step,
    Withdraw,
    decide,
)
from onceward.orchestrator.flow import following
from onceward.orchestrator.kept import Kept
from onceward.orchestrator.ledger import Ledger
from onceward.orchestrator.models import RunLimits
from onceward.orchestrator.progress import Progress
from onceward.orchestrator.prompt_context import PromptContext
from onceward.orchestrator.replay import LOOSE, Asked, RunState
from onceward.orchestrator.transcript import line_of
from onceward.orchestrator.tree import Tree
from onceward.orchestrator.workspace import Workspace
from onceward.retries import AGENTS
from onceward.seams import Clock, Files, Ids, Randomness, timestamp
from onceward.secrets import Redactor

#: How long a wait goes on before it looks whether it should stop.
LOOK_SECONDS: Final = 0.2
#: Kinds that change what the cached state says; the others are told to people only.
_ON_THE_WAY: Final = frozenset(
    {"event", "command.sent", "command.answered", "agent.noise", "agent.log", "agent.exited"}
)
#: Fields that people wrote, or agents; names, keys and paths are left as they are.
_TEXTS: Final = ("message", "reason", "detail", "problem")
#: How often files are copied that a person goes on changing meanwhile.
_COPIES_MAX: Final = 5
#: How many paths a record names.
_PATHS_MAX: Final = 20


class Stopped(Exception):
    """Somebody asked this life to end; the run can be resumed."""


class Life:
    """The work on one run by one process."""

    def __init__(  # noqa: PLR0913 - its parts
        self,
        state: RunState,
        *,
        workspace: Workspace,
        ledger: Ledger,
        limits: RunLimits,
        redactor: Redactor,
        tree: Tree,
        supervisor: Callable[[Life], Supervisor],
        progress: Progress,
        is_held: Callable[[], bool],
        watch: Callable[[Record], None],
        files: Files,
        clock: Clock,
        ids: Ids,
        randomness: Randomness,
    ) -> None:
        """Go on from a state; the run's lock is held by whoever calls this."""
        self.state, self.workspace, self.limits = state, workspace, limits
        self._ledger, self._redactor, self._tree = ledger, redactor, tree
        self._watch, self._files, self._clock = watch, files, clock
        self._ids, self._randomness = ids, randomness
        self._context = PromptContext(workspace, tree, redactor)
        self._lock = threading.Lock()
        self.stopping = threading.Event()
        #: The command that had no answer when this life began.
        self.pending: int | None = None
        self._progress, self._is_held = progress, is_held
        self._is_closed = False
        self._kept = Kept(workspace, state.run_id, files=files)
        self._new_supervisor = supervisor
        self._supervisor = supervisor(self)

    def live(self) -> None:
        """Work until the run is done, failed or stopped; whatever ends this, agents are ended."""
        try:
            while self.state.status == "running":
                self.check_stopping()
                self._perform(decide(self.state, self.limits))
        except Stopped:
            self.record("run.stopped", reason="it was asked to stop")
        finally:
            self._supervisor.stop()
            self._tree.save()

    def stop(self) -> None:
        """Let the work end soon, from any thread or signal handler."""
        self.stopping.set()
        self._supervisor.interrupt()

    def check_stopping(self) -> None:
        """Leave what is going on if somebody asked for that."""
        if self.stopping.is_set():
            raise Stopped

    def record(self, kind: str, **fields: Any) -> Record:  # noqa: ANN401 - whatever the kind needs
        """Write down what happened, fold it in, and tell whoever watches."""
        texts = {name: self._redactor.text(fields[name]) for name in _TEXTS if fields.get(name)}
        with self._lock:
            if self._is_closed:
                return {}
            record = self._append(kind, {**fields, **texts})
            self.state.take(record)
            self._progress.take(record)
            line = line_of(record, self._progress)
            if line:
                self._tell(line)
            if kind not in _ON_THE_WAY:
                retention.cache(self.state, self.workspace, self._files)
        self._watch(record)
        return record

    def told(self, kind: str, fields: dict[str, object]) -> None:
        """Write down what the supervisor tells of agents."""
        self.record(kind, **fields)
        if kind == "agent.started":
            # It gets its command next. One that replaces a dead agent does the work again.
            self.keep_changes()

    def keep_changes(self, paths: Collection[str] = (), named: Collection[str] = ()) -> str:
        """Copy files that are not as recorded before they may be overwritten; return the tree.

        `paths` are copied as well: artifacts that snapshots leave out. `named` are not: an agent
        answers for them.
        """
        for _ in range(_COPIES_MAX):
            now, recorded = self._tree.now(), self.state.tree
            if recorded is None:
                break
            changes = self._tree.changes(recorded, now)
            differing = self._tree.manifest(now) or {} if changes is None else changes
            found = {each if isinstance(each, str) else each.path for each in differing}
            wanted = found.difference(named) | set(paths)
            copied = self._kept.copy(wanted, before=recorded, after=now) if wanted else None
            if copied is None:
                break
            where, count = copied
            self.record("files.kept", path=where, files=count, **{"from": recorded, "to": now})
        return now

    # --- the steps -------------------------------------------------------------------------------

    def _perform(self, step: Step) -> None:
        match step:
            case StartTask():
                snapshot_id = self._tree.now()
                crash_point("orchestrator.task.before_pin")
                self.record("task.started", task_id=step.task.id, snapshot_id=snapshot_id)
                crash_point("orchestrator.task.after_pin")
            case Ask():
                self._ask(step)
            case Send():
                self._send(step.asked)
            case Receive():
                self._receive(step.asked)
            case CompleteTask():
                self._complete_task(step)
            case CompleteRun():
                self._complete_run()
            case Withdraw():
                reason = "what it approved was made again, with another result"
                self._withdraw(step.approval, reason, [])
            case Fail():
                # What agents left half done is no drift when somebody retries.
                tree = self._tree.now()
                self.record("run.failed", reason=step.reason, step=step.step, tree=tree)

    def _complete_task(self, step: CompleteTask) -> None:
        gone = receipts.missing_outputs(self.state, step.task.id, self.workspace)
        if gone is not None:
            number, path = gone
            self.record("redo", step=number, path=path, problem="it is required and gone")
        elif self._is_approved(self._tree.now()):
            self.record("task.completed", task_id=step.task.id)
            crash_point("orchestrator.task.after_complete")

    def _complete_run(self) -> None:
        # A run that is done has no agents: the next run need not look for any.
        self._supervisor.stop()
        tree = self._tree.now()
        if not self._is_approved(tree):
            self._supervisor = self._new_supervisor(self)
            return
        crash_point("orchestrator.run.before_complete")
        self.record("run.completed", tree=tree)

    def _is_approved(self, now: str) -> bool:
        """Say whether the files are what was approved last; if not, that approval is withdrawn."""
        approval, present = approvals.last_approval(self.state), self._tree.manifest(now)
        if approval is None:
            return True
        paths = approvals.unapproved(self.state, approval, self._tree.manifest, present or {})
        if paths is None:
            self._withdraw(approval, "it is not known which files it approved", [])
        elif paths:
            self._withdraw(approval, "files changed since they were reviewed", paths)
        return paths == []

    def _withdraw(self, approval: Asked, reason: str, paths: Sequence[str]) -> None:
        self.record(
            "approval.withdrawn",
            step=approval.step,
            task_id=approval.task_id,
            reason=reason,
            paths=list(paths[:_PATHS_MAX]),
        )

    def _ask(self, step: Ask) -> None:
        """Announce a command; from here on its key is fixed."""
        needs_approval = not step.stage.makes_outputs and not step.stage.approves
        if needs_approval and not self._is_approved(self._tree.now()):
            return
        message = messages.command(
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
            context=self._told_beside(step),
        )
        crash_point("orchestrator.command.before_record")
        number = len(self.state.asked) + 1
        self.record(
            "command", step=number, stage=step.stage.name, round=step.round, command=message
        )
        crash_point("orchestrator.command.after_record")

    def _told_beside(self, step: Ask) -> Record:
        """Return what a new command tells outside of its key; keep what its diffs will need."""
        snapshot_id = self.state.pinned[step.task.id]
        if not self.state.of_task(step.task.id) and self.state.tree == snapshot_id:
            manifest = self._tree.manifest(snapshot_id) or {}
            base_files.keep(self.workspace, snapshot_id, manifest, self._files)
            crash_point("orchestrator.base.after_write")
        return self._context.of_command(self.state, step.task.id, step.stage)

    def _send(self, asked: Asked) -> None:
        """Give a command to its agent and write down how that ended."""
        if asked.failures:
            self._pause(asked.failures)
        attempt = asked.failures + 1
        message = {
            **asked.command,
            "message_id": self._ids.new("msg"),
            # A late answer to an earlier attempt must not pass for the answer to this one.
            "correlation_id": self._ids.new("corr"),
            "deadline": self._deadline(asked.stage),
            "retry": {"attempt": attempt, "max_attempts": self.limits.attempts_max},
        }
        message = self._context.added_to(message, asked)
        tree = self.keep_changes()
        self.record("command.sent", step=asked.step, attempt=attempt, tree=tree)
        crash_point("orchestrator.send.before_call")
        agent = asked.command["to"]["agent_type"]
        try:
            event = self._supervisor.call(
                message, on_event=lambda each: self._on_the_way(asked.step, agent, each)
            )
        except AgentFailed as exc:
            self.check_stopping()
            self._failed(asked, exc.code, exc.message, retryable=exc.retryable)
            return
        if following(self.state.flow[asked.stage], event) is None:
            said = f"{event['event']} {event.get('status') or ''}".strip()
            self._failed(asked, "UNEXPECTED_ANSWER", f"{said} is no answer to {asked.stage}")
            return
        crash_point("orchestrator.answer.before_record")
        self.record("command.answered", step=asked.step, event=event)
        crash_point("orchestrator.answer.after_record")

    def _receive(self, asked: Asked) -> None:
        """Check what an answer brought, and keep its receipt."""
        problem = receipts.problem_with(asked, self.workspace)
        if problem is not None:
            self._failed(asked, *problem)
            return
        self._redo_around(asked)
        # What the answer does not name may be a person's, and the next command may overwrite it.
        event = asked.event or {}
        tree = self.keep_changes(named=[each["path"] for each in event.get("artifacts") or []])
        receipt = receipts.receipt_of(asked, self.state.run_id, tree)
        crash_point("orchestrator.receipt.before_file")
        checksum = receipts.write(self.workspace, receipt, self._files)
        crash_point("orchestrator.receipt.after_file")
        path = self.workspace.receipt(asked.task_id, self.state.run_id, asked.step)
        self.record(
            "receipt",
            step=asked.step,
            path=str(path.relative_to(self.workspace.root)),
            checksum=checksum,
            tree=tree,
        )
        crash_point("orchestrator.receipt.after_record")

    def _redo_around(self, asked: Asked) -> None:
        """Have made again what was lost while this command was under way; before its receipt.

        What a redone step wrote may lie over what later ones had made of it. And while a command
        was pending in a dead life, nobody could look; one that makes no files changed none.
        """
        is_revived = asked.step == self.pending and not self.state.flow[asked.stage].makes_outputs
        if asked.redone or is_revived:
            behind, only_lost = (asked.step, False) if asked.redone else (0, True)
            found = receipts.damaged(
                self.state, self.workspace, self._tree, behind=behind, only_lost=only_lost
            )
            self.redo(found)
        if asked.step == self.pending:
            self.pending = None

    def redo(self, stale: Mapping[int, tuple[str, str]]) -> None:
        """Write down which commands are to be done again, because of which files."""
        for step, (path, problem) in sorted(stale.items()):
            self.record("redo", step=step, path=path, problem=problem)

    def _failed(self, asked: Asked, code: str, message: str, *, retryable: bool = True) -> None:
        attempt = asked.failures + 1
        self.record(
            "command.failed",
            step=asked.step,
            code=code,
            message=message,
            retryable=retryable,
            attempt=attempt,
        )

    def _on_the_way(self, step: int, agent: str, event: Mapping[str, Any]) -> None:
        self.record("event", step=step, agent=agent, event=dict(event))

    # --- what surrounds them ---------------------------------------------------------------------

    def _pause(self, failures: int) -> None:
        """Wait before the next attempt, unless somebody wants to stop."""
        wait = AGENTS.delay(failures, self._randomness) or 0.0
        end = self._clock.monotonic() + wait
        while (left := end - self._clock.monotonic()) > 0:
            self.check_stopping()
            self._clock.sleep(min(left, LOOK_SECONDS))

    def _deadline(self, action: str) -> str:
        seconds = self.limits.timeout_seconds[action]
        return timestamp(self._clock.now() + timedelta(seconds=seconds))

    def _append(self, kind: str, fields: Record) -> Record:
        """Write a record; when it is not known whether it is there, this life writes no more."""
        self._is_closed = True
        if not self._is_held():
            message = f"the lock of {self.state.run_id} was taken away while it was worked on"
            raise RunHeld(message)
        if self.state.loose:
            fields = {**fields, "loose": self.state.loose}
        sync = kind not in LOOSE
        record = self._ledger.append(self.state.seq + 1, kind, fields, sync=sync)
        self._is_closed = False
        return record

    def _tell(self, line: str) -> None:
        """Add a line to the transcript; people read it, nothing depends on it."""
        path = self.workspace.transcript(self.state.run_id)
        with suppress(StorageError):
            self._files.make_directories(path.parent)
            with closing(self._files.open_append(path, follow_links=False)) as file:
                file.write(f"{line}\n".encode())
