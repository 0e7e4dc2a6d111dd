"""Experiments: created once, decided once; every error names its field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from onceward.errors import InvalidArgument, NotFound
from onceward.journal import Journal
from onceward.lab.lab import Lab
from onceward.lab.models import Experiment
from onceward.lab.request_models import (
    ExperimentQuestion,
    NewExperiment,
    RunJudgement,
    Submission,
    build_request,
)
from tests.support.labs import feedback_of, make_experiment, make_lab, make_run, submission

QUESTIONS = (
    ExperimentQuestion(id="clear", prompt="Is it clear?", type="yes_no_unsure"),
    ExperimentQuestion(id="why", prompt="Why?", type="text"),
)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return make_lab(tmp_path)


def compare(lab: Lab, directory: Path, **fields: Any) -> Experiment:
    one = lab.import_run(str(make_run(directory, "one")))
    two = lab.import_run(str(make_run(directory, "two")))
    body = {"baselineRunId": one.run_id, "variants": [{"runId": two.run_id, "label": "calm"}]}
    return lab.create_experiment(NewExperiment.model_validate({**body, **fields}))


def test_the_lines_of_an_experiment_have_their_keys_in_order(tmp_path: Path, lab: Lab) -> None:
    """What was asked, then what was decided; the last line counts."""
    experiment = compare(
        lab, tmp_path, name="tone", hypothesis="calm is better", topic="cats", questions=QUESTIONS
    )
    answers = {"clear": "yes", "why": "slower"}
    lab.submit(experiment.experiment_id, submission(experiment, answers=answers), "r")
    first, last = Journal(lab.paths.experiments).read().items
    begin = ["schemaVersion", "experimentId", "sessionId", "createdAt", "name", "hypothesis"]
    middle = [*begin, "topic", "baselineRunId", "variants", "status"]
    assert list(first) == [*middle, "questions"]
    decided = ["winner", "questions", "answers", "updatedAt"]
    assert list(last) == [*middle, *decided]
    assert first["status"] == "queued"
    assert list(first["variants"][0]) == ["variantId", "label", "runId"]
    variant = experiment.variants[0].variant_id
    assert last["winner"] == {"variantId": variant, "reason": "clearer"}
    assert last["status"] == "done"
    assert last["answers"] == {**answers, "onceward.outcome": "winner"}
    assert lab.experiment(experiment.experiment_id).to_record() == last


def test_the_entries_of_a_submission_have_their_keys_in_order(tmp_path: Path, lab: Lab) -> None:
    """Strict readers share the file: what they do not know goes into `extra`."""
    place = make_run(tmp_path, "one", score={"overall": 0.8})
    (place / "video.mp4").write_bytes(b"film")
    run = lab.import_run(str(place))
    experiment = compare(lab, tmp_path)
    assert experiment.baseline_run_id == run.run_id
    sides = submission(experiment).perRun
    judged = RunJudgement(
        runId=run.run_id,
        variantId="baseline",
        ratings={"overall": 0, "hook": 100},  # type: ignore[arg-type]  # as it comes over HTTP
        notes="n",
        tags=("fast",),
    )
    body = submission(experiment, perRun=(judged, sides[1]), answers=None)
    answer = lab.submit(experiment.experiment_id, body, "req-9")
    entry, other = feedback_of(lab)
    assert list(entry) == [
        *("schemaVersion", "id", "createdAt", "sessionId", "runId", "experimentId", "variantId"),
        *("topic", "videoPath", "artifactsDir", "ratings", "notes", "tags"),
        *("autoMetricsSnapshot", "reports", "extra"),
    ]
    assert entry["ratings"] == {"overall": 0, "hook": 100}
    assert entry["autoMetricsSnapshot"] == {"proxyScoreOverall": 80}
    assert entry["extra"] == {"requestId": "req-9"}
    assert (entry["variantId"], other["variantId"]) == (
        "baseline",
        experiment.variants[0].variant_id,
    )
    assert [entry["id"], other["id"]] == answer.body["feedbackIds"]


@pytest.mark.parametrize(
    ("fields", "outcome", "winner"),
    [
        ({"winnerVariantId": "baseline"}, "winner", "baseline"),
        ({"winnerVariantId": None, "outcome": "tie"}, "tie", None),
        ({"winnerVariantId": None, "outcome": "both_bad"}, "both_bad", None),
        ({"winnerVariantId": None}, None, None),
    ],
)
def test_every_outcome_is_kept_with_its_reason(
    tmp_path: Path, lab: Lab, fields: dict[str, Any], outcome: str | None, winner: str | None
) -> None:
    """The baseline may win, no side may win, and a reason without a winner is kept."""
    experiment = make_experiment(lab, tmp_path)
    lab.submit(experiment.experiment_id, submission(experiment, **fields))
    decided = lab.experiment(experiment.experiment_id)
    assert decided.outcome == outcome
    assert decided.reason == "clearer"
    assert (decided.winner.variant_id if decided.winner else None) == winner


def wrong(experiment: Experiment) -> dict[str, tuple[dict[str, Any], str]]:
    """Return submissions that are wrong, and the field that the answer must name."""
    sides = submission(experiment).perRun
    swapped = RunJudgement(runId=sides[1].runId, variantId="baseline")
    stranger = RunJudgement(runId=sides[1].runId, variantId="var_none")
    return {
        "no baseline": ({"perRun": (sides[1], sides[2])}, "perRun"),
        "wrong run": ({"perRun": (swapped, sides[1])}, "perRun[0].runId"),
        "unknown side": ({"perRun": (sides[0], stranger)}, "perRun[1].variantId"),
        "unknown winner": ({"winnerVariantId": "var_none"}, "winnerVariantId"),
        "not one of three": ({"answers": {"clear": "maybe"}}, "answers.clear"),
        "not text": ({"answers": {"why": 5}}, "answers.why"),
    }


@pytest.mark.parametrize("case", ["no baseline", "wrong run", "unknown side", "unknown winner"])
def test_a_wrong_submission_changes_nothing_and_names_the_field(
    tmp_path: Path, lab: Lab, case: str
) -> None:
    """The mistake is corrected and sent again under the same id: accepted."""
    experiment = make_experiment(lab, tmp_path, sides=3)
    fields, name = wrong(experiment)[case]
    with pytest.raises(InvalidArgument) as refused:
        lab.submit(experiment.experiment_id, submission(experiment, **fields), "req")
    assert refused.value.context["field"] == name
    assert feedback_of(lab) == []
    assert not lab.submit(experiment.experiment_id, submission(experiment), "req").replayed


@pytest.mark.parametrize("case", ["not one of three", "not text"])
def test_answers_must_fit_the_questions(tmp_path: Path, lab: Lab, case: str) -> None:
    """What was asked is answered in the form in which it was asked."""
    experiment = compare(lab, tmp_path, questions=QUESTIONS)
    three = make_experiment(lab, tmp_path, sides=3)
    fields, name = wrong(three)[case]
    with pytest.raises(InvalidArgument) as refused:
        lab.submit(experiment.experiment_id, submission(experiment, **fields))
    assert refused.value.context["field"] == name


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"outcome": "winner", "winnerVariantId": None}, "winnerVariantId"),
        ({"outcome": "tie"}, "winnerVariantId"),
        ({"perRun": []}, "perRun"),
        ({"outcome": "draw"}, "outcome"),
        ({"notes": "at the wrong place"}, "notes"),
    ],
)
def test_contradictions_are_refused_by_name(
    tmp_path: Path, lab: Lab, fields: dict[str, Any], name: str
) -> None:
    """A tie has no winner, a winner is named, and unknown names are mistakes."""
    experiment = make_experiment(lab, tmp_path)
    plain = submission(experiment).model_dump(mode="json", exclude_none=True)
    with pytest.raises(InvalidArgument, match=name):
        build_request(lambda: Submission.model_validate({**plain, **fields}))


def test_a_rating_of_an_unknown_aspect_is_refused() -> None:
    """The error contains the name: it may be a typing error."""
    body = {"runId": "r", "variantId": "v", "ratings": {"loudness": 5}}
    with pytest.raises(ValidationError, match="loudness"):
        RunJudgement.model_validate(body)


def test_runs_of_an_experiment_must_be_known_and_different(tmp_path: Path, lab: Lab) -> None:
    """A comparison with a stranger, with itself or with a twin is none."""
    run = lab.import_run(str(make_run(tmp_path))).run_id
    for body, name in [
        ({"baselineRunId": "run_x", "variants": [{"runId": run}]}, "baselineRunId"),
        ({"baselineRunId": run, "variants": [{"runId": "run_x"}]}, r"variants\[0\].runId"),
    ]:
        with pytest.raises(NotFound, match=name):
            lab.create_experiment(NewExperiment.model_validate(body))
    for variants in ([], [{"runId": run}], [{"runId": "a"}, {"runId": "a"}]):
        body = {"baselineRunId": run, "variants": variants}
        with pytest.raises(ValidationError, match="variants"):
            NewExperiment.model_validate(body)
    assert lab.experiments().items == []


def test_lines_of_others_are_read_and_broken_ones_passed_over(tmp_path: Path, lab: Lab) -> None:
    """The last valid line of an id is the current one, in the order of the first."""
    experiment = compare(lab, tmp_path, name="first")
    second = compare(lab, tmp_path, name="second")
    record = experiment.to_record()
    broken = {**record, "variants": []}
    Journal(lab.paths.experiments).append({**record, "name": "renamed"}, broken, {"x": 1})
    assert [each.name for each in lab.experiments().items] == ["second", "renamed"]
    assert lab.experiments(limit=1).items[0].experiment_id == second.experiment_id
    with pytest.raises(NotFound):
        lab.experiment("exp_none")


def test_a_decision_keeps_what_another_tool_wrote(tmp_path: Path, lab: Lab) -> None:
    """Keys that we do not know, at any level, are in the line of the decision too."""
    record = compare(lab, tmp_path).to_record()
    del record["sessionId"]
    record["config"] = {"model": "x"}
    record["variants"][0]["seed"] = 7
    record["questions"] = [{"id": "scale", "prompt": "How much?", "type": "scale"}]
    record["experimentId"] = "exp_theirs"
    Journal(lab.paths.experiments).append(record)
    theirs = lab.experiment("exp_theirs")
    lab.submit("exp_theirs", submission(theirs), "req")
    line = Journal(lab.paths.experiments).read().items[-1]
    assert line["status"] == "done"
    assert {name: line[name] for name in record if name != "status"} == {
        name: value for name, value in record.items() if name != "status"
    }
    assert "sessionId" not in line


def test_labels_distinguish_the_sides() -> None:
    """Two sides of one label, or a variant called baseline, could not be counted."""
    for labels in (["a", "a"], ["baseline", "b"]):
        variants = [{"runId": f"run_{place}", "label": each} for place, each in enumerate(labels)]
        with pytest.raises(ValidationError, match="label"):
            NewExperiment.model_validate({"baselineRunId": "run_x", "variants": variants})
