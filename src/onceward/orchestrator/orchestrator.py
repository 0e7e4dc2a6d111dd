"""Orchestrator: starts runs in a workspace, resumes them, and shows what became of them.

What the command line calls. One process works on a run at a time. Knows no terminal.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from onceward.agents.orphans import AgentRecord, end_orphans
from onceward.agents.supervisor import Limits, Supervisor
from onceward.crash import crash_point
from onceward.errors import Conflict, LedgerDamaged, RunHeld, RunMissing
from onceward.journal import Record
from onceward.keys import RULES_VERSION
from onceward.orchestrator import pruning, receipts, retention
from onceward.orchestrator.config import Config
from onceward.orchestrator.drift import Drift, find_drift, is_only_lost
from onceward.orchestrator.flow import flow_record
from onceward.orchestrator.ledger import Ledger, Read
from onceward.orchestrator.life import Life
from onceward.orchestrator.locking import OnWait, locked
from onceward.orchestrator.models import (
    CommandStory,
    RunResult,
    RunSummary,
    RunView,
    Task,
    Verification,
)
from onceward.orchestrator.progress import Progress
from onceward.orchestrator.registry import Registry
from onceward.orchestrator.replay import RunState, agents_left, replay
from onceward.orchestrator.tree import Tree
from onceward.orchestrator.verify import verify_run
from onceward.orchestrator.views import stories_of, summary_of, unchecked_of, view_of
from onceward.orchestrator.workspace import Workspace, is_run_id
from onceward.seams import (
    Clock,
    Files,
    Ids,
    Randomness,
    SystemClock,
    SystemFiles,
    SystemRandomness,
)
from onceward.secrets import Redactor


def _see_nothing(_: Record) -> None:
    """Watch without looking."""


def _check_rules(state: RunState) -> None:
    """Refuse to compute keys by other rules than those that the run was started with."""
    if state.rules != RULES_VERSION:
        message = (
            f"{state.run_id} was started with rules {state.rules} of keys, "
            f"and this version has rules {RULES_VERSION}"
        )
        fix = "resume it with the version that started it, or start a new run"
        raise Conflict(message, fix=fix, run_id=state.run_id)


class Orchestrator:
    """The runs of one workspace."""

    def __init__(  # noqa: PLR0913 - a workspace, who watches, and the seams
        self,
        config: Config,
        *,
        watch: Callable[[Record], None] = _see_nothing,
        files: Files | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        """Work in the workspace of a configuration; `watch` sees each record as it is written."""
        self.config, self.workspace = config, Workspace(root=config.workspace)
        self._watch, self._files = watch, files or SystemFiles()
        self._clock, self._ids = clock or SystemClock(), ids or Ids()
        self._randomness = randomness or SystemRandomness()
        secrets = dict(os.environ)
        for spec in config.agents.values():
            secrets |= {f"{spec.type}_{name}": value for name, value in spec.env.items()}
        self._redactor = Redactor.from_environment(secrets)
        self._life: Life | None = None
        self._is_stopping = False

    def run(self, tasks: Sequence[Task], *, on_wait: OnWait | None = None) -> RunResult:
        """Start a run over tasks, in this order, and work on it until it ends.

        Agents that an earlier run left behind are ended before anything is looked at. With
        `on_wait`, waits for another orchestrator of this workspace to end.

        Raises:
            RunHeld: Another process works in this workspace.
            AgentFailed: An agent of an earlier run does not end; nothing was started.

        """
        run_id = self._new_run_id()
        with self._held(run_id, on_wait) as is_held:
            unfinished = self._end_orphans()
            latest = self._run_ids()[-self.config.limits.runs_kept :]
            pruning.prune(self.workspace, unfinished, latest, files=self._files, clock=self._clock)
            life = self._begin(RunState(run_id=run_id), is_held)
            limits = self.config.limits
            life.record(
                "run.started",
                run_id=run_id,
                tasks=[self._redacted(each) for each in tasks],
                limits={"rounds_max": limits.rounds_max, "attempts_max": limits.attempts_max},
                rules=RULES_VERSION,
                flow=flow_record(),
            )
            crash_point("orchestrator.run.after_start")
            return self._live(life)

    def resume(
        self,
        run_id: str | None = None,
        *,
        accept_drift: bool = False,
        redo: bool = False,
        retry: bool = False,
        on_wait: OnWait | None = None,
    ) -> RunResult:
        """Go on with a run, the latest one unless told otherwise.

        When files changed since the run recorded them, `accept_drift` goes on from them as they
        are, and `redo` does the steps again whose files changed. Both copy the changed files to
        `state/kept` first.

        Raises:
            RunMissing: There is no such run, or none at all.
            RunHeld: Another process works in this workspace.
            Drifted: The workspace is not as the run left it, and neither option was passed.
            LedgerDamaged: Records that were written are gone.

        """
        run_id = self._latest() if run_id is None else run_id
        self._check_exists(run_id)
        with self._held(run_id, on_wait) as is_held:
            self._end_orphans()
            state, read = self._read(run_id)
            if not state.run_id:
                message = f"{run_id} died before it began"
                raise RunMissing(message, fix="start a new one: `onceward run --task …`")
            if state.status == "done":
                unchecked = unchecked_of(state)
                return RunResult(
                    run_id=run_id, status="done", was_complete=True, unchecked=unchecked
                )
            if state.status == "failed" and not retry:
                return RunResult(run_id=run_id, status="failed", reason=state.reason)
            _check_rules(state)
            self._ledger(run_id).mend(read)
            crash_point("orchestrator.resume.after_mend")
            life = self._begin(state, is_held, read.records)
            self._revive(life, read, accept_drift=accept_drift, redo=redo, retry=retry)
            return self._live(life)

    def stop(self) -> None:
        """Ask the work that is going on to end cleanly; fit for a signal handler."""
        self._is_stopping = True
        if self._life is not None:
            self._life.stop()

    def runs(self) -> list[RunSummary]:
        """Return all runs, the latest first."""
        found = [self._summary(run_id) for run_id in reversed(self._run_ids())]
        return [each for each in found if each is not None]

    def show(self, run_id: str) -> RunView:
        """Return one run with its commands."""
        state, read = self._read(run_id)
        return view_of(state, damaged=len(read.damaged))

    def explain(self, run_id: str) -> list[CommandStory]:
        """Return for every command why it was sent, replayed or skipped."""
        return stories_of(self._read(run_id)[0])

    def verify(self, run_id: str) -> Verification:
        """Compare the files of a run with what it recorded."""
        self._check_exists(run_id)
        tree = Tree(self.workspace, files=self._files, clock=self._clock)
        return verify_run(self._ledger(run_id), self.workspace, tree, self._files)

    # --- how it is done --------------------------------------------------------------------------

    def _redacted(self, task: Task) -> Record:
        """Return a task without secrets; its paths and its id are what they are."""
        record = task.to_record()
        record["goal"] = self._redactor.text(task.goal)
        record["inputs"] = self._redactor.value(task.inputs)
        for each in record["expected_outputs"]:
            if "description" in each:
                each["description"] = self._redactor.text(each["description"])
        return record

    def _begin(
        self, state: RunState, is_held: Callable[[], bool], records: Sequence[Record] = ()
    ) -> Life:
        return Life(
            state,
            workspace=self.workspace,
            ledger=self._ledger(state.run_id),
            limits=self.config.limits,
            redactor=self._redactor,
            tree=Tree(self.workspace, files=self._files, clock=self._clock),
            supervisor=lambda life: self._supervisor(life, state.run_id),
            is_held=is_held,
            progress=Progress.of(records),
            watch=self._watch,
            files=self._files,
            clock=self._clock,
            ids=self._ids,
            randomness=self._randomness,
        )

    def _supervisor(self, life: Life, run_id: str) -> Supervisor:
        limits = self.config.limits
        return Supervisor(
            self.config.agents,
            workspace=self.workspace.root,
            run_id=run_id,
            limits=Limits(
                heartbeat_seconds=limits.heartbeat_seconds,
                heartbeats_missed_max=limits.heartbeats_missed_max,
                timeout_seconds=limits.timeout_seconds,
                restarts_max=limits.restarts_max,
            ),
            redactor=self._redactor,
            on=life.told,
            files=self._files,
            clock=self._clock,
            ids=self._ids,
            randomness=self._randomness,
        )

    def _live(self, life: Life) -> RunResult:
        Registry(files=self._files).add(self.workspace.root)
        self._life = life
        if self._is_stopping:
            life.stop()
        try:
            life.live()
        finally:
            self._life = None
        state = life.state
        return RunResult(
            run_id=state.run_id,
            status=state.status,
            reason=state.reason,
            unchecked=unchecked_of(state),
        )

    def _revive(
        self, life: Life, read: Read, *, accept_drift: bool, redo: bool, retry: bool
    ) -> None:
        """Bring a run back to where it stood: receipts that hold, and a known tree."""
        state = life.state
        receipts.restore_missing(state, self.workspace, self._files)
        tree = Tree(self.workspace, files=self._files, clock=self._clock)
        drift = find_drift(state, self.workspace, tree)
        lost = receipts.stale(state, self.workspace, tree, only_lost=True)
        is_lost = drift is None or is_only_lost(drift, self.workspace, lost, state)
        if not is_lost and not (accept_drift or redo):
            assert drift is not None
            raise drift.refused(state.run_id)
        again = receipts.stale(state, self.workspace, tree, only_lost=False) if redo else lost
        if accept_drift and not is_lost:
            again = {}
        pending = state.open_command()
        life.record(
            "run.resumed",
            pending=pending.step if pending else None,
            retry=retry,
            rounds_granted=self.config.limits.rounds_max if retry else 0,
            damaged=len(read.damaged),
        )
        crash_point("orchestrator.resume.after_record")
        for pid, agent in list(state.agents.items()):
            reason = "its orchestrator had died"
            life.record("agent.exited", agent=agent["agent"], pid=pid, reason=reason)
        life.keep_changes(drift.paths if drift is not None else ())
        redone = receipts.paths_of(state, again)
        life.redo(again)
        life.pending = pending.step if pending else None
        if drift is not None and not is_lost:
            self._accept(life, drift, redone)

    def _accept(self, life: Life, drift: Drift, redone: Collection[str]) -> None:
        """Go on from files as they are now, but for those that are about to be made again."""
        paths = [path for path in drift.paths if path not in redone]
        if paths or drift.changes is None:
            life.record("drift.accepted", **{"from": drift.before, "to": drift.now}, paths=paths)

    @contextmanager
    def _held(self, run_id: str, on_wait: OnWait | None) -> Iterator[Callable[[], bool]]:
        with locked(
            self.workspace,
            run_id,
            files=self._files,
            clock=self._clock,
            on_wait=None if on_wait is None else self._until_stopped(on_wait),
        ) as is_held:
            yield is_held

    def _until_stopped(self, on_wait: OnWait) -> OnWait:
        """Give up waiting once this orchestrator is asked to stop."""

        def waiting(refusal: RunHeld) -> None:
            if self._is_stopping:
                raise refusal
            on_wait(refusal)

        return waiting

    def _end_orphans(self) -> list[tuple[str, Read]]:
        """End agents that killed orchestrators of this workspace left behind, of whichever run.

        Returns the runs that are not done, with their ledgers. A run that is done had ended its
        agents before it was recorded as done.
        """
        unfinished = [
            (run_id, self._ledger(run_id).read())
            for run_id in self._run_ids()
            if not retention.is_done(self.workspace, run_id, self._files)
        ]
        left = [
            AgentRecord.from_fields(record, run_id)
            for run_id, read in unfinished
            for record in agents_left(read.records)
        ]
        end_orphans(left, clock=self._clock)
        crash_point("orchestrator.resume.after_orphans")
        return unfinished

    def _summary(self, run_id: str) -> RunSummary | None:
        """Return one run in a line, also when its ledger is damaged; None when it never began."""
        try:
            state, read = self._read(run_id)
        except LedgerDamaged as exc:
            state, read = RunState(run_id=run_id, status="failed", reason=exc.message), None
        return summary_of(state, len(read.damaged) if read else 1) if state.run_id else None

    def _read(self, run_id: str) -> tuple[RunState, Read]:
        self._check_exists(run_id)
        read = self._ledger(run_id).read()
        return replay(read.records), read

    def _check_exists(self, run_id: str) -> None:
        if not self._ledger(run_id).exists():
            known = self._run_ids()[-5:]
            message = f"there is no run {run_id}"
            fix = f"choose one of: {', '.join(known)}" if known else "start one: `onceward run`"
            raise RunMissing(message, fix=fix)

    def _latest(self) -> str:
        for run_id in reversed(self._run_ids()):
            if self._ledger(run_id).has_begun():
                return run_id
        message = "there is no run in this workspace yet"
        raise RunMissing(message, fix="start one: `onceward run --task …`")

    def _run_ids(self) -> list[str]:
        """Return all runs, the latest last; their names begin with their time."""
        names = self._files.names(self.workspace.root / "events")
        found = [each.removesuffix(".ndjson") for each in names if each.endswith(".ndjson")]
        return [each for each in found if is_run_id(each)]

    def _ledger(self, run_id: str) -> Ledger:
        return Ledger(self.workspace.ledger(run_id), files=self._files, clock=self._clock)

    def _new_run_id(self) -> str:
        now = self._clock.now()
        return f"run-{now:%Y%m%d-%H%M%S}-{self._randomness.hex(8)}"
