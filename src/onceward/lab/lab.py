"""Lab: everything that can be asked of the Experiment Lab, over one root and one session.

What the routes and the commands call. Each change is one step under the root's lock, so that any
number of processes can share the root. Knows neither HTTP nor terminals.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from onceward.crash import crash_point
from onceward.errors import InvalidArgument, StorageError
from onceward.journal import Journal, Page, Record
from onceward.lab import importing, judging
from onceward.lab.artifacts import RunDirectory
from onceward.lab.bodies import (
    ImportRun,
    NewExperiment,
    NewExport,
    NewFeedback,
    Submission,
    check_request_id,
)
from onceward.lab.catalog import Catalog, Listed
from onceward.lab.exports import Exported, name_for, write_export
from onceward.lab.metrics import Metrics
from onceward.lab.models import Experiment, Run, Variant, is_feedback
from onceward.lab.paths import LabPaths
from onceward.lab.requests import EXPERIMENT_CREATE, EXPORT, RUN_IMPORT
from onceward.lab.results import Results, summarise
from onceward.lab.sessions import Session
from onceward.lab.steps import Plan, Request, Steps
from onceward.lab.submissions import Answer, Submissions
from onceward.seams import Clock, Files, Ids, SystemClock, SystemFiles, timestamp

LISTED_MAX: Final = 500
#: Bodies that may carry a request id.
_Identified = ImportRun | NewExperiment | NewExport
#: How long a look at an experiment waits for its turn.
LOOK_PATIENCE_SECONDS: Final = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSummary:
    """A run, and what changes about it."""

    run: Run
    metrics: Metrics
    #: The latest overall rating that anybody gave it.
    last_overall: int | None


class Lab:
    """The Lab; safe for threads, and for other processes on the same root."""

    def __init__(  # noqa: PLR0913 - the parts it is made of, each with a default
        self,
        *,
        paths: LabPaths,
        session: Session,
        roots: Sequence[Path] = (),
        exit_after_submit: int = 0,
        files: Files | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None:
        """Work on a root in a session.

        Args:
            paths: Where everything lies.
            session: The sitting that new runs, experiments and entries belong to.
            roots: Directories that runs may be imported from and exports written to.
            exit_after_submit: After how many submissions the server stops; 0 is never.
            files: The file system.
            clock: The clock.
            ids: Where new identifiers come from.

        """
        self.paths, self.session = paths, session
        self.roots = tuple(Path(os.path.realpath(each)) for each in roots)
        self.exit_after_submit = exit_after_submit
        self._files, self._clock = files or SystemFiles(), clock or SystemClock()
        self._ids = ids or Ids()
        self._steps = Steps(paths, session.session_id, files=self._files, clock=self._clock)
        self._catalog = Catalog(paths, files=self._files, clock=self._clock)
        self._feedback = self._journal(paths.feedback)
        self._submissions = Submissions(
            self._steps,
            self._catalog,
            session_id=session.session_id,
            roots=self.roots,
            clock=self._clock,
            ids=self._ids,
        )
        self._rings: list[Callable[[], None]] = []

    @property
    def submitted(self) -> int:
        """Return how many new submissions this process has written; replays are not counted.

        Those of this session that an earlier process announced, and this one completed, are.
        """
        return self._submissions.accepted + self._steps.completed

    @property
    def unanswered(self) -> int:
        """Return how many of the completed ones were not asked for again by their client yet."""
        return len(self._steps.rolled_forward)

    def on_change(self, ring: Callable[[], None]) -> None:
        """Have this called, in whatever thread, after this process has appended feedback."""
        self._rings.append(ring)

    def stop(self) -> None:
        """Let nobody wait any more for another process that holds the root."""
        self._steps.stop()

    def recover(self) -> None:
        """Roll forward what another process announced and did not live to write."""
        with self._steps.turn():
            pass
        self._ring()

    # --- runs ------------------------------------------------------------------------------------

    def import_run(self, path: str) -> Run:
        """Return the run of a directory: the one it already is, or a new one."""
        place, directory = importing.open_place(path, self.roots)
        with directory, self._steps.turn():
            return self._imported(place, directory)

    def import_once(self, new: ImportRun, request_id: str | None = None) -> Answer:
        """Import a directory; a retry is told the same run, whatever the directory holds by then.

        Needs no intent: until its answer is written down, a retry finds the run by its content.
        """
        request = self._request(RUN_IMPORT, new, request_id)
        if request is None:
            return Answer(body={"runId": self.import_run(new.path).run_id}, replayed=False)
        with self._steps.turn() as turn:
            before = turn.answered(request)
            if before is not None:
                return Answer(body=before, replayed=True)
            place, directory = importing.open_place(new.path, self.roots)
            with directory:
                run = self._imported(place, directory)
            body: Record = {"runId": run.run_id}
            turn.note(request, run.run_id, body)
            return Answer(body=body, replayed=False)

    def _imported(self, place: str, directory: RunDirectory) -> Run:
        """Find or append the run of a directory, while nobody else changes the root."""
        run, is_new = importing.find_or_make(
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
            self._journal(self.paths.runs).end()  # On disk, should its writer have died early.
        crash_point("lab.import.after_append")
        return run

    def runs(self, *, limit: int = 50, cursor: str | None = None) -> Listed[RunSummary]:
        """Return a page of runs, newest first, with the metrics of their import."""
        page = self._catalog.runs(limit=_check_limit(limit), cursor=cursor)
        overall = self._catalog.last_overall(each.run_id for each in page.items)
        items = [
            RunSummary(run=run, metrics=run.metrics, last_overall=overall.get(run.run_id))
            for run in page.items
        ]
        return Listed(items=items, next_cursor=page.next_cursor)

    def run(self, run_id: str) -> RunSummary:
        """Return a run with its metrics as they are now, or were when they cannot be read."""
        run = self._catalog.need_run(run_id, "runId")
        overall = self._catalog.last_overall([run_id]).get(run_id)
        metrics = importing.as_now(run, self.roots).metrics
        return RunSummary(run=run, metrics=metrics, last_overall=overall)

    def directory(self, run: Run) -> RunDirectory:
        """Open the directory of a run, if this server may read it and it still holds that run."""
        return importing.open_run(run, self.roots)

    # --- experiments -----------------------------------------------------------------------------

    def create_experiment(self, new: NewExperiment) -> Experiment:
        """Set up a comparison of runs that were imported."""
        with self._steps.turn():
            experiment = self._new_experiment(new)
            self._journal(self.paths.experiments).append(experiment.to_record())
            crash_point("lab.experiment.after_append")
            return experiment

    def create_once(self, new: NewExperiment, request_id: str | None = None) -> Answer:
        """Set up a comparison; the same request id sets up one."""
        request = self._request(EXPERIMENT_CREATE, new, request_id)
        if request is None:
            made = self.create_experiment(new)
            return Answer(body={"experimentId": made.experiment_id}, replayed=False)
        with self._steps.turn() as turn:
            before = turn.answered(request)
            if before is not None:
                return Answer(body=before, replayed=True)
            made = self._new_experiment(new)
            plan = Plan(
                entity_id=made.experiment_id,
                entries=[],
                experiment=made.to_record(),
                response={"experimentId": made.experiment_id},
            )
            return Answer(body=turn.settle(request, plan), replayed=False)

    def _new_experiment(self, new: NewExperiment) -> Experiment:
        self._catalog.need_run(new.baselineRunId, "baselineRunId")
        for place, each in enumerate(new.variants):
            self._catalog.need_run(each.runId, f"variants[{place}].runId")
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

    def experiments(self, *, limit: int = 50, cursor: str | None = None) -> Listed[Experiment]:
        """Return a page of experiments, the last made first."""
        return self._catalog.experiments(limit=_check_limit(limit), cursor=cursor)

    def experiment(self, experiment_id: str) -> Experiment:
        """Return an experiment as it is now."""
        return self._catalog.need_experiment(experiment_id)

    def submission_of(self, experiment_id: str) -> Record | None:
        """Return what the one submission of an experiment was answered, if there was one.

        Completes what a dead process announced. Whoever only looks does not wait long for that.
        """
        with suppress(StorageError), self._steps.turn(LOOK_PATIENCE_SECONDS) as turn:
            return turn.submission_of(experiment_id)
        return None

    def submit(
        self, experiment_id: str, submission: Submission, request_id: str | None = None
    ) -> Answer:
        """Decide an experiment, once: an entry for each side, and the decision itself."""
        return self._told(self._submissions.decide(experiment_id, submission, request_id))

    # --- feedback --------------------------------------------------------------------------------

    def add_feedback(self, new: NewFeedback, request_id: str | None = None) -> Answer:
        """Add one judgement; the same request id adds it once."""
        return self._told(self._submissions.add(new, request_id))

    def poll(
        self,
        since: str = "0",
        *,
        limit: int | None = None,
        session_id: str | None = None,
        tag: str | None = None,
    ) -> Page:
        """Return the feedback behind a cursor, and the cursor behind it."""
        match = None if session_id is None else {"sessionId": session_id}
        return self._feedback.read(since, limit, match, tag)

    def results(self) -> Results:
        """Return who wins, by experiment name and label."""
        return summarise(self._catalog.decided())

    def export(self, *, session_id: str | None = None, path: str | None = None) -> Exported:
        """Write everything, or everything of a session, into one file."""
        return write_export(
            self.paths,
            self.roots,
            session_id=session_id,
            path=path,
            files=self._files,
            clock=self._clock,
        )

    def export_once(self, new: NewExport, request_id: str | None = None) -> Answer:
        """Write an export; a retry is told where it is, and writes nothing.

        Its name comes from the request id, so that a retry whose predecessor died before its answer
        was written down replaces the same file.
        """
        request = self._request(EXPORT, new, request_id)
        path = new.path
        if request is not None:
            with self._steps.turn() as turn:
                before = turn.answered(request)
            if before is not None:
                return Answer(body=before, replayed=True)
            path = path or name_for(request.request_id)
        # Without the lock: it may take long, and changes nothing that others look at.
        written = self.export(session_id=new.sessionId, path=path)
        body: Record = {"path": written.path, "count": written.count}
        if request is None:
            return Answer(body=body, replayed=False)
        with self._steps.turn() as turn:
            before = turn.answered(request)
            if before is None:
                turn.note(request, written.path, body)
        return Answer(body=before or body, replayed=before is not None)

    # --- how it is done --------------------------------------------------------------------------

    def _request(self, kind: str, new: _Identified, header: str | None) -> Request | None:
        """Return what tells this request from others; None when it has no id."""
        given = judging.one_id(header, new.requestId)
        if given is None:
            return None
        digest = judging.fingerprint(new, kind)
        return Request(request_id=check_request_id(given), type=kind, fingerprint=digest)

    def _told(self, answer: Answer) -> Answer:
        """Ring if something new was written, and pass the answer on."""
        if not answer.replayed:
            self._ring()
        return answer

    def _ring(self) -> None:
        for ring in self._rings:
            ring()

    def _journal(self, path: Path) -> Journal:
        valid = is_feedback if path == self.paths.feedback else None
        return Journal(path, valid=valid, files=self._files, clock=self._clock)


def _check_limit(limit: int) -> int:
    if limit < 1:
        message = f"limit: must be a positive whole number, not {limit}"
        raise InvalidArgument(message, fix=f"pass a limit from 1 to {LISTED_MAX}", field="limit")
    return min(limit, LISTED_MAX)
