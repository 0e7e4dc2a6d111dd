"""Orchestrator: start runs of a workspace, resume them after a crash, list and verify them.

The command line calls this API. One process at a time works in a workspace.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from onceward.agents.orphan_processes import end_orphans
from onceward.agents.supervisor import Supervisor, SupervisorLimits
from onceward.errors import Conflict, LedgerDamaged, RunHeld, RunMissing
from onceward.journal import Record
from onceward.keys import RULES_VERSION
from onceward.orchestrator import receipts, run_locks, run_pruning, run_retention
from onceward.orchestrator.config import WorkspaceConfig
from onceward.orchestrator.ledger import Ledger, LedgerContents
from onceward.orchestrator.ledger_replay import RunState, replay
from onceward.orchestrator.models import (
    AgentTask,
    CommandExplanation,
    RunResult,
    RunVerification,
    RunView,
    TaskRunSummary,
)
from onceward.orchestrator.progress import Progress
from onceward.orchestrator.run_locks import OnWait, locked
from onceward.orchestrator.run_loop import RunLoop
from onceward.orchestrator.run_verification import verify_run
from onceward.orchestrator.task_flow import flow_record
from onceward.orchestrator.tree_drift import Drift, find_drift, is_only_lost
from onceward.orchestrator.views import explain_commands, summary_of, unchecked_of, view_of
from onceward.orchestrator.workspace import Workspace, is_run_id, new_run_id
from onceward.orchestrator.workspace_registry import WorkspaceRegistry
from onceward.orchestrator.workspace_tree import WorkspaceTree
from onceward.system import (
    Clock,
    Files,
    Ids,
    Randomness,
    SystemClock,
    SystemFiles,
    SystemRandomness,
)
from onceward.system.crash_points import crash_point
from onceward.system.redaction import Redactor

#: The fix where there is no run.
_START: Final = "start a run: `onceward run --task …`"


def _ignore_record(_: Record) -> None:
    """Ignore a record."""


def _check_rules(state: RunState) -> None:
    """Refuse to resume a run whose keys were computed by other rules."""
    if state.rules != RULES_VERSION:
        message = (
            f"{state.run_id} was started with version {state.rules} of the key rules, "
            f"but this installation has version {RULES_VERSION}; nothing was changed"
        )
        fix = "resume it with the version of Onceward that started it, or start a new run"
        raise Conflict(message, fix=fix, run_id=state.run_id)


class Orchestrator:
    """The runs of one workspace."""

    def __init__(  # noqa: PLR0913 - a workspace, a callback, and what tests inject
        self,
        config: WorkspaceConfig,
        *,
        watch: Callable[[Record], None] = _ignore_record,
        files: Files | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        """Work in the configured workspace; `watch` is called with each written record."""
        self.config, self.workspace = config, Workspace(root=config.workspace)
        self._watch, self._files = watch, files or SystemFiles()
        self._clock, self._ids = clock or SystemClock(), ids or Ids()
        self._randomness = randomness or SystemRandomness()
        secrets = dict(os.environ)
        for spec in config.agents.values():
            secrets |= {f"{spec.type}_{name}": value for name, value in spec.env.items()}
        self._redactor = Redactor.from_environment(secrets)
        self._run_loop: RunLoop | None = None
        self._is_stopping = False

    def run(self, tasks: Sequence[AgentTask], *, on_wait: OnWait | None = None) -> RunResult:
        """Start a run of tasks, in this order, and work on it until it ends.

        Orphaned agents of earlier runs are killed first. With `on_wait`, waits for another
        orchestrator of this workspace to end.

        Raises:
            RunHeld: Another process works in this workspace.
            AgentFailed: An orphaned agent could not be killed; nothing was started.

        """
        with self._locked(self._new_run_id, on_wait) as (run_id, is_held):
            unfinished = self._end_orphans(on_wait)
            latest = self._run_ids()[-self.config.limits.runs_kept :]
            run_pruning.prune(
                self.workspace, unfinished, latest, files=self._files, clock=self._clock
            )
            run_loop = self._new_run_loop(RunState(run_id=run_id), is_held)
            limits = self.config.limits
            run_loop.record(
                "run.started",
                run_id=run_id,
                tasks=[self._redacted(each) for each in tasks],
                limits={"rounds_max": limits.rounds_max, "attempts_max": limits.attempts_max},
                rules=RULES_VERSION,
                flow=flow_record(),
            )
            crash_point("orchestrator.run.after_start")
            return self._work(run_loop)

    def resume(
        self,
        run_id: str | None = None,
        *,
        accept_drift: bool = False,
        redo: bool = False,
        retry: bool = False,
        on_wait: OnWait | None = None,
    ) -> RunResult:
        """Resume a run. Default: the latest one.

        If files changed since the run recorded them, `accept_drift` continues with the files as
        they are, and `redo` repeats the steps whose files changed. Both back up the changed files
        to `state/kept` first.

        Raises:
            RunMissing: There is no such run, or no run at all.
            RunHeld: Another process works in this workspace.
            Drifted: Files have changed, and neither option was passed.
            LedgerDamaged: The ledger lacks records.

        """
        run_id = self._latest() if run_id is None else run_id
        self._check_exists(run_id)
        with self._locked(partial(str, run_id), on_wait) as (_, is_held):
            self._end_orphans(on_wait)
            state, read = self._read(run_id)
            if not state.run_id:
                message = f"{run_id} crashed before its first record; nothing was started"
                raise RunMissing(message, fix=_START)
            if state.status == "done":
                unchecked = unchecked_of(state)
                return RunResult(
                    run_id=run_id, status="done", was_complete=True, unchecked=unchecked
                )
            if state.status == "failed" and not retry:
                return RunResult(run_id=run_id, status="failed", reason=state.reason)
            _check_rules(state)
            self._ledger(run_id).truncate_torn_line(read)
            crash_point("orchestrator.resume.after_truncate")
            run_loop = self._new_run_loop(state, is_held, read.records)
            self._reconcile(run_loop, read, accept_drift=accept_drift, redo=redo, retry=retry)
            return self._work(run_loop)

    def stop(self) -> None:
        """Ask the current run to stop cleanly. Safe in a signal handler."""
        self._is_stopping = True
        if self._run_loop is not None:
            self._run_loop.stop()

    def runs(self) -> list[TaskRunSummary]:
        """Return all runs, latest first."""
        found = [self._summary(run_id) for run_id in reversed(self._run_ids())]
        return [each for each in found if each is not None]

    def show(self, run_id: str) -> RunView:
        """Return one run with its commands."""
        state, read = self._read(run_id)
        return view_of(state, damaged=len(read.damaged))

    def explain(self, run_id: str) -> list[CommandExplanation]:
        """Return why each command was issued and sent again, and what a resume does with it."""
        return explain_commands(self._read(run_id)[0])

    def verify(self, run_id: str) -> RunVerification:
        """Compare the files of a run with its records."""
        self._check_exists(run_id)
        tree = WorkspaceTree(self.workspace, files=self._files, clock=self._clock)
        return verify_run(self._ledger(run_id), self.workspace, tree, self._files)

    # --- implementation --------------------------------------------------------------------------

    def _redacted(self, task: AgentTask) -> Record:
        """Return a task as a redacted record; its id and paths stay unchanged."""
        record = task.to_record()
        record["goal"] = self._redactor.text(task.goal)
        record["inputs"] = self._redactor.value(task.inputs)
        for each in record["expected_outputs"]:
            if "description" in each:
                each["description"] = self._redactor.text(each["description"])
        return record

    def _new_run_loop(
        self, state: RunState, is_held: Callable[[], bool], records: Sequence[Record] = ()
    ) -> RunLoop:
        return RunLoop(
            state,
            workspace=self.workspace,
            ledger=self._ledger(state.run_id),
            limits=self.config.limits,
            redactor=self._redactor,
            tree=WorkspaceTree(self.workspace, files=self._files, clock=self._clock),
            supervisor=lambda run_loop: self._supervisor(run_loop, state.run_id),
            is_held=is_held,
            progress=Progress.of(records),
            watch=self._watch,
            files=self._files,
            clock=self._clock,
            ids=self._ids,
            randomness=self._randomness,
        )

    def _supervisor(self, run_loop: RunLoop, run_id: str) -> Supervisor:
        limits = self.config.limits
        return Supervisor(
            self.config.agents,
            workspace=self.workspace.root,
            run_id=run_id,
            limits=SupervisorLimits(
                heartbeat_seconds=limits.heartbeat_seconds,
                heartbeats_missed_max=limits.heartbeats_missed_max,
                timeout_seconds=limits.timeout_seconds,
                restarts_max=limits.restarts_max,
            ),
            redactor=self._redactor,
            on=run_loop.record_agent_event,
            lock=self.workspace.agents_lock(run_id),
            files=self._files,
            clock=self._clock,
            ids=self._ids,
            randomness=self._randomness,
        )

    def _work(self, run_loop: RunLoop) -> RunResult:
        WorkspaceRegistry(files=self._files).add(self.workspace.root)
        self._run_loop = run_loop
        if self._is_stopping:
            run_loop.stop()
        try:
            run_loop.run()
        finally:
            self._run_loop = None
        state = run_loop.state
        return RunResult(
            run_id=state.run_id,
            status=state.status,
            reason=state.reason,
            unchecked=unchecked_of(state),
        )

    def _reconcile(
        self,
        run_loop: RunLoop,
        read: LedgerContents,
        *,
        accept_drift: bool,
        redo: bool,
        retry: bool,
    ) -> None:
        """Restore receipts, handle drift, and record which steps must be redone."""
        state = run_loop.state
        receipts.restore_missing(state, self.workspace, self._files)
        tree = WorkspaceTree(self.workspace, files=self._files, clock=self._clock)
        drift = find_drift(state, self.workspace, tree)
        lost = receipts.stale_steps(state, self.workspace, tree, only_lost=True)
        is_lost = drift is None or is_only_lost(drift, self.workspace, lost, state)
        if not is_lost and not (accept_drift or redo):
            assert drift is not None
            diff = run_loop.diffs.since_recorded(state, drift.changes or ())
            raise drift.to_error(state.run_id, diff)
        to_redo = (
            receipts.stale_steps(state, self.workspace, tree, only_lost=False) if redo else lost
        )
        if accept_drift and not is_lost:
            to_redo = {}
        pending = state.open_command()
        run_loop.record(
            "run.resumed",
            pending=pending.step if pending else None,
            retry=retry,
            rounds_granted=self.config.limits.rounds_max if retry else 0,
            damaged=len(read.damaged),
        )
        crash_point("orchestrator.resume.after_record")
        for pid, agent in list(state.agents.items()):
            reason = "its orchestrator had died"
            run_loop.record("agent.exited", agent=agent["agent"], pid=pid, reason=reason)
        run_loop.back_up_changes(drift.paths if drift is not None else ())
        redone = receipts.paths_of_steps(state, to_redo)
        run_loop.redo(to_redo)
        run_loop.pending = pending.step if pending else None
        if drift is not None and not is_lost:
            self._accept(run_loop, drift, redone)

    def _accept(self, run_loop: RunLoop, drift: Drift, redone: Collection[str]) -> None:
        """Record that changed files are accepted, except those that are about to be redone."""
        paths = [path for path in drift.paths if path not in redone]
        if paths or drift.changes is None:
            run_loop.diffs.save_recorded(run_loop.state, drift.now)
            run_loop.record(
                "drift.accepted", **{"from": drift.before, "to": drift.now}, paths=paths
            )

    @contextmanager
    def _locked(
        self, choose: Callable[[], str], on_wait: OnWait | None
    ) -> Iterator[tuple[str, Callable[[], bool]]]:
        with locked(
            self.workspace,
            choose,
            files=self._files,
            clock=self._clock,
            on_wait=self._until_stopped(on_wait),
        ) as held:
            yield held

    def _until_stopped(self, on_wait: OnWait | None) -> OnWait | None:
        """Stop waiting for a lock when this orchestrator is asked to stop."""
        if on_wait is None:
            return None

        def waiting(error: RunHeld) -> None:
            if self._is_stopping:
                raise error
            on_wait(error)

        return waiting

    def _end_orphans(self, on_wait: OnWait | None) -> list[tuple[str, LedgerContents]]:
        """Kill orphaned agents and programs of all runs here, or wait for those elsewhere.

        Returns the unfinished runs with their ledgers. Completed ones had stopped their agents.
        """
        unfinished = [
            (run_id, self._ledger(run_id).read())
            for run_id in self._run_ids()
            if not run_retention.is_done(self.workspace, run_id, self._files)
        ]
        left = run_locks.agents_without_exit(unfinished)
        end_orphans(left, clock=self._clock)
        waiting = self._until_stopped(on_wait)
        run_locks.wait_for_foreign_agents(left, self.workspace, self._clock, waiting)
        run_locks.end_orphaned_programs(self.workspace, self._clock)
        crash_point("orchestrator.resume.after_orphans")
        return unfinished

    def _summary(self, run_id: str) -> TaskRunSummary | None:
        """Return the summary of a run, also of a damaged one; None if it has no record."""
        try:
            state, read = self._read(run_id)
        except LedgerDamaged as exc:
            state, read = RunState(run_id=run_id, status="failed", reason=exc.message), None
        return summary_of(state, len(read.damaged) if read else 1) if state.run_id else None

    def _read(self, run_id: str) -> tuple[RunState, LedgerContents]:
        self._check_exists(run_id)
        read = self._ledger(run_id).read()
        return replay(read.records), read

    def _check_exists(self, run_id: str) -> None:
        if not self._ledger(run_id).exists():
            known = self._run_ids()[-5:]
            message = f"there is no run {run_id} in {self.workspace.root}"
            fix = f"pass a run such as {', '.join(known)}" if known else _START
            raise RunMissing(message, fix=fix)

    def _latest(self) -> str:
        for run_id in reversed(self._run_ids()):
            if self._ledger(run_id).has_first_record():
                return run_id
        message = f"there is no run in {self.workspace.root} yet"
        raise RunMissing(message, fix=_START)

    def _run_ids(self) -> list[str]:
        """Return all run ids in order of time: ids begin with the start time."""
        names = self._files.names(self.workspace.root / "events")
        found = [each.removesuffix(".ndjson") for each in names if each.endswith(".ndjson")]
        return [each for each in found if is_run_id(each)]

    def _ledger(self, run_id: str) -> Ledger:
        return Ledger(self.workspace.ledger(run_id), files=self._files, clock=self._clock)

    def _new_run_id(self) -> str:
        return new_run_id(self._clock.now(), self._randomness.hex(8), self._run_ids())
