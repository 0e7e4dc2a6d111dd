"""Submissions: judgements become entries of the feedback file and decisions, each request once.

Owns what a request is answered, the first time and every time after. The rules are those of
`judging`, the writing is that of `steps`. Knows neither HTTP nor terminals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from onceward.errors import AlreadySubmitted
from onceward.journal import Record
from onceward.lab import judging, replays
from onceward.lab.bodies import Answers, Judgement, NewFeedback, Submission, check_request_id
from onceward.lab.catalog import Catalog
from onceward.lab.importing import as_now
from onceward.lab.models import Experiment, Subject, feedback_record
from onceward.lab.requests import EXPERIMENT_SUBMIT, FEEDBACK
from onceward.lab.steps import Plan, Request, Steps, Turn
from onceward.seams import Clock, Ids, timestamp


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a submission is answered, the first time and every time after."""

    body: Record
    #: Whether the work was done before.
    replayed: bool


class Submissions:
    """What one session submits; safe for threads, and for other processes on the same root."""

    def __init__(  # noqa: PLR0913 - the parts that the Lab is made of
        self,
        steps: Steps,
        catalog: Catalog,
        *,
        session_id: str,
        roots: Sequence[Path],
        clock: Clock,
        ids: Ids,
    ) -> None:
        """Write into a session, about runs and experiments that the catalog knows."""
        self._steps, self._catalog = steps, catalog
        self._session_id, self._roots = session_id, roots
        self._clock, self._ids = clock, ids
        #: How many were new and were written.
        self.accepted = 0

    def decide(self, experiment_id: str, submission: Submission, header: str | None) -> Answer:
        """Decide an experiment, once: an entry for each side, and the decision itself."""
        given = judging.one_id(header, submission.requestId)
        digest = judging.fingerprint(submission, "submit", experiment_id)

        def is_stored(response: Record) -> bool:
            experiment = self._catalog.need_experiment(experiment_id)
            entries = self._entries(response.get("feedbackIds"))
            return replays.is_same_submission(submission, experiment, entries)

        request = self._request(
            given, EXPERIMENT_SUBMIT, digest, about=experiment_id, is_stored=is_stored
        )

        def plan(turn: Turn) -> Plan:
            experiment = self._catalog.need_experiment(experiment_id)
            before = turn.submission_of(experiment_id)
            if before is not None or experiment.is_done:
                result = before or {"experimentId": experiment_id, "feedbackIds": []}
                message = f"experiment {experiment_id} was submitted before, and that stays"
                raise AlreadySubmitted(message, result=result)
            judging.check_submission(submission, experiment)
            return self._plan_decision(experiment, submission, given)

        return self._settle(request, plan)

    def add(self, new: NewFeedback, header: str | None) -> Answer:
        """Add one judgement; the same request id adds it once."""
        given = judging.one_id(header, new.requestId)

        def is_stored(response: Record) -> bool:
            run = self._catalog.run(new.runId) if new.runId is not None else None
            stored = self._entries([response.get("feedbackId")])
            return len(stored) == 1 and replays.is_same_feedback(new, stored[0], run)

        digest = judging.fingerprint(new, "feedback")
        request = self._request(given, FEEDBACK, digest, is_stored=is_stored)

        def plan(_: Turn) -> Plan:
            run_id, answers = new.runId, new.answers
            if new.experimentId is not None:
                experiment = self._catalog.need_experiment(new.experimentId)
                run_id = judging.check_side(new, experiment)
                judging.check_answers(answers or {}, experiment)
            run = self._catalog.need_run(run_id, "runId") if run_id is not None else None
            subject = Subject(
                session_id=self._session_id,
                run=run and as_now(run, self._roots),
                experiment_id=new.experimentId,
                variant_id=new.variantId,
                topic=new.topic,
            )
            entry = self._entry(subject, new, given, answers)
            response: Record = {"feedbackId": entry["id"]}
            return Plan(entity_id=entry["id"], entries=[entry], experiment=None, response=response)

        return self._settle(request, plan)

    def _settle(self, request: Request, plan: Callable[[Turn], Plan]) -> Answer:
        """Answer as before, or do it: nobody else gets in between."""
        with self._steps.turn() as turn:
            before = turn.answered(request)
            if before is not None:
                return Answer(body=before, replayed=True)
            body = turn.settle(request, plan(turn))
            self.accepted += 1
        return Answer(body=body, replayed=False)

    def _plan_decision(
        self, experiment: Experiment, submission: Submission, request_id: str | None
    ) -> Plan:
        entries = []
        for each in submission.perRun:
            run = self._catalog.need_run(each.runId, "perRun.runId")
            subject = Subject(
                session_id=self._session_id,
                run=as_now(run, self._roots),
                experiment_id=experiment.experiment_id,
                variant_id=each.variantId,
                topic=experiment.topic,
            )
            entries.append(self._entry(subject, each, request_id, submission.answers))
        now = timestamp(self._clock.now())
        decided = replace(experiment, **judging.decision(submission), updated_at=now)
        response: Record = {
            "experimentId": experiment.experiment_id,
            "feedbackIds": [entry["id"] for entry in entries],
        }
        return Plan(
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
        """Return the entries of these ids that are in the file."""
        named = feedback_ids if isinstance(feedback_ids, list) else []
        found = [self._catalog.entry(each) for each in named if isinstance(each, str)]
        return [each for each in found if each is not None]

    def _request(
        self,
        given: str | None,
        kind: str,
        fingerprint: str,
        *,
        is_stored: Callable[[Record], bool],
        about: str | None = None,
    ) -> Request:
        """Return what tells this request from others; one without an id gets one nobody repeats."""
        return Request(
            request_id=self._ids.new("req") if given is None else check_request_id(given),
            type=kind,
            fingerprint=fingerprint,
            about=about,
            is_stored=is_stored,
        )
