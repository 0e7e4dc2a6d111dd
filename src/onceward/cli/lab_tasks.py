"""Lab tasks: one requested review or comparison, stored in a session, and its result.

A task is stored in its session before its page is shown, so that a killed command can resume it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from onceward.cli.output import warn
from onceward.errors import InvalidArgument, InvalidCursor, NotFound
from onceward.journal import Journal
from onceward.lab.models import is_feedback
from onceward.lab.request_models import BASELINE, NewExperiment, build_request
from onceward.lab.sessions import open_session, save_task

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from onceward.journal import Record
    from onceward.lab.lab import Lab
    from onceward.lab.models import Experiment, LabRun

_TEXT: Final = "text:"
#: Maximum number of marks in a session; bounds its file.
_MARKS_MAX: Final = 50_000


class HumanTask(Protocol):
    """A review or comparison that is requested from a person."""

    #: Its name in messages.
    what: str
    #: Path of its page.
    page: str
    #: The ids that it is about, for JSON output.
    names: Record

    def result(self) -> Record | None:
        """Return the result; None until it is done."""

    def lines(self, result: Record) -> Iterator[str]:
        """Return the result as text."""

    def forget(self) -> None:
        """Remove the task from its session: the next one of the same runs is new."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparisonDetails:
    """Name, hypothesis, topic and questions of a comparison."""

    name: str | None = None
    hypothesis: str | None = None
    topic: str | None = None
    #: Yes/no questions; those that begin with `text:` ask for a text.
    questions: Sequence[str] = field(default_factory=list)

    def to_body(self) -> dict[str, Any]:
        """Return them as fields of an experiment."""
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
        message = f"--question {text!r} is empty"
        raise InvalidArgument(message, fix='write --question "Is B clearer?"', field="question")
    return {"id": f"q{place}", "prompt": prompt, "type": "text" if wants_text else "yes_no_unsure"}


# --- comparing ----------------------------------------------------------------------------------


def compare_task(lab: Lab, paths: Sequence[Path], asked: ComparisonDetails) -> HumanTask:
    """Return the unfinished comparison of these runs in the session, or a new one."""
    runs = [lab.import_run(str(path.absolute())) for path in paths]
    labels = _labels(paths)
    variants = [
        {"label": label, "runId": run.run_id}
        for label, run in zip(labels[1:], runs[1:], strict=True)
    ]
    body = {**asked.to_body(), "baselineRunId": runs[0].run_id, "variants": variants}
    new = build_request(lambda: NewExperiment.model_validate(body))
    experiment = _unfinished(lab, new)
    if experiment is None:
        experiment = lab.create_experiment(new)
        _remember(lab, {"type": "compare", "experimentId": experiment.experiment_id})
    return _Compare(lab, experiment)


def _unfinished(lab: Lab, new: NewExperiment) -> Experiment | None:
    """Return the session's comparison if runs and questions are the same."""
    task = lab.session.task or {}
    if task.get("type") != "compare":
        return None
    try:
        found = lab.experiment(task.get("experimentId", ""))
    except NotFound:
        return None
    compared = [found.baseline_run_id, *(each.run_id for each in found.variants)]
    if compared != [new.baselineRunId, *(each.runId for each in new.variants)]:
        return None
    wanted = (
        new.name,
        new.hypothesis,
        new.topic,
        [each.model_dump() for each in new.questions or ()],
    )
    before = (found.name, found.hypothesis, found.topic, list(found.questions))
    # Options left out keep their earlier values.
    if all(not now or now == then for now, then in zip(wanted, before, strict=True)):
        return found
    warn(f"{found.experiment_id} has other questions about these runs; this is a new comparison")
    return None


def _labels(paths: Sequence[Path]) -> list[str]:
    """Return the last names of paths; full paths if those names are not unique."""
    names = [path.absolute().name for path in paths]
    if len({*names, BASELINE}) == len(names) + 1 and all(names):
        return names
    whole = [str(path.absolute()) for path in paths]
    if len({*whole}) == len(whole):
        return whole
    return [f"{name} ({place})" for place, name in enumerate(whole)]


class _Compare:
    """A comparison that waits for its decision."""

    what = "compare"

    def __init__(self, lab: Lab, experiment: Experiment) -> None:
        self._lab, self._experiment_id = lab, experiment.experiment_id
        self.page = f"/lab/compare/{experiment.experiment_id}"
        variants = [each.run_id for each in experiment.variants]
        self.names: Record = {
            "experimentId": experiment.experiment_id,
            "baselineRunId": experiment.baseline_run_id,
            "variantRunId": variants[0],
            "variantRunIds": variants,
        }
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
        feedback, _, _ = _read(self._lab, {"experimentId": experiment.experiment_id})
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
        _forget(self._lab, {"type": "compare", "experimentId": self._experiment_id})


# --- reviewing ----------------------------------------------------------------------------------


def review_task(lab: Lab, path: Path) -> HumanTask:
    """Return the unfinished review of this run in the session, or a new one."""
    run = lab.import_run(str(path.absolute()))
    task = lab.session.task or {}
    if (task.get("type"), task.get("runId")) != ("review", run.run_id):
        before, since, tag = _read(lab, _about(lab, run))
        marks = " ".join(_mark(each) for each in before[-_MARKS_MAX:])
        task = {"type": "review", "runId": run.run_id, "since": since, "before": marks}
        task |= {} if tag is None else {"tag": tag}
        _remember(lab, task)
    return _Review(lab, run, task)


def _about(lab: Lab, run: LabRun) -> dict[str, str]:
    return {"runId": run.run_id, "sessionId": lab.session.session_id}


def _mark(entry: Record) -> str:
    """Return a short hash that identifies an entry."""
    return hashlib.sha256(entry["id"].encode()).hexdigest()[:12]


class _Review:
    """A review that waits for feedback in this session."""

    what = "review"

    def __init__(self, lab: Lab, run: LabRun, task: Mapping[str, str]) -> None:
        self._lab, self._run, self._task = lab, run, task
        #: Earlier entries: in a file that was replaced they come after the cursor again.
        self._before = frozenset(task.get("before", "").split())
        self.page = f"/lab/review/{run.run_id}"
        self.names: Record = {"runId": run.run_id}
        self._result: Record | None = None

    def result(self) -> Record | None:
        """Return the feedback on the run since it was requested."""
        if self._result is None:
            since, tag = self._task.get("since", "0"), self._task.get("tag")
            said, _, _ = _read(self._lab, _about(self._lab, self._run), since, tag)
            feedback = [each for each in said if _mark(each) not in self._before]
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
        """Return the feedback as text."""
        for entry in result["feedback"]:
            yield f"{_said(entry)}"
        yield f"run: {result['runId']} ({result['path']})"

    def forget(self) -> None:
        """Clear the session's task."""
        _forget(self._lab, self._task)


# --- shared functions -----------------------------------------------------------------------------


def _remember(lab: Lab, task: Mapping[str, str] | None) -> None:
    lab.session = save_task(lab.paths, lab.session, task)


def _forget(lab: Lab, task: Mapping[str, str]) -> None:
    """Clear this task, unless another command of the session has started its own."""
    current = open_session(lab.paths, lab.session.session_id)
    if current.task == task:
        lab.session = save_task(lab.paths, current, None)


def _read(
    lab: Lab, match: Mapping[str, str], since: str = "0", tag: str | None = None
) -> tuple[list[Record], str, str | None]:
    """Return matching entries after a cursor, and the next cursor; all if the file was replaced."""
    found: list[Record] = []
    journal = Journal(lab.paths.feedback, valid=is_feedback)
    while True:
        try:
            page = journal.read(since, match=match, tag=tag)
        except InvalidCursor:
            found, since, tag = [], "0", None
            continue
        found += page.items
        if page.next_cursor == since:
            return found, since, page.tag
        since, tag = page.next_cursor, page.tag


def _said(entry: Record) -> str:
    """Return a judgement in one line."""
    ratings, notes, tags = (entry.get(name) for name in ("ratings", "notes", "tags"))
    # Other tools also write to the file.
    given = ratings.items() if isinstance(ratings, dict) else ()
    rated = ", ".join(f"{name} {value}" for name, value in given)
    tagged = " ".join(f"#{tag}" for tag in tags) if isinstance(tags, list) else ""
    parts = [rated, notes if isinstance(notes, str) else "", tagged]
    return " | ".join(filter(None, parts)) or "no details"
