"""Lenient requests: numbers as forms send them, answers to unknown questions, pasted paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onceward.errors import InvalidArgument
from onceward.lab.lab import Lab
from onceward.lab.request_models import NewFeedback, RunJudgement, build_request
from tests.support.lab_http_client import Site, error_of
from tests.support.labs import feedback_of, make_experiment, make_lab, make_run, submission


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return make_lab(tmp_path)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        *((85, 85), (85.4, 85), (84.5, 85), (85.5, 86), (0.4, 0), (99.5, 100), (100.0, 100)),
        *(("85", 85), ("85.4", 85), (" 85\n", 85), ("0", 0), ("100.0", 100), ("085", 85)),
        *((None, None), ("", None), ("  ", None)),
    ],
)
def test_ratings_are_read_as_forms_send_them(value: object, stored: int | None) -> None:
    """Fractions are rounded, halves up; text that is a number is one; an empty field is none."""
    body = {"runId": "r", "variantId": "v", "ratings": {"hook": value}}
    ratings = RunJudgement.model_validate(body).ratings
    assert ratings is not None
    assert ratings.to_record() == ({} if stored is None else {"hook": stored})


@pytest.mark.parametrize(
    "value",
    [-1, 101, 100.4, -0.1, "101", "-1", "1e1", "1_0", "٣", "x", True, [], {}, 1e400, float("nan")],
)
def test_other_ratings_are_refused_by_name(value: object) -> None:
    """Out of range, or no number: the person who sent it wants to know."""
    body = {"runId": "r", "variantId": "v", "ratings": {"hook": value}}
    with pytest.raises(InvalidArgument, match="ratings.hook: must be a number from 0 to 100"):
        build_request(lambda: RunJudgement.model_validate(body))


def test_one_rating_in_three_spellings_is_one_request(lab: Lab) -> None:
    """Fingerprints are taken after normalisation."""
    for value in ("85", 85.4, 85):
        new = NewFeedback.model_validate({"ratings": {"overall": value}})
        assert lab.add_feedback(new, "req").body == lab.add_feedback(new, "req").body
    assert [each["ratings"] for each in feedback_of(lab)] == [{"overall": 85}]


def test_answers_to_unknown_questions_are_kept(tmp_path: Path, lab: Lab) -> None:
    """Also null ones, in the entries and in the decision."""
    experiment = make_experiment(lab, tmp_path)
    answers = {"mode": "swipe", "confidence": 70, "activeVariantId": None}
    lab.submit(experiment.experiment_id, submission(experiment, answers=answers), "req")
    assert lab.experiment(experiment.experiment_id).answers == answers
    assert [each["answers"] for each in feedback_of(lab)] == [answers] * 2
    about = {"experimentId": experiment.experiment_id, "variantId": "baseline"}
    new = NewFeedback.model_validate({**about, "notes": "x", "answers": answers})
    lab.add_feedback(new)
    assert feedback_of(lab)[-1]["answers"] == answers


def test_a_null_answer_is_not_the_same_as_none(lab: Lab) -> None:
    """They are two requests: one of them says that the question was seen."""
    lab.add_feedback(NewFeedback(notes="x", answers={"q": None}), "req")
    with pytest.raises(Exception, match="another request"):
        lab.add_feedback(NewFeedback(notes="x", answers={}), "req")
    assert feedback_of(lab)[0]["answers"] == {"q": None}


def test_names_of_ours_in_answers_are_refused(tmp_path: Path, lab: Lab) -> None:
    """They would be taken for the outcome of the experiment."""
    experiment = make_experiment(lab, tmp_path)
    body = submission(experiment, answers={"onceward.outcome": "tie"})
    with pytest.raises(InvalidArgument) as refused:
        lab.submit(experiment.experiment_id, body)
    assert refused.value.context["field"] == "answers.onceward.outcome"
    assert feedback_of(lab) == []


def test_a_review_in_which_nothing_was_filled_in_is_accepted(tmp_path: Path, lab: Lab) -> None:
    """The original's page sends its form as it is; what names no run is refused as before."""
    run = lab.import_run(str(make_run(tmp_path))).run_id
    lab.add_feedback(NewFeedback.model_validate({"runId": run, "ratings": {}}))
    (entry,) = feedback_of(lab)
    assert entry["runId"] == run
    assert "ratings" not in entry


@pytest.mark.parametrize("around", [" {}", "{}\n", "\t{} \r\n"])
def test_a_pasted_path_is_trimmed(tmp_path: Path, around: str) -> None:
    """White space around it is the clipboard's."""
    site = Site(tmp_path)
    run = site.lab.import_run(str(make_run(tmp_path))).run_id
    path = around.format(make_run(tmp_path))
    assert site.post("/api/runs/import", {"path": path}).json() == {"runId": run}
    status, code, context = error_of(site.post("/api/runs/import", {"path": " \n"}))
    assert (status, code, context["field"]) == (400, "INVALID_ARGUMENT", "path")


def test_reports_are_those_of_the_moment_of_the_judgement(tmp_path: Path, lab: Lab) -> None:
    """A report that came after the import is named beside the metrics that were read from it."""
    place = make_run(tmp_path)
    run = lab.import_run(str(place))
    assert run.reports == {}
    make_run(tmp_path, score={"overall": 0.8})
    lab.add_feedback(NewFeedback(runId=run.run_id, notes="x"))
    (place / "score.json").unlink()
    lab.add_feedback(NewFeedback(runId=run.run_id, notes="x"))
    first, second = feedback_of(lab)
    assert first["reports"] == {"scorePath": str(place / "score.json")}
    assert first["autoMetricsSnapshot"] == {"proxyScoreOverall": 80}
    assert "reports" not in second


def test_how_many_submissions_stop_the_server_is_a_number(tmp_path: Path) -> None:
    """0 where it does not stop: the original's page reads a number."""
    site = Site(tmp_path)
    config: dict[str, Any] = site.get("/api/config").json()
    assert config["exitAfterSubmit"] == 0
    assert type(config["exitAfterSubmit"]) is int
