"""Original Lab: its roots are read unchanged, and its request ids replay their responses."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from onceward.errors import AlreadySubmitted, Conflict, KeyReused
from onceward.journal import Journal, Record
from onceward.lab.lab import Lab
from onceward.lab.request_models import NewFeedback, Submission
from tests.support.labs import feedback_of, make_lab, make_run, paths_in
from tests.support.original_lab_files import OriginalRoot, mtime_ms, stat, swipe

#: Fractions of a millisecond: none, some, and so close to the next one that a float is that one.
TIMES = (1_770_000_000_123_000_000, 1_770_000_000_123_456_789, 1_770_000_000_123_999_999)


@pytest.fixture
def original(tmp_path: Path) -> OriginalRoot:
    return OriginalRoot(paths_in(tmp_path))


def made(directory: Path, name: str, mtime_ns: int = TIMES[1]) -> Path:
    """Make a run with a video and a script of that time."""
    place = make_run(directory, name)
    (place / "video.mp4").write_bytes(b"film")
    for each in place.iterdir():
        os.utime(each, ns=(0, mtime_ns))
    return place


def compared(tmp_path: Path, original: OriginalRoot, **fields: Any) -> Record:
    sides = [original.run(made(tmp_path, name)) for name in "ab"]
    return original.experiment(*sides, **fields)


def sizes(lab: Lab) -> list[int]:
    """Return how long the files are that a retry must not lengthen."""
    return [
        path.stat().st_size for path in (lab.paths.feedback, lab.paths.experiments, lab.paths.runs)
    ]


# --- h61 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mtime_ns", TIMES)
def test_h61_a_run_of_the_original_is_unchanged(
    tmp_path: Path, original: OriginalRoot, mtime_ns: int
) -> None:
    """Its times are fractions and floats: the run is not taken for overwritten, nor made again."""
    place = made(tmp_path, "a", mtime_ns)
    theirs = original.run(place)
    assert theirs["fingerprint"]["video"]["mtimeMs"] == mtime_ms(mtime_ns)
    lab = make_lab(tmp_path)
    assert lab.import_run(str(place)).run_id == theirs["runId"]
    lab.directory(lab.run(theirs["runId"]).run).close()
    assert len(Journal(lab.paths.runs).read().items) == 1


def test_h61_a_run_imported_through_a_link_is_unchanged(
    tmp_path: Path, original: OriginalRoot
) -> None:
    """The original writes the path as it was named; only name, size and time count."""
    made(tmp_path, "a")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "runs" / "a")
    theirs = original.run(link)
    lab = make_lab(tmp_path)
    assert lab.import_run(str(tmp_path / "runs" / "a")).run_id == theirs["runId"]
    lab.directory(lab.run(theirs["runId"]).run).close()


def test_h61_a_run_without_a_fingerprint_is_unchanged(
    tmp_path: Path, original: OriginalRoot
) -> None:
    """The original writes none where there is neither a video nor a script."""
    place = make_run(tmp_path, "a", score={"overall": 0.5})
    (place / "script.json").unlink()
    theirs = original.run(place)
    assert "fingerprint" not in theirs
    lab = make_lab(tmp_path)
    assert lab.import_run(str(place)).run_id == theirs["runId"]
    (place / "video.mp4").write_bytes(b"film")
    assert lab.import_run(str(place)).run_id != theirs["runId"]


@pytest.mark.parametrize("change", ["time", "size", "gone"])
def test_h61_an_overwritten_run_is_still_detected(
    tmp_path: Path, original: OriginalRoot, change: str
) -> None:
    """Another whole millisecond, another size, a file that is gone: a new run."""
    place = made(tmp_path, "a")
    theirs = original.run(place)
    video = place / "video.mp4"
    if change == "time":
        os.utime(video, ns=(0, TIMES[1] + 1_000_000))
    elif change == "size":
        video.write_bytes(b"a film")
        os.utime(video, ns=(0, TIMES[1]))
    else:
        video.unlink()
    lab = make_lab(tmp_path)
    with pytest.raises(Conflict):
        lab.directory(lab.run(theirs["runId"]).run)
    assert lab.import_run(str(place)).supersedes_run_id == theirs["runId"]


def test_h61_a_retry_of_the_originals_review_appends_nothing(
    tmp_path: Path, original: OriginalRoot
) -> None:
    """The answer is the one that was given then, however the numbers are written now."""
    run = original.run(made(tmp_path, "a"))
    said = {"ratings": {"overall": 85}, "notes": "good", "tags": ["calm"]}
    feedback_id = original.feedback("req-1", run, said)
    lab = make_lab(tmp_path)
    before = lab.paths.feedback.read_bytes()
    body = {"runId": run["runId"], **said, "notes": " good "}
    answer = lab.add_feedback(NewFeedback.model_validate(body), "req-1")
    assert (answer.body, answer.replayed) == ({"feedbackId": feedback_id}, True)
    assert lab.paths.feedback.read_bytes() == before


def test_h61_a_retry_of_the_originals_submission_appends_nothing(
    tmp_path: Path, original: OriginalRoot
) -> None:
    """Also with the swipe answers that its page sends without being asked."""
    experiment = compared(tmp_path, original)
    response = original.submission("req-1", experiment, swipe(experiment, reason="calmer"))
    lab = make_lab(tmp_path)
    before = sizes(lab)
    body = Submission.model_validate(swipe(experiment, reason="calmer"))
    answer = lab.submit(experiment["experimentId"], body, "req-1")
    assert (answer.body, answer.replayed) == (response, True)
    with pytest.raises(AlreadySubmitted) as refused:
        lab.submit(experiment["experimentId"], body, "req-2")
    assert refused.value.context["result"] == response
    assert sizes(lab) == before


def test_h61_one_request_id_in_two_sessions_of_the_original_answers_both(
    tmp_path: Path, original: OriginalRoot
) -> None:
    """The original knows ids by session: each retry gets the answer that fits it."""
    run = original.run(made(tmp_path, "a"))
    ids = [original.feedback("req", run, {"notes": each}, f"lab_{each}") for each in ("one", "two")]
    lab = make_lab(tmp_path)
    for notes, feedback_id in zip(("one", "two"), ids, strict=True):
        new = NewFeedback(runId=run["runId"], notes=notes)
        assert lab.add_feedback(new, "req").body == {"feedbackId": feedback_id}
    with pytest.raises(KeyReused):
        lab.add_feedback(NewFeedback(runId=run["runId"], notes="three"), "req")
    assert len(feedback_of(lab)) == 2


@pytest.mark.parametrize(
    "changed",
    [
        {"notes": "bad"},
        {"ratings": {"overall": 84}},
        {"tags": ["other"]},
        {"answers": {"q": None}},
        {"runId": None},
        {"runId": None, "topic": "dogs"},
    ],
)
def test_h61_another_request_is_not_answered_by_a_line_of_the_original(
    tmp_path: Path, original: OriginalRoot, changed: Record
) -> None:
    """The line holds no fingerprint: the entry that it names is compared."""
    run = original.run(made(tmp_path, "a"))
    said = {"ratings": {"overall": 85}, "notes": "good", "tags": ["calm"]}
    original.feedback("req-1", run, said)
    lab = make_lab(tmp_path)
    body = {"runId": run["runId"], **said, **changed}
    with pytest.raises(KeyReused):
        lab.add_feedback(NewFeedback.model_validate(body), "req-1")
    assert len(feedback_of(lab)) == 1


@pytest.mark.parametrize("case", ["winner", "reason", "answers", "rating", "fewer", "experiment"])
def test_h61_another_decision_is_not_answered_by_a_line_of_the_original(
    tmp_path: Path, original: OriginalRoot, case: str
) -> None:
    """Winner, reason, answers, sides and the experiment itself have to be the same."""
    experiment = compared(tmp_path, original)
    third = original.run(made(tmp_path, "c"))
    original.submission("req-1", experiment, swipe(experiment, reason="calmer"))
    other = original.experiment({"runId": experiment["baselineRunId"]}, third)
    body = swipe(experiment, reason="calmer")
    if case == "winner":
        body["winnerVariantId"] = "baseline"
    elif case == "reason":
        body["reason"] = "louder"
    elif case == "answers":
        body["answers"] = {"mode": "swipe", "confidence": 71, "activeVariantId": None}
    elif case == "rating":
        body["perRun"][0]["ratings"] = {"overall": 21}
    elif case == "fewer":
        del body["answers"]
    else:
        experiment, body = other, swipe(other)
    lab = make_lab(tmp_path)
    with pytest.raises(KeyReused):
        lab.submit(experiment["experimentId"], Submission.model_validate(body), "req-1")
    assert len(feedback_of(lab)) == 2
    assert not lab.experiment(other["experimentId"]).is_done


def test_h61_a_line_whose_entry_is_missing_is_not_replayed(
    tmp_path: Path, original: OriginalRoot
) -> None:
    """There is nothing to compare with, so the answer may be another request's."""
    run = original.run(made(tmp_path, "a"))
    original.feedback("req-1", run, {"notes": "good"})
    original.paths.feedback.write_bytes(b"")
    lab = make_lab(tmp_path)
    with pytest.raises(KeyReused):
        lab.add_feedback(NewFeedback(runId=run["runId"], notes="good"), "req-1")
    assert feedback_of(lab) == []


def test_h61_an_experiment_of_the_original_is_decided_here(
    tmp_path: Path, original: OriginalRoot
) -> None:
    """Its runs, its comparison and its entries are ours to go on with."""
    experiment = compared(tmp_path, original)
    lab = make_lab(tmp_path)
    body = Submission.model_validate(swipe(experiment))
    lab.submit(experiment["experimentId"], body, "req-1")
    decided = lab.experiment(experiment["experimentId"])
    assert decided.winner is not None
    assert decided.answers == {"mode": "swipe", "confidence": 70, "activeVariantId": None}
    assert [each["answers"] for each in feedback_of(lab)] == [decided.answers] * 2


def test_times_that_are_no_numbers_are_no_times(tmp_path: Path, original: OriginalRoot) -> None:
    """Whatever stands in a fingerprint, it is compared and never raises."""
    place = made(tmp_path, "a")
    odd: list[object] = [None, "1770000000123", True, 1e308, -1.5, [], {}]
    for mtime in odd:
        video = {**stat(place / "video.mp4", 0.0), "mtimeMs": mtime}
        original.run(place, fingerprint={"video": video, "script": 7})
    original.run(place, fingerprint={"video": "text"})
    lab = make_lab(tmp_path)
    lab.import_run(str(place))
    assert len(Journal(lab.paths.runs).read().items) == len(odd) + 2
