"""Schemas: what the Lab answers, as the OpenAPI document describes it, and how it becomes bytes.

The models are for the document: answers are built as plain dictionaries, because they carry what
other tools wrote, nested as deeply as those liked. Knows neither files nor routes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from onceward.failures import Documented, documented, failure
from onceward.keys.encoding import encoded as encoded  # noqa: PLC0414 - given to the routes
from onceward.lab.lab import RunSummary
from onceward.lab.models import Experiment
from onceward.lab.results import Results

#: What can go wrong behind the gate, by status.
_BEHIND_THE_GATE: Final = {
    404: "There is nothing with this id or name.",
    409: "The experiment has its decision already; `context.result` is what it was answered.",
    415: "The body is not application/json.",
    416: "The range begins behind the end.",
    422: "The request id was used before, for something else.",
    503: "A file could not be read or written now; try again with the same request id.",
}


_BYTES: Final = {"schema": {"type": "string", "format": "binary"}}


class _Answer(BaseModel):
    """A body that leaves; names are written in camel case on the wire."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, serialize_by_alias=True
    )


class CompareTask(_Answer):
    """Somebody is asked to compare."""

    type: Literal["compare"]
    experiment_id: str


class ReviewTask(_Answer):
    """Somebody is asked to review a run."""

    type: Literal["review"]
    run_id: str


class Ui(_Answer):
    """How the pages behave."""

    blind_metrics_default: bool = True
    reveal_metrics_enabled: bool = True


class Config(_Answer):
    """What a page must know before its first change."""

    session_id: str
    #: None where other machines can ask: they must bring it.
    token: str | None
    version: str
    runner_enabled: Literal[False] = False
    runner_allow_network: Literal[False] = False
    runner_allow_workflow_exec: Literal[False] = False
    allowed_roots: tuple[str, ...]
    ui: Ui = Ui()
    task: CompareTask | ReviewTask | None
    #: After how many submissions the server stops; 0 is never.
    exit_after_submit: int


class Imported(_Answer):
    """The run that an import made or found."""

    run_id: str


class AutoMetrics(_Answer):
    """What the run's own reports say; null where there is none or it cannot be read."""

    sync_rating: float | None
    sync_label: str | None
    mean_drift_ms: float | None
    max_drift_ms: float | None
    caption_overall: float | None
    caption_coverage_ratio: float | None
    ocr_confidence_mean: float | None
    proxy_score_overall: float | None


class RunItem(_Answer):
    """A run in a list."""

    run_id: str
    session_id: str
    created_at: str
    topic: str | None
    artifacts_dir: str
    video_path: str | None
    supersedes_run_id: str | None
    auto_metrics_summary: AutoMetrics
    #: The latest overall rating that anybody gave it.
    last_overall: int | None


class RunPage(_Answer):
    """Runs, newest first."""

    items: tuple[RunItem, ...]
    #: Pass it as `cursor` to go on; null at the end.
    next_cursor: str | None


class Reports(_Answer):
    """The parsed reports; null where there is none."""

    sync: Any
    caption: Any


class DeclaredFile(_Answer):
    """A file that the page can show."""

    name: str
    label: str
    kind: str
    size_bytes: int | None
    state: Literal["ok", "missing", "refused"]


class FileProblem(_Answer):
    """A file that could not be used, and why."""

    name: str
    problem: str


class Artifacts(_Answer):
    """What lies in a run's directory now."""

    script: Any
    timestamps: Any
    visuals: Any
    score: Any
    reports: Reports
    #: What the agent was asked, if the run says so.
    prompt: str | None = None
    files: tuple[DeclaredFile, ...]
    problems: tuple[FileProblem, ...] = ()


class RunDetail(RunItem):
    """A run and what lies in its directory."""

    artifacts: Artifacts | None
    #: Why there are no artifacts, as a sentence.
    artifacts_problem: str | None


class ExperimentCreated(_Answer):
    """The experiment that was made."""

    experiment_id: str


class VariantItem(_Answer):
    """One run that is compared with the baseline."""

    variant_id: str
    label: str
    run_id: str


class WinnerItem(_Answer):
    """Which side was chosen, and why."""

    variant_id: str
    reason: str | None


class ExperimentItem(_Answer):
    """A comparison, and the decision about it once there is one."""

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


class ExperimentPage(_Answer):
    """Experiments, newest first."""

    items: tuple[ExperimentItem, ...]
    next_cursor: str | None


class Submitted(_Answer):
    """What a submission became."""

    experiment_id: str
    feedback_ids: tuple[str, ...]


class ExperimentDetail(ExperimentItem):
    """An experiment, and what its submission was answered."""

    submission: Submitted | None


class FeedbackAdded(_Answer):
    """The entry that was added."""

    feedback_id: str


class FeedbackPage(_Answer):
    """Entries behind a cursor, as they stand in the file, and the cursor behind them."""

    items: tuple[dict[str, Any], ...]
    next_cursor: str


class ExportWritten(_Answer):
    """Where the export lies, and how many entries of feedback it holds."""

    path: str
    count: int


class DeltaItem(_Answer):
    """How a metric of a variant differs from its baseline's: variant minus baseline."""

    metric: str
    mean: float
    n: int


class StandingItem(_Answer):
    """What came of one side, over all experiments of one name."""

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


class ResultsAnswer(_Answer):
    """All standings."""

    experiments: int
    undecided: int
    standings: tuple[StandingItem, ...]


def answers(*statuses: int) -> Documented:
    """Return what a route documents besides its success: the gate's answers, and these."""
    return documented(_BEHIND_THE_GATE, *statuses)


def parts(media_types: Iterable[str]) -> Documented:
    """Return what a route documents that sends a file of one of these types, or a part of it."""
    content = {each: _BYTES if each != "application/json" else {} for each in media_types}
    return {
        200: {"description": "The whole file.", "content": content},
        206: {"description": "The part that was asked for.", "content": content},
        304: {"description": "The client has it already."},
        **answers(404, 416),
        409: failure("The directory was overwritten since the run was imported."),
    }


def run_item(summary: RunSummary) -> dict[str, Any]:
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
    """Return an experiment as lists show it: its record, with null for what is absent."""
    # Of what another tool wrote into the line, only what could be understood.
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


def results_body(results: Results) -> dict[str, Any]:
    """Return all standings, with the names on the wire."""
    body: dict[str, Any] = _camel(asdict(results))
    return body


def _camel(value: Any) -> Any:  # noqa: ANN401 - whatever a dataclass holds
    if isinstance(value, dict):
        return {to_camel(name): _camel(each) for name, each in value.items()}
    return [_camel(each) for each in value] if isinstance(value, (list, tuple)) else value


_EXPERIMENT_KEYS: Final = tuple(to_camel(name) for name in ExperimentItem.model_fields)
