"""Lab: the operations of the Experiment Lab, over one root directory and one session.

Called by the HTTP routes and the commands. Each change is one write under the root's lock, so that
any number of processes can share the root. Knows neither HTTP nor terminals.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from onceward.errors import InvalidArgument, StorageError
from onceward.journal import Journal, Record, RecordPage
from onceward.lab import judgement_rules, run_import
from onceward.lab.catalog import CatalogPage, LabCatalog
from onceward.lab.experiment_results import ExperimentResults, summarise
from onceward.lab.intent_log import IntentLog, LabRequest, WritePlan
from onceward.lab.lab_export import LabExportResult, export_name, write_export
from onceward.lab.lab_paths import LabPaths
from onceward.lab.models import Experiment, LabRun, Variant, is_feedback
from onceward.lab.request_ids import EXPERIMENT_CREATE, EXPORT, RUN_IMPORT
from onceward.lab.request_models import (
    ImportRun,
    NewExperiment,
    NewExport,
    NewFeedback,
    Submission,
    check_request_id,
)
from onceward.lab.run_artifacts import RunDirectory
from onceward.lab.run_metrics import RunMetrics
from onceward.lab.sessions import LabSession
from onceward.lab.submissions import IdempotentResponse, SubmissionHandler
from onceward.system import Clock, Files, Ids, SystemClock, SystemFiles, timestamp
from onceward.system.crash_points import crash_point

LISTED_MAX: Final = 500
#: Request bodies that may carry a request id.
_RequestWithId = ImportRun | NewExperiment | NewExport
#: How long a read of an experiment waits for the root's lock.
READ_LOCK_TIMEOUT_SECONDS: Final = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class LabRunSummary:
    """A run with its metrics and its latest rating."""

    run: LabRun
    metrics: RunMetrics
    #: The latest overall rating, by any person.
    last_overall: int | None


class Lab:
    """The Experiment Lab. Thread-safe; other processes may use the same root."""

    def __init__(  # noqa: PLR0913 - injectable dependencies, each with a default
        self,
        *,
        paths: LabPaths,
        session: LabSession,
        roots: Sequence[Path] = (),
        exit_after_submit: int = 0,
        files: Files | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None:
        """Open a root in a session.

        Args:
            paths: The Lab's files and directories.
            session: The session that new runs, experiments and entries belong to.
            roots: Directories that runs may be imported from and exports written to.
            exit_after_submit: The server stops after so many submissions; 0 is never.
            files: The file system.
            clock: The clock.
            ids: The source of new ids.

        """
        self.paths, self.session = paths, session
        self.roots = tuple(Path(os.path.realpath(each)) for each in roots)
        self.exit_after_submit = exit_after_submit
        self._files, self._clock = files or SystemFiles(), clock or SystemClock()
        self._ids = ids or Ids()
        self._intent_log = IntentLog(
            paths, session.session_id, files=self._files, clock=self._clock
        )
        self._catalog = LabCatalog(paths, files=self._files, clock=self._clock)
        self._feedback = self._journal(paths.feedback)
        self._submissions = SubmissionHandler(
            self._intent_log,
            self._catalog,
            session_id=session.session_id,
            roots=self.roots,
            clock=self._clock,
            ids=self._ids,
        )
        self._callbacks: list[Callable[[], None]] = []

    @property
    def submitted(self) -> int:
        """Return how many submissions this process has written; replays are not counted.

        Includes those of this session that an earlier process began and this one completed.
        """
        return self._submissions.accepted + self._intent_log.completed

    @property
    def completed_unacknowledged(self) -> int:
        """Return how many submissions were completed for a client that has not retried yet."""
        return len(self._intent_log.rolled_forward)

    def on_change(self, callback: Callable[[], None]) -> None:
        """Register a callback, called in any thread after this process has appended feedback."""
        self._callbacks.append(callback)

    def stop(self) -> None:
        """Make waiters for the root's lock fail at once: the process is about to end."""
        self._intent_log.stop()

    def recover(self) -> None:
        """Complete the writes that another process began before it died."""
        with self._intent_log.locked():
            pass
        self._notify()

    # --- runs ------------------------------------------------------------------------------------

    def import_run(self, path: str) -> LabRun:
        """Return the run of a directory; a new run unless one with this content exists."""
        place, directory = run_import.open_directory(path, self.roots)
        with directory, self._intent_log.locked():
            return self._find_or_append(place, directory)

    def import_once(self, new: ImportRun, request_id: str | None = None) -> IdempotentResponse:
        """Import a directory; a retry gets the same run, even if the directory changed since.

        Needs no intent: until its response is recorded, a retry finds the run by its content.
        """
        request = self._request(RUN_IMPORT, new, request_id)
        if request is None:
            return IdempotentResponse(
                body={"runId": self.import_run(new.path).run_id}, replayed=False
            )
        with self._intent_log.locked() as root:
            before = root.recorded_response(request)
            if before is not None:
                return IdempotentResponse(body=before, replayed=True)
            place, directory = run_import.open_directory(new.path, self.roots)
            with directory:
                run = self._find_or_append(place, directory)
            body: Record = {"runId": run.run_id}
            root.record_response(request, run.run_id, body)
            return IdempotentResponse(body=body, replayed=False)

    def _find_or_append(self, place: str, directory: RunDirectory) -> LabRun:
        """Find or append the run of a directory; the caller holds the root's lock."""
        run, is_new = run_import.find_or_create_run(
            directory,
            self._catalog,
            run_id=self._ids.new("run"),
            session_id=self.session.session_id,
            created_at=timestamp(self._clock.now()),
            artifacts_dir=place,
        )
        crash_point("lab.import.before_append")
        if is_new:
            self._journal(self.paths.runs).append(run.to_record())
        else:
            self._journal(self.paths.runs).end()  # Syncs it: its writer may have died before.
        crash_point("lab.import.after_append")
        return run

    def runs(self, *, limit: int = 50, cursor: str | None = None) -> CatalogPage[LabRunSummary]:
        """Return a page of runs, newest first, with the metrics as of their import."""
        page = self._catalog.runs(limit=_check_limit(limit), cursor=cursor)
        overall = self._catalog.last_overall(each.run_id for each in page.items)
        items = [
            LabRunSummary(run=run, metrics=run.metrics, last_overall=overall.get(run.run_id))
            for run in page.items
        ]
        return CatalogPage(items=items, next_cursor=page.next_cursor)

    def run(self, run_id: str) -> LabRunSummary:
        """Return a run with its current metrics; those of its import if they cannot be read."""
        run = self._catalog.require_run(run_id, "runId")
        overall = self._catalog.last_overall([run_id]).get(run_id)
        metrics = run_import.with_current_reports(run, self.roots).metrics
        return LabRunSummary(run=run, metrics=metrics, last_overall=overall)

    def directory(self, run: LabRun) -> RunDirectory:
        """Open the directory of a run, if it may be read and its content is unchanged."""
        return run_import.open_run(run, self.roots)

    # --- experiments -----------------------------------------------------------------------------

    def create_experiment(self, new: NewExperiment) -> Experiment:
        """Create an experiment: a comparison of imported runs."""
        with self._intent_log.locked():
            experiment = self._new_experiment(new)
            self._journal(self.paths.experiments).append(experiment.to_record())
            crash_point("lab.experiment.after_append")
            return experiment

    def create_once(self, new: NewExperiment, request_id: str | None = None) -> IdempotentResponse:
        """Create an experiment; the same request id creates one only."""
        request = self._request(EXPERIMENT_CREATE, new, request_id)
        if request is None:
            made = self.create_experiment(new)
            return IdempotentResponse(body={"experimentId": made.experiment_id}, replayed=False)
        with self._intent_log.locked() as root:
            before = root.recorded_response(request)
            if before is not None:
                return IdempotentResponse(body=before, replayed=True)
            made = self._new_experiment(new)
            plan = WritePlan(
                entity_id=made.experiment_id,
                entries=[],
                experiment=made.to_record(),
                response={"experimentId": made.experiment_id},
            )
            return IdempotentResponse(body=root.execute(request, plan), replayed=False)

    def _new_experiment(self, new: NewExperiment) -> Experiment:
        self._catalog.require_run(new.baselineRunId, "baselineRunId")
        for place, each in enumerate(new.variants):
            self._catalog.require_run(each.runId, f"variants[{place}].runId")
        return Experiment(
            experiment_id=self._ids.new("exp"),
            session_id=self.session.session_id,
            created_at=timestamp(self._clock.now()),
            name=new.name,
            hypothesis=new.hypothesis,
            topic=new.topic,
            baseline_run_id=new.baselineRunId,
            variants=tuple(
                Variant(
                    variant_id=self._ids.new("var"),
                    label=each.label or f"variant {place + 1}",
                    run_id=each.runId,
                )
                for place, each in enumerate(new.variants)
            ),
            questions=tuple(each.model_dump() for each in new.questions or ()),
        )

    def experiments(self, *, limit: int = 50, cursor: str | None = None) -> CatalogPage[Experiment]:
        """Return a page of experiments, newest first."""
        return self._catalog.experiments(limit=_check_limit(limit), cursor=cursor)

    def experiment(self, experiment_id: str) -> Experiment:
        """Return the current state of an experiment."""
        return self._catalog.require_experiment(experiment_id)

    def submission_of(self, experiment_id: str) -> Record | None:
        """Return the response to the submission of an experiment, or None.

        Completes unfinished writes of dead processes first, if the lock is free soon enough.
        """
        with suppress(StorageError), self._intent_log.locked(READ_LOCK_TIMEOUT_SECONDS) as root:
            return root.submission_of(experiment_id)
        return None

    def submit(
        self, experiment_id: str, submission: Submission, request_id: str | None = None
    ) -> IdempotentResponse:
        """Decide an experiment, once: append an entry for each side, and the decision."""
        return self._notify_if_new(self._submissions.decide(experiment_id, submission, request_id))

    # --- feedback --------------------------------------------------------------------------------

    def add_feedback(self, new: NewFeedback, request_id: str | None = None) -> IdempotentResponse:
        """Add one judgement; the same request id adds it once."""
        return self._notify_if_new(self._submissions.add(new, request_id))

    def poll(
        self,
        since: str = "0",
        *,
        limit: int | None = None,
        session_id: str | None = None,
        tag: str | None = None,
    ) -> RecordPage:
        """Return the feedback after a cursor, and the next cursor."""
        match = None if session_id is None else {"sessionId": session_id}
        return self._feedback.read(since, limit, match, tag)

    def results(self) -> ExperimentResults:
        """Return wins and losses by experiment name and variant label."""
        return summarise(self._catalog.decided())

    def export(self, *, session_id: str | None = None, path: str | None = None) -> LabExportResult:
        """Write all records, or those of one session, into one file."""
        return write_export(
            self.paths,
            self.roots,
            session_id=session_id,
            path=path,
            files=self._files,
            clock=self._clock,
        )

    def export_once(self, new: NewExport, request_id: str | None = None) -> IdempotentResponse:
        """Write an export; a retry gets its path and writes nothing.

        The file name derives from the request id: if the process dies before the response is
        recorded, the retry replaces the same file.
        """
        request = self._request(EXPORT, new, request_id)
        path = new.path
        if request is not None:
            with self._intent_log.locked() as root:
                before = root.recorded_response(request)
            if before is not None:
                return IdempotentResponse(body=before, replayed=True)
            path = path or export_name(request.request_id)
        # Without the lock: it may take long, and changes no shared record.
        written = self.export(session_id=new.sessionId, path=path)
        body: Record = {"path": written.path, "count": written.count}
        if request is None:
            return IdempotentResponse(body=body, replayed=False)
        with self._intent_log.locked() as root:
            before = root.recorded_response(request)
            if before is None:
                root.record_response(request, written.path, body)
        return IdempotentResponse(body=before or body, replayed=before is not None)

    # --- helpers ---------------------------------------------------------------------------------

    def _request(self, kind: str, new: _RequestWithId, header: str | None) -> LabRequest | None:
        """Return the identity of a request, or None if it has no request id."""
        given = judgement_rules.single_request_id(header, new.requestId)
        if given is None:
            return None
        digest = judgement_rules.fingerprint(new, kind)
        return LabRequest(request_id=check_request_id(given), type=kind, fingerprint=digest)

    def _notify_if_new(self, response: IdempotentResponse) -> IdempotentResponse:
        """Return the response, after notifying listeners unless it is a replay."""
        if not response.replayed:
            self._notify()
        return response

    def _notify(self) -> None:
        for callback in self._callbacks:
            callback()

    def _journal(self, path: Path) -> Journal:
        valid = is_feedback if path == self.paths.feedback else None
        return Journal(path, valid=valid, files=self._files, clock=self._clock)


def _check_limit(limit: int) -> int:
    if limit < 1:
        message = f"limit: must be a positive integer, not {limit}"
        raise InvalidArgument(message, fix=f"pass a limit from 1 to {LISTED_MAX}", field="limit")
    return min(limit, LISTED_MAX)
