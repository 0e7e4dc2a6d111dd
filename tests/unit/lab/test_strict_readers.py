"""What the Lab writes passes strict readers of the same files; what it wrote before is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onceward.journal import Journal
from onceward.lab import response_models
from onceward.lab.lab import Lab
from onceward.lab.models import UNNAMED
from onceward.lab.request_models import NewExperiment, NewFeedback
from tests.support.lab_http_client import Site, body_of
from tests.support.labs import make_experiment, make_lab, make_run, paths_in, submission
from tests.support.original_lab_files import OriginalRoot, swipe
from tests.support.strict_lab_readers import EXPERIMENT, FEEDBACK, read_all

QUESTIONS = [
    {"id": "clear", "prompt": "Is it clear?", "type": "yes_no_unsure"},
    {"id": "why", "prompt": "Why?", "type": "text"},
]
REPORTS: dict[str, Any] = {
    "sync_report": {"rating": 78.6, "ratingLabel": "good", "metrics": {"meanDriftMs": 12.5}},
    "caption_report": {
        "captionQuality": {"overall": {"score": 0.7835}, "coverage": {"coverageRatio": 0.91}}
    },
    "score": {"overall": 1.2},
}


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return make_lab(tmp_path)


def test_a_strict_reader_takes_every_kind_of_entry(tmp_path: Path, lab: Lab) -> None:
    """About nothing, about a run with reports, about a side; what is ours is in `extra`."""
    place = make_run(tmp_path, **REPORTS)
    (place / "video.mp4").write_bytes(b"film")
    run = lab.import_run(str(place)).run_id
    experiment = make_experiment(lab, tmp_path)
    side = {"experimentId": experiment.experiment_id, "variantId": "baseline"}
    rated = {"overall": "85", "hook": 70.5, "sync": None}
    for body in (
        {"notes": "about nothing", "topic": "cats"},
        {"runId": run, "ratings": rated, "tags": ["fast"], "notes": ""},
        {"runId": run, "ratings": {}},
        {**side, "answers": {"mode": "swipe", "activeVariantId": None}},
    ):
        lab.add_feedback(NewFeedback.model_validate(body), f"req-{len(body)}-{'topic' in body}")
    lab.submit(experiment.experiment_id, submission(experiment, answers={"q": None}), "req")
    entries = read_all(lab.paths.feedback, FEEDBACK)
    assert len(entries) == 6
    assert entries[1]["ratings"] == {"overall": 85, "hook": 71}
    assert entries[1]["autoMetricsSnapshot"] == {
        "syncRating": 79,
        "captionOverall": 78,
        "proxyScoreOverall": 100,
        "meanDriftMs": 12.5,
        "captionCoverageRatio": 0.91,
    }
    assert entries[1]["extra"]["requestId"].startswith("req-")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"winnerVariantId": "baseline", "outcome": "winner", "reason": ""},
        {"winnerVariantId": None, "outcome": "tie", "reason": "the same"},
        {"winnerVariantId": None, "outcome": "both_bad", "reason": None},
        {"winnerVariantId": None, "reason": "cannot say"},
        {"answers": {"clear": "yes", "why": None, "mode": "swipe"}},
    ],
)
@pytest.mark.parametrize("name", [None, "hooks"])
def test_a_strict_reader_takes_every_experiment(
    tmp_path: Path, lab: Lab, fields: dict[str, Any], name: str | None
) -> None:
    """Before and after the decision, whatever it is; the name is always there."""
    runs = [lab.import_run(str(make_run(tmp_path, each))).run_id for each in "ab"]
    body = {"baselineRunId": runs[0], "variants": [{"runId": runs[1]}], "questions": QUESTIONS}
    experiment = lab.create_experiment(NewExperiment.model_validate({**body, "name": name}))
    decision = submission(experiment, **fields)
    lab.submit(experiment.experiment_id, decision, "req")
    first, last = read_all(lab.paths.experiments, EXPERIMENT)
    assert first["name"] == last["name"] == (name or UNNAMED)
    # Read again, all of it is where it was.
    decided = make_lab(tmp_path).experiment(experiment.experiment_id)
    winner = decision.winnerVariantId
    assert decided.outcome == (decision.outcome or ("winner" if winner else None))
    assert decided.reason == (decision.reason or None)
    assert decided.answers == (decision.answers or {})


def test_outcome_and_reason_stand_among_the_answers(tmp_path: Path, lab: Lab) -> None:
    """Under names of ours; a reason with a winner stands with the winner."""
    tie, won = make_experiment(lab, tmp_path), make_experiment(lab, tmp_path, sides=3)
    fields = {"winnerVariantId": None, "outcome": "tie", "reason": "same", "answers": {"q": 1}}
    lab.submit(tie.experiment_id, submission(tie, **fields))
    lab.submit(won.experiment_id, submission(won))
    lines = read_all(lab.paths.experiments, EXPERIMENT)
    ours = {"onceward.outcome": "tie", "onceward.reason": "same"}
    assert lines[-2]["answers"] == {"q": 1, **ours}
    assert lines[-1]["answers"] == {"onceward.outcome": "winner"}
    assert lines[-1]["winner"]["reason"] == "clearer"


def test_the_answer_over_http_is_as_before(tmp_path: Path) -> None:
    """Outcome, reason and answers each under its own name, and no name of ours."""
    site = Site(tmp_path)
    experiment = make_experiment(site.lab, tmp_path)
    fields = {"winnerVariantId": None, "outcome": "tie", "reason": "same", "answers": {"q": None}}
    site.lab.submit(experiment.experiment_id, submission(experiment, **fields))
    shown = body_of(
        site.get(f"/api/experiments/{experiment.experiment_id}"), response_models.ExperimentDetail
    )
    assert (shown["outcome"], shown["reason"], shown["answers"]) == ("tie", "same", {"q": None})
    assert shown["winner"] is None


def test_older_lines_of_ours_are_read(tmp_path: Path, lab: Lab) -> None:
    """Outcome and reason at the top, and no name: as they were written before."""
    record = make_experiment(lab, tmp_path).to_record()
    del record["name"]
    decided = {**record, "status": "done", "reason": "same", "outcome": "tie", "answers": {"q": 1}}
    Journal(lab.paths.experiments).append(decided)
    found = make_lab(tmp_path).experiment(record["experimentId"])
    assert (found.outcome, found.reason, found.answers) == ("tie", "same", {"q": 1})
    assert found.name is None
    won = {**decided, "outcome": "winner", "winner": {"variantId": "baseline", "reason": "calm"}}
    Journal(lab.paths.experiments).append({**won, "reason": "calm"})
    found = make_lab(tmp_path).experiment(record["experimentId"])
    assert (found.outcome, found.reason) == ("winner", "calm")
    # Written again, it is a line of today.
    assert EXPERIMENT(found.to_record())


def test_h61_a_decision_of_an_experiment_of_the_original_passes_a_strict_reader(
    tmp_path: Path,
) -> None:
    """The original reads what we decided in its root."""
    original = OriginalRoot(paths_in(tmp_path))
    sides = [original.run(make_run(tmp_path, each)) for each in "ab"]
    experiment = original.experiment(*sides, questions=QUESTIONS)
    site = Site(tmp_path)
    path = f"/api/experiments/{experiment['experimentId']}/submit"
    assert site.post(path, swipe(experiment, reason="calm"), "req").status_code == 200
    last = read_all(site.lab.paths.experiments, EXPERIMENT)[-1]
    assert (last["status"], last["winner"]["reason"]) == ("done", "calm")
    assert len(read_all(site.lab.paths.feedback, FEEDBACK)) == 2
