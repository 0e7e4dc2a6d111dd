"""Lab models: runs, experiments and feedback, and their JSON lines with keys in a fixed order.

Other tools read and write the same lines: absent values are left out, and an invalid line parses
to None, never to an error. Reads and writes no file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from onceward.journal import Record
from onceward.lab.request_models import BASELINE, RESERVED_PREFIX, Judgement
from onceward.lab.run_metrics import RunMetrics

SCHEMA_VERSION: Final = 1
STATUSES: Final = ("queued", "running", "done", "failed")
OUTCOMES: Final = ("winner", "tie", "both_bad")
#: Name of an experiment without one: strict readers require a name.
UNNAMED: Final = "A/B Compare"
#: Keys in `answers` for values that strict readers reject elsewhere in the line.
_OUTCOME: Final = f"{RESERVED_PREFIX}outcome"
_REASON: Final = f"{RESERVED_PREFIX}reason"


@dataclass(frozen=True, kw_only=True, slots=True)
class LabRun:
    """The output of an agent in one directory, as of its import."""

    run_id: str
    session_id: str
    created_at: str
    topic: str | None
    #: The directory as the caller wrote it, and its real path.
    artifacts_dir: str
    artifacts_dir_realpath: str
    #: Distinguishes this content from later content of the same directory.
    fingerprint: Mapping[str, Any]
    #: The run that was imported from the same directory before.
    supersedes_run_id: str | None = None
    video_path: str | None = None
    reports: Mapping[str, str] = field(default_factory=dict)
    #: The metrics as of the import.
    metrics: RunMetrics = field(default_factory=RunMetrics)

    def to_record(self) -> Record:
        """Return the JSON line of this run."""
        return _without_none(
            schemaVersion=SCHEMA_VERSION,
            runId=self.run_id,
            sessionId=self.session_id,
            createdAt=self.created_at,
            topic=self.topic,
            artifactsDir=self.artifacts_dir,
            artifactsDirRealpath=self.artifacts_dir_realpath,
            fingerprint=dict(self.fingerprint),
            supersedesRunId=self.supersedes_run_id,
            videoPath=self.video_path,
            reports=dict(self.reports),
            autoMetricsSummary=self.metrics.to_summary(),
        )

    @classmethod
    def from_record(cls, record: Record) -> LabRun | None:
        """Return the run of a JSON line, or None if the line is not a valid run."""
        needed = ("runId", "createdAt", "artifactsDir", "artifactsDirRealpath")
        if not all(isinstance(record.get(name), str) for name in needed):
            return None
        reports = _mapping(record.get("reports"))
        return cls(
            run_id=record["runId"],
            session_id=_text(record.get("sessionId")) or "",
            created_at=record["createdAt"],
            topic=_text(record.get("topic")),
            artifacts_dir=record["artifactsDir"],
            artifacts_dir_realpath=record["artifactsDirRealpath"],
            fingerprint=_mapping(record.get("fingerprint")),
            supersedes_run_id=_text(record.get("supersedesRunId")),
            video_path=_text(record.get("videoPath")),
            reports={name: path for name, path in reports.items() if isinstance(path, str)},
            metrics=RunMetrics.from_summary(_mapping(record.get("autoMetricsSummary"))),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """One run that is compared with the baseline."""

    variant_id: str
    label: str
    run_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Winner:
    """The chosen variant, and the reason."""

    variant_id: str
    reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Experiment:
    """A comparison of runs, and its decision once it has one."""

    experiment_id: str
    session_id: str
    created_at: str
    name: str | None = None
    hypothesis: str | None = None
    topic: str | None = None
    baseline_run_id: str
    variants: tuple[Variant, ...]
    #: queued, running, done or failed.
    status: str = "queued"
    winner: Winner | None = None
    reason: str | None = None
    #: winner, tie or both_bad.
    outcome: str | None = None
    questions: tuple[Mapping[str, Any], ...] = ()
    answers: Mapping[str, Any] = field(default_factory=dict)
    updated_at: str | None = None
    #: The line it was read from; another tool may have written unknown keys.
    line: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_done(self) -> bool:
        """Return whether the experiment is decided."""
        return self.status == "done"

    @property
    def run_ids(self) -> list[str]:
        """Return the runs of all sides, the baseline's first."""
        return [self.baseline_run_id, *(each.run_id for each in self.variants)]

    def run_of(self, variant_id: str) -> str | None:
        """Return the run id of a variant or the baseline; None if there is no such variant."""
        if variant_id == BASELINE:
            return self.baseline_run_id
        return next((v.run_id for v in self.variants if v.variant_id == variant_id), None)

    def to_record(self) -> Record:
        """Return the JSON line of this experiment, with unknown keys of other tools preserved."""
        winner = self.winner
        chosen = winner and _without_none(variantId=winner.variant_id, reason=winner.reason or None)
        ours = {_OUTCOME: self.outcome, _REASON: None if winner else self.reason or None}
        line = _without_none(
            schemaVersion=SCHEMA_VERSION,
            experimentId=self.experiment_id,
            sessionId=self.session_id,
            createdAt=self.created_at,
            name=self.name or UNNAMED,
            hypothesis=self.hypothesis,
            topic=self.topic,
            baselineRunId=self.baseline_run_id,
            variants=[
                {"variantId": v.variant_id, "label": v.label, "runId": v.run_id}
                for v in self.variants
            ],
            status=self.status,
            winner=chosen,
            questions=[dict(each) for each in self.questions] or None,
            answers={**self.answers, **_without_none(**ours)} or None,
            updatedAt=self.updated_at,
        )
        if not self.line:
            return line
        # Questions and variants stay as written, including what we do not understand.
        kept = {name: self.line.get(name) for name in ("sessionId", "variants", "questions")}
        known = {**line, **kept}
        written = {*known, "outcome", "reason"}  # At the top level, as in lines of older versions.
        theirs = {name: value for name, value in self.line.items() if name not in written}
        return _without_none(**known, **theirs)

    @classmethod
    def from_record(cls, record: Record) -> Experiment | None:
        """Return the experiment of a JSON line, or None if the line is not a valid experiment."""
        needed = ("experimentId", "createdAt", "baselineRunId")
        variants = _variants(record.get("variants"))
        if variants is None or not all(isinstance(record.get(name), str) for name in needed):
            return None
        questions = record.get("questions")
        answers, winner = _mapping(record.get("answers")), _winner(record.get("winner"))
        # Lines of older versions have both at the top level.
        reason = _text(answers.get(_REASON)) or _text(record.get("reason"))
        outcome = answers.get(_OUTCOME) or record.get("outcome")
        return cls(
            experiment_id=record["experimentId"],
            session_id=_text(record.get("sessionId")) or "",
            created_at=record["createdAt"],
            name=_text(record.get("name")),
            hypothesis=_text(record.get("hypothesis")),
            topic=_text(record.get("topic")),
            baseline_run_id=record["baselineRunId"],
            variants=variants,
            status=_one_of(STATUSES, record.get("status")) or "queued",
            winner=winner,
            reason=reason or (winner.reason if winner else None),
            outcome=_one_of(OUTCOMES, outcome),
            questions=tuple(filter(_is_question, questions if isinstance(questions, list) else ())),
            answers={k: v for k, v in answers.items() if k not in (_OUTCOME, _REASON)},
            updated_at=_text(record.get("updatedAt")),
            line=record,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """The subject of a judgement: a run, a variant or a topic."""

    session_id: str
    #: With the reports and metrics as of the judgement.
    run: LabRun | None = None
    experiment_id: str | None = None
    variant_id: str | None = None
    topic: str | None = None


def feedback_record(  # noqa: PLR0913 - the fields of one line
    subject: Subject,
    judgement: Judgement,
    *,
    feedback_id: str,
    created_at: str,
    request_id: str | None,
    answers: Mapping[str, Any] | None = None,
) -> Record:
    """Return the JSON line of one judgement; keys that strict readers reject go into `extra`."""
    run = subject.run
    return _without_none(
        schemaVersion=SCHEMA_VERSION,
        id=feedback_id,
        createdAt=created_at,
        sessionId=subject.session_id,
        runId=run and run.run_id,
        experimentId=subject.experiment_id,
        variantId=subject.variant_id,
        topic=subject.topic or (run.topic if run else None),
        videoPath=run and run.video_path,
        artifactsDir=run and run.artifacts_dir,
        ratings=(judgement.ratings.to_record() if judgement.ratings else None) or None,
        notes=judgement.notes or None,
        tags=list(judgement.tags) if judgement.tags else None,
        autoMetricsSnapshot=(run.metrics.to_snapshot() if run else None) or None,
        answers=dict(answers) if answers else None,
        reports=(dict(run.reports) if run else None) or None,
        extra={"requestId": request_id} if request_id else None,
    )


def is_feedback(record: Record) -> bool:
    """Return whether a line of the feedback file is an entry."""
    return isinstance(record.get("id"), str) and isinstance(record.get("createdAt"), str)


def _without_none(**fields: object) -> Record:
    return {name: value for name, value in fields.items() if value is not None}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _one_of(known: tuple[str, ...], value: object) -> str | None:
    return value if isinstance(value, str) and value in known else None


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _winner(value: object) -> Winner | None:
    found = _mapping(value)
    variant_id = _text(found.get("variantId"))
    if not variant_id:
        return None
    return Winner(variant_id=variant_id, reason=_text(found.get("reason")))


def _variants(value: object) -> tuple[Variant, ...] | None:
    """Return the variants of a line, or None if it has no valid ones."""
    if not isinstance(value, list) or not value:
        return None
    made: list[Variant] = []
    for place, each in enumerate(value):
        found = _mapping(each)
        variant_id, run_id = _text(found.get("variantId")), _text(found.get("runId"))
        if variant_id is None or run_id is None:
            return None
        label = _text(found.get("label")) or f"variant {place + 1}"
        made.append(Variant(variant_id=variant_id, label=label, run_id=run_id))
    return tuple(made)


def _is_question(value: object) -> bool:
    found = _mapping(value)
    known = found.get("type") in ("yes_no_unsure", "text")
    return known and isinstance(found.get("id"), str) and isinstance(found.get("prompt"), str)
