"""Lab tasks: one judgement that somebody is asked for, as a session keeps it, and what came of it.

A task is remembered in its session before the page is shown, so that a killed command can go on
with it. Knows neither sockets nor pages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from onceward.errors import InvalidArgument, InvalidCursor, NotFound
from onceward.journal import Journal
from onceward.lab.models import BASELINE, NewExperiment, made
from onceward.lab.records import is_feedback
from onceward.lab.sessions import save_task

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from onceward.journal import Record
    from onceward.lab.lab import Lab
    from onceward.lab.records import Experiment, Run

_TEXT: Final = "text:"


class Task(Protocol):
    """Something that a person is asked to do."""

    #: For people: what it is.
    what: str
    #: Where it is done.
    page: str

    def result(self) -> Record | None:
        """Return what came of it; None as long as it is not done."""

    def lines(self, result: Record) -> Iterator[str]:
        """Return the result for people."""

    def forget(self) -> None:
        """Let the session's next task of the same runs be a new one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What a comparison says about itself."""

    name: str | None = None
    hypothesis: str | None = None
    topic: str | None = None
    #: Each a question to be answered by yes or no, or `text:` and one to be answered by a text.
    questions: Sequence[str] = field(default_factory=list)

    def to_body(self) -> dict[str, Any]:
        """Return these parts of an experiment."""
        return {
            "name": self.name,
            "hypothesis": self.hypothesis,
            "topic": self.topic,
            "questions": [_question(place, text) for place, text in enumerate(self.questions, 1)],
        }


def _question(place: int, text: str) -> dict[str, str]:
    wants_text = text.startswith(_TEXT)
    prompt = text.removeprefix(_TEXT).strip()
    if not prompt:
        message = f"--question {text!r} asks nothing"
        raise InvalidArgument(message, fix='write --question "Is B clearer?"', field="question")
    return {"id": f"q{place}", "prompt": prompt, "type": "text" if wants_text else "yes_no_unsure"}


# --- comparing ----------------------------------------------------------------------------------


def compare_task(lab: Lab, paths: Sequence[Path], asked: Asked) -> Task:
    """Return the unfinished comparison of these runs in the session, or a new one."""
    runs = [lab.import_run(str(path.absolute())) for path in paths]
    experiment = _unfinished(lab, [run.run_id for run in runs])
    if experiment is None:
        labels = _labels(paths)
        variants = [
            {"label": label, "runId": run.run_id}
            for label, run in zip(labels[1:], runs[1:], strict=True)
        ]
        body = {**asked.to_body(), "baselineRunId": runs[0].run_id, "variants": variants}
        experiment = lab.create_experiment(made(lambda: NewExperiment.model_validate(body)))
        _remember(lab, {"type": "compare", "experimentId": experiment.experiment_id})
    return _Compare(lab, experiment.experiment_id)


def _unfinished(lab: Lab, run_ids: Sequence[str]) -> Experiment | None:
    task = lab.session.task or {}
    if task.get("type") != "compare":
        return None
    try:
        found = lab.experiment(task.get("experimentId", ""))
    except NotFound:
        return None
    compared = [found.baseline_run_id, *(each.run_id for each in found.variants)]
    return found if compared == list(run_ids) else None


def _labels(paths: Sequence[Path]) -> list[str]:
    """Return the last names of paths, or where two are the same, the whole paths."""
    names = [path.absolute().name for path in paths]
    if len({*names}) == len(names) and all(names):
        return names
    return [str(path) for path in paths]


class _Compare:
    """A comparison that waits for its decision."""

    what = "compare"

    def __init__(self, lab: Lab, experiment_id: str) -> None:
        self._lab, self._experiment_id = lab, experiment_id
        self.page = f"/lab/compare/{experiment_id}"
        self._result: Record | None = None

    def result(self) -> Record | None:
        """Return the decision and its entries."""
        if self._result is None:
            submission = self._lab.submission_of(self._experiment_id)
            experiment = self._lab.experiment(self._experiment_id)
            if submission is not None or experiment.is_done:
                self._result = self._decided(experiment, submission or {})
        return self._result

    def _decided(self, experiment: Experiment, submission: Record) -> Record:
        feedback = _entries(self._lab, {"experimentId": experiment.experiment_id})
        ids = submission.get("feedbackIds") or [each["id"] for each in feedback]
        winner = experiment.winner
        return {
            "type": "compare",
            "experimentId": experiment.experiment_id,
            "outcome": experiment.outcome or (winner and "winner"),
            "winner": self._side(experiment, winner.variant_id) if winner else None,
            "reason": experiment.reason,
            "answers": dict(experiment.answers),
            "feedbackIds": ids,
            "feedback": [each for each in feedback if each["id"] in ids],
        }

    def _side(self, experiment: Experiment, variant_id: str) -> Record:
        labels = {each.variant_id: each.label for each in experiment.variants}
        run_id = experiment.run_of(variant_id)
        path = self._lab.run(run_id).run.artifacts_dir if run_id else None
        label = labels.get(variant_id, BASELINE)
        return {"variantId": variant_id, "label": label, "runId": run_id, "path": path}

    def lines(self, result: Record) -> Iterator[str]:
        """Return the decision, the answers and each side's rating."""
        winner = result["winner"]
        if winner:
            yield f"winner: {winner['label']} ({winner['path']})"
        else:
            yield f"outcome: {(result['outcome'] or 'no decision').replace('_', ' ')}"
        if result["reason"]:
            yield f"reason: {result['reason']}"
        experiment = self._lab.experiment(self._experiment_id)
        prompts = {each["id"]: each["prompt"] for each in experiment.questions}
        for name, answer in result["answers"].items():
            yield f"{prompts.get(name, name)} {answer}"
        labels = {each.variant_id: each.label for each in experiment.variants}
        for entry in result["feedback"]:
            side = str(entry.get("variantId"))
            yield f"{labels.get(side, side)}: {_said(entry)}"
        yield f"experiment: {result['experimentId']}"

    def forget(self) -> None:
        """Clear the session's task."""
        _remember(self._lab, None)


# --- reviewing ----------------------------------------------------------------------------------


def review_task(lab: Lab, path: Path) -> Task:
    """Return the unfinished review of this run in the session, or a new one."""
    run = lab.import_run(str(path.absolute()))
    task = lab.session.task or {}
    if (task.get("type"), task.get("runId")) != ("review", run.run_id):
        since, tag = _journal(lab).end()
        task = {"type": "review", "runId": run.run_id, "since": since, "tag": tag}
        _remember(lab, task)
    return _Review(lab, run, since=task.get("since", "0"), tag=task.get("tag"))


class _Review:
    """A review that waits for what somebody says in this session."""

    what = "review"

    def __init__(self, lab: Lab, run: Run, *, since: str, tag: str | None) -> None:
        self._lab, self._run = lab, run
        self._since, self._tag = since, tag
        self.page = f"/lab/review/{run.run_id}"
        self._result: Record | None = None

    def result(self) -> Record | None:
        """Return what was said of the run since it was asked for."""
        if self._result is None:
            match = {"runId": self._run.run_id, "sessionId": self._lab.session.session_id}
            feedback = _entries(self._lab, match, self._since, self._tag)
            if feedback:
                self._result = {
                    "type": "review",
                    "runId": self._run.run_id,
                    "path": self._run.artifacts_dir,
                    "feedbackIds": [each["id"] for each in feedback],
                    "feedback": feedback,
                }
        return self._result

    def lines(self, result: Record) -> Iterator[str]:
        """Return what was said."""
        for entry in result["feedback"]:
            yield f"{_said(entry)}"
        yield f"run: {result['runId']} ({result['path']})"

    def forget(self) -> None:
        """Clear the session's task."""
        _remember(self._lab, None)


# --- what both need -----------------------------------------------------------------------------


def _remember(lab: Lab, task: Mapping[str, str] | None) -> None:
    lab.session = save_task(lab.paths, lab.session, task)


def _journal(lab: Lab) -> Journal:
    return Journal(lab.paths.feedback, valid=is_feedback)


def _entries(
    lab: Lab, match: Mapping[str, str], since: str = "0", tag: str | None = None
) -> list[Record]:
    """Return the entries that match, behind a place or in a file that was replaced since."""
    found: list[Record] = []
    journal = _journal(lab)
    while True:
        try:
            page = journal.read(since, match=match, tag=tag)
        except InvalidCursor:
            since, tag = "0", None
            continue
        found += page.items
        if page.next_cursor == since:
            return found
        since, tag = page.next_cursor, page.tag


def _said(entry: Record) -> str:
    """Return a judgement in one line."""
    rated = ", ".join(f"{name} {value}" for name, value in (entry.get("ratings") or {}).items())
    tags = " ".join(f"#{tag}" for tag in entry.get("tags") or ())
    return " | ".join(filter(None, [rated, entry.get("notes"), tags])) or "nothing in particular"
