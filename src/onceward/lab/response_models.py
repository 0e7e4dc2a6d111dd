"""Response models: the bodies of the Lab's responses, for the OpenAPI document and on the wire.

The models are for the document only: responses are built as plain dictionaries, because they carry
records of other tools, nested to any depth. Knows neither files nor routes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from onceward.http.errors import ResponseDocs, error_doc, response_docs
from onceward.keys.encoding import encoded as encoded  # noqa: PLC0414 - given to the routes
from onceward.lab.experiment_results import ExperimentResults
from onceward.lab.lab import LabRunSummary
from onceward.lab.models import Experiment

#: Descriptions of the Lab's own error responses, by status.
_DESCRIPTIONS: Final = {
    404: "There is no resource with this id or name.",
    409: "The experiment is already decided; `context.result` is the response to that submission.",
    415: "The body is not application/json.",
    416: "The range begins after the end of the file.",
    422: "The request id was used before, for another request.",
    503: "A file could not be read or written; try again with the same request id.",
}


_BYTES: Final = {"schema": {"type": "string", "format": "binary"}}


class _LabResponse(BaseModel):
    """Base of response bodies; field names are in camel case on the wire."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, serialize_by_alias=True
    )


class CompareTask(_LabResponse):
    """The task to compare the runs of an experiment."""

    type: Literal["compare"]
    experiment_id: str


class ReviewTask(_LabResponse):
    """The task to review a run."""

    type: Literal["review"]
    run_id: str


class Ui(_LabResponse):
    """Settings of the pages."""

    blind_metrics_default: bool = True
    reveal_metrics_enabled: bool = True


class LabConfig(_LabResponse):
    """The settings that a page needs before its first change."""

    session_id: str
    #: The page token; null unless the owner asks.
    token: str | None
    version: str
    runner_enabled: Literal[False] = False
    runner_allow_network: Literal[False] = False
    runner_allow_workflow_exec: Literal[False] = False
    allowed_roots: tuple[str, ...]
    ui: Ui = Ui()
    task: CompareTask | ReviewTask | None
    #: The server stops after this many submissions; 0 means never.
    exit_after_submit: int


class ImportedRun(_LabResponse):
    """The run that an import created or found."""

    run_id: str


class AutoMetrics(_LabResponse):
    """The numbers of the run's own reports; null if a report is missing or unreadable."""

    sync_rating: float | None
    sync_label: str | None
    mean_drift_ms: float | None
    max_drift_ms: float | None
    caption_overall: float | None
    caption_coverage_ratio: float | None
    ocr_confidence_mean: float | None
    proxy_score_overall: float | None


class LabRunItem(_LabResponse):
    """A run in a list."""

    run_id: str
    session_id: str
    created_at: str
    topic: str | None
    artifacts_dir: str
    video_path: str | None
    supersedes_run_id: str | None
    auto_metrics_summary: AutoMetrics
    #: The latest overall rating, by any person.
    last_overall: int | None


class LabRunPage(_LabResponse):
    """Runs, newest first."""

    items: tuple[LabRunItem, ...]
    #: Pass it as `cursor` to get the next page; null at the end.
    next_cursor: str | None


class RunReports(_LabResponse):
    """The parsed reports; null if there is none."""

    sync: Any
    caption: Any


class DeclaredFile(_LabResponse):
    """A declared file that the page can show."""

    name: str
    label: str
    kind: str
    size_bytes: int | None
    state: Literal["ok", "missing", "refused"]


class FileProblem(_LabResponse):
    """A file that could not be used, and why."""

    name: str
    problem: str


class Artifacts(_LabResponse):
    """The current content of a run's directory."""

    script: Any
    timestamps: Any
    visuals: Any
    score: Any
    reports: RunReports
    #: The prompt of the agent, if the manifest has it.
    prompt: str | None = None
    files: tuple[DeclaredFile, ...]
    problems: tuple[FileProblem, ...] = ()


class RunDetail(LabRunItem):
    """A run and the content of its directory."""

    artifacts: Artifacts | None
    #: Why there are no artifacts, as a sentence.
    artifacts_problem: str | None


class ExperimentCreated(_LabResponse):
    """The experiment that was created."""

    experiment_id: str


class VariantItem(_LabResponse):
    """One run that is compared with the baseline."""

    variant_id: str
    label: str
    run_id: str


class WinnerItem(_LabResponse):
    """The chosen variant, and the reason."""

    variant_id: str
    reason: str | None


class ExperimentItem(_LabResponse):
    """A comparison of runs, and its decision once it has one."""

    experiment_id: str
    session_id: str
    created_at: str
    name: str | None
    hypothesis: str | None
    topic: str | None
    baseline_run_id: str
    variants: tuple[VariantItem, ...]
    #: queued, running, done or failed.
    status: str
    winner: WinnerItem | None
    reason: str | None
    #: winner, tie or both_bad.
    outcome: str | None
    questions: tuple[dict[str, Any], ...]
    answers: dict[str, Any]
    updated_at: str | None


class ExperimentPage(_LabResponse):
    """Experiments, newest first."""

    items: tuple[ExperimentItem, ...]
    next_cursor: str | None


class SubmissionRecorded(_LabResponse):
    """The entries of feedback that a submission created."""

    experiment_id: str
    feedback_ids: tuple[str, ...]


class ExperimentDetail(ExperimentItem):
    """An experiment, and the response to its submission."""

    submission: SubmissionRecorded | None


class FeedbackAdded(_LabResponse):
    """The entry that was added."""

    feedback_id: str


class FeedbackPage(_LabResponse):
    """The entries after a cursor, as stored in the file, and the next cursor."""

    items: tuple[dict[str, Any], ...]
    next_cursor: str


class ExportWritten(_LabResponse):
    """The path of an export, and its number of feedback entries."""

    path: str
    count: int


class DeltaItem(_LabResponse):
    """The mean difference of a metric: variant minus baseline."""

    metric: str
    mean: float
    n: int


class VariantStatsItem(_LabResponse):
    """Wins, losses and metrics of one variant, over all experiments of one name."""

    experiment: str | None
    label: str
    n: int
    wins: int
    losses: int
    ties: int
    both_bad: int
    win_rate: float | None
    low: float | None
    high: float | None
    enough: bool
    deltas: tuple[DeltaItem, ...]
    experiment_ids: tuple[str, ...]


class ExperimentResultsBody(_LabResponse):
    """The results of all experiments, by name and variant."""

    experiments: int
    undecided: int
    standings: tuple[VariantStatsItem, ...]


def answers(model: type, *statuses: int) -> ResponseDocs:
    """Return the documented responses of a route: its model, the guard's, and these statuses."""
    return response_docs(_DESCRIPTIONS, *statuses, model=model)


def parts(media_types: Iterable[str]) -> ResponseDocs:
    """Return the documented responses of a route that sends a file, or a range of it."""
    content = {each: _BYTES if each != "application/json" else {} for each in media_types}
    return {
        200: {"description": "The complete file.", "content": content},
        206: {"description": "The requested range of the file.", "content": content},
        304: {"description": "The client's copy is current."},
        **response_docs(_DESCRIPTIONS, 404, 416),
        409: error_doc("The directory was overwritten since the run was imported."),
    }


def run_item(summary: LabRunSummary) -> dict[str, Any]:
    """Return a run as lists show it."""
    run = summary.run
    return {
        "runId": run.run_id,
        "sessionId": run.session_id,
        "createdAt": run.created_at,
        "topic": run.topic,
        "artifactsDir": run.artifacts_dir,
        "videoPath": run.video_path,
        "supersedesRunId": run.supersedes_run_id,
        "autoMetricsSummary": summary.metrics.to_summary(),
        "lastOverall": summary.last_overall,
    }


def experiment_item(experiment: Experiment) -> dict[str, Any]:
    """Return an experiment as lists show it: its record, with null for absent values."""
    # Without unknown keys of other tools.
    record = replace(experiment, line={}).to_record()
    record |= {
        "name": experiment.name,
        "reason": experiment.reason,
        "outcome": experiment.outcome,
        "answers": dict(experiment.answers),
    }
    empty: dict[str, Any] = {"questions": []}
    item = {name: record.get(name, empty.get(name)) for name in _EXPERIMENT_KEYS}
    if item["winner"] is not None:
        item["winner"] = {"reason": None, **item["winner"]}
    return item


def results_body(results: ExperimentResults) -> dict[str, Any]:
    """Return the results of all experiments with the field names of the wire format."""
    body: dict[str, Any] = _camel(asdict(results))
    return body


def _camel(value: Any) -> Any:  # noqa: ANN401 - whatever a dataclass holds
    if isinstance(value, dict):
        return {to_camel(name): _camel(each) for name, each in value.items()}
    return [_camel(each) for each in value] if isinstance(value, (list, tuple)) else value


_EXPERIMENT_KEYS: Final = tuple(to_camel(name) for name in ExperimentItem.model_fields)
