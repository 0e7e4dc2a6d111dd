"""Submissions: write judgements as feedback entries and decisions, once per request id.

Owns the response of a request and its replays. Validation is in `judgement_rules`, durable writes
are in `intent_log`. Knows neither HTTP nor terminals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from onceward.errors import AlreadySubmitted
from onceward.journal import Record
from onceward.lab import judgement_rules, request_replay
from onceward.lab.catalog import LabCatalog
from onceward.lab.intent_log import IntentLog, LabRequest, LockedRoot, WritePlan
from onceward.lab.models import Experiment, Subject, feedback_record
from onceward.lab.request_ids import EXPERIMENT_SUBMIT, FEEDBACK
from onceward.lab.request_models import (
    Answers,
    Judgement,
    NewFeedback,
    Submission,
    check_request_id,
)
from onceward.lab.run_import import with_current_reports
from onceward.system import Clock, Ids, timestamp


@dataclass(frozen=True, kw_only=True, slots=True)
class IdempotentResponse:
    """The response of an idempotent request, and whether it is a replay."""

    body: Record
    #: Whether the request was carried out before.
    replayed: bool


class SubmissionHandler:
    """Handles the submissions of one session. Thread-safe; other processes may use the root."""

    def __init__(  # noqa: PLR0913 - dependencies of the Lab
        self,
        intent_log: IntentLog,
        catalog: LabCatalog,
        *,
        session_id: str,
        roots: Sequence[Path],
        clock: Clock,
        ids: Ids,
    ) -> None:
        """Write into a session, for runs and experiments of the catalog."""
        self._intent_log, self._catalog = intent_log, catalog
        self._session_id, self._roots = session_id, roots
        self._clock, self._ids = clock, ids
        #: Number of new submissions that were written.
        self.accepted = 0

    def decide(
        self, experiment_id: str, submission: Submission, header: str | None
    ) -> IdempotentResponse:
        """Decide an experiment, once: append an entry for each side, and the decision."""
        given = judgement_rules.single_request_id(header, submission.requestId)
        digest = judgement_rules.fingerprint(submission, "submit", experiment_id)

        def matches_stored(response: Record) -> bool:
            experiment = self._catalog.require_experiment(experiment_id)
            entries = self._entries(response.get("feedbackIds"))
            return request_replay.is_same_submission(submission, experiment, entries)

        request = self._request(
            given, EXPERIMENT_SUBMIT, digest, about=experiment_id, matches_stored=matches_stored
        )

        def plan(root: LockedRoot) -> WritePlan:
            experiment = self._catalog.require_experiment(experiment_id)
            before = root.submission_of(experiment_id)
            if before is not None or experiment.is_done:
                result = before or {"experimentId": experiment_id, "feedbackIds": []}
                message = f"experiment {experiment_id} is already decided; nothing was changed"
                raise AlreadySubmitted(message, result=result)
            judgement_rules.check_submission(submission, experiment)
            return self._plan_decision(experiment, submission, given)

        return self._settle(request, plan)

    def add(self, new: NewFeedback, header: str | None) -> IdempotentResponse:
        """Add one judgement; the same request id adds it once."""
        given = judgement_rules.single_request_id(header, new.requestId)

        def matches_stored(response: Record) -> bool:
            run = self._catalog.run(new.runId) if new.runId is not None else None
            stored = self._entries([response.get("feedbackId")])
            return len(stored) == 1 and request_replay.is_same_feedback(new, stored[0], run)

        digest = judgement_rules.fingerprint(new, "feedback")
        request = self._request(given, FEEDBACK, digest, matches_stored=matches_stored)

        def plan(_: LockedRoot) -> WritePlan:
            run_id, answers = new.runId, new.answers
            if new.experimentId is not None:
                experiment = self._catalog.require_experiment(new.experimentId)
                run_id = judgement_rules.resolve_side_run(new, experiment)
                judgement_rules.check_answers(answers or {}, experiment)
            run = self._catalog.require_run(run_id, "runId") if run_id is not None else None
            subject = Subject(
                session_id=self._session_id,
                run=run and with_current_reports(run, self._roots),
                experiment_id=new.experimentId,
                variant_id=new.variantId,
                topic=new.topic,
            )
            entry = self._entry(subject, new, given, answers)
            response: Record = {"feedbackId": entry["id"]}
            return WritePlan(
                entity_id=entry["id"], entries=[entry], experiment=None, response=response
            )

        return self._settle(request, plan)

    def _settle(
        self, request: LabRequest, plan: Callable[[LockedRoot], WritePlan]
    ) -> IdempotentResponse:
        """Replay the recorded response, or carry the request out, under the root's lock."""
        with self._intent_log.locked() as root:
            before = root.recorded_response(request)
            if before is not None:
                return IdempotentResponse(body=before, replayed=True)
            body = root.execute(request, plan(root))
            self.accepted += 1
        return IdempotentResponse(body=body, replayed=False)

    def _plan_decision(
        self, experiment: Experiment, submission: Submission, request_id: str | None
    ) -> WritePlan:
        entries = []
        for each in submission.perRun:
            run = self._catalog.require_run(each.runId, "perRun.runId")
            subject = Subject(
                session_id=self._session_id,
                run=with_current_reports(run, self._roots),
                experiment_id=experiment.experiment_id,
                variant_id=each.variantId,
                topic=experiment.topic,
            )
            entries.append(self._entry(subject, each, request_id, submission.answers))
        now = timestamp(self._clock.now())
        decided = replace(experiment, **judgement_rules.decision_fields(submission), updated_at=now)
        response: Record = {
            "experimentId": experiment.experiment_id,
            "feedbackIds": [entry["id"] for entry in entries],
        }
        return WritePlan(
            entity_id=experiment.experiment_id,
            entries=entries,
            experiment=decided.to_record(),
            response=response,
        )

    def _entry(
        self,
        subject: Subject,
        judgement: Judgement,
        request_id: str | None,
        answers: Answers | None,
    ) -> Record:
        return feedback_record(
            subject,
            judgement,
            feedback_id=self._ids.new("fb"),
            created_at=timestamp(self._clock.now()),
            request_id=request_id,
            answers=answers,
        )

    def _entries(self, feedback_ids: object) -> list[Record]:
        """Return the entries with these ids that are in the file."""
        named = feedback_ids if isinstance(feedback_ids, list) else []
        found = [self._catalog.entry(each) for each in named if isinstance(each, str)]
        return [each for each in found if each is not None]

    def _request(
        self,
        given: str | None,
        kind: str,
        fingerprint: str,
        *,
        matches_stored: Callable[[Record], bool],
        about: str | None = None,
    ) -> LabRequest:
        """Return the identity of a request; without a request id it gets a unique one."""
        return LabRequest(
            request_id=self._ids.new("req") if given is None else check_request_id(given),
            type=kind,
            fingerprint=fingerprint,
            about=about,
            matches_stored=matches_stored,
        )
