"""Intent log: a request counts once, however often it is sent and wherever a process dies."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from onceward.errors import AlreadySubmitted, DiskFull, KeyReused, OutcomeUnknown, StorageError
from onceward.journal import Journal, Record, RecordPage
from onceward.journal.file_lock import open_locked, unlock_and_close
from onceward.lab.lab import Lab
from onceward.lab.lab_paths import LabPaths
from onceward.lab.request_models import NewFeedback
from onceward.lab.sessions import open_session
from onceward.system import ManualClock, OpenFile, SystemFiles, crash_points
from onceward.system.crash_points import Crashed
from onceward.testing import CrashFiles
from tests.support.labs import by_request, feedback_of, make_experiment, make_lab, submission

POINTS = [name for name in crash_points.POINTS if name.startswith("lab.request.after_")]


@contextmanager
def dying_at(point: str) -> Iterator[None]:
    """Die where the point stands, in the middle of what the block does."""
    crash_points.arm(f"{point}:1:raise")
    try:
        with pytest.raises(Crashed):
            yield
    finally:
        crash_points.arm(None)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return make_lab(tmp_path)


def notes(text: str = "good") -> NewFeedback:
    return NewFeedback(notes=text)


def test_h01_ten_requests_with_one_id_at_once_are_one_entry(tmp_path: Path) -> None:
    """Ten threads over two servers send the same id: one entry, one id, ten equal answers."""
    labs = [make_lab(tmp_path), make_lab(tmp_path)]
    barrier = threading.Barrier(10)

    def send(number: int) -> Record:
        barrier.wait()
        return labs[number % 2].add_feedback(notes(), "same").body

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(send, range(10)))
    assert answers == [answers[0]] * 10
    assert [each["id"] for each in feedback_of(labs[0])] == [answers[0]["feedbackId"]]
    assert sum(lab.submitted for lab in labs) == 1


@pytest.mark.parametrize("point", POINTS)
def test_h02_a_crash_after_the_intent_is_completed_by_the_retry(point: str, tmp_path: Path) -> None:
    """Whatever was written before the death, the retry answers one id and there is one entry."""
    with dying_at(point):
        make_lab(tmp_path).add_feedback(notes(), "req-1")
    again = make_lab(tmp_path)
    answer = again.add_feedback(notes(), "req-1")
    assert answer.replayed
    assert [each["id"] for each in feedback_of(again)] == [answer.body["feedbackId"]]


@pytest.mark.parametrize("torn", [False, True])
def test_h03_a_submit_that_died_after_its_first_entry_is_completed(
    tmp_path: Path, torn: bool
) -> None:
    """Only what is missing is appended, with the same ids, and the winner is recorded."""
    lab = make_lab(tmp_path)
    experiment = make_experiment(lab, tmp_path, sides=3)
    with dying_at("lab.request.after_intent"):
        lab.submit(experiment.experiment_id, submission(experiment), "req-1")
    # The write had begun: one entry is whole, the next one perhaps torn.
    requests = Journal(lab.paths.requests(lab.session.session_id))
    first, second, third = requests.read().items[-1]["redo"]["entries"]
    Journal(lab.paths.feedback).append(first)
    if torn:
        with lab.paths.feedback.open("ab") as file:
            file.write(b'{"schemaVersion":1,"id":"' + second["id"].encode())
    again = make_lab(tmp_path)
    answer = again.submit(experiment.experiment_id, submission(experiment), "req-1")
    found = feedback_of(again)
    assert [each["id"] for each in found] == answer.body["feedbackIds"]
    assert found == [first, second, third]
    decided = again.experiment(experiment.experiment_id)
    assert decided.winner is not None
    assert decided.winner.variant_id == experiment.variants[0].variant_id
    assert decided.status == "done"


def test_an_unfinished_request_is_completed_without_its_client(tmp_path: Path) -> None:
    """The next holder of the lock rolls it forward, without a retry of the client."""
    lab = make_lab(tmp_path)
    experiment = make_experiment(lab, tmp_path)
    with dying_at("lab.request.after_intent"):
        lab.submit(experiment.experiment_id, submission(experiment), "req-1")
    other = make_lab(tmp_path)
    other.recover()
    assert len(feedback_of(other)) == 2
    assert other.experiment(experiment.experiment_id).is_done
    assert other.submission_of(experiment.experiment_id) is not None
    other.recover()
    assert len(feedback_of(other)) == 2


def test_h04_request_ids_are_known_after_a_restart(tmp_path: Path) -> None:
    """A new process, in the same session or another one, answers what was answered."""
    first = make_lab(tmp_path)
    answer = first.add_feedback(notes(), "req-1")
    for session_id in (first.session.session_id, None):
        again = make_lab(tmp_path, session_id).add_feedback(notes(), "req-1")
        assert again.replayed
        assert again.body == answer.body
    assert len(feedback_of(first)) == 1


def test_h05_the_same_id_for_another_request_is_refused(tmp_path: Path, lab: Lab) -> None:
    """Another payload, another experiment, another kind: never the answer of another request."""
    one, two = make_experiment(lab, tmp_path), make_experiment(lab, tmp_path, sides=3)
    lab.add_feedback(notes(), "fb")
    lab.submit(one.experiment_id, submission(one), "sub")
    before = feedback_of(lab)
    with pytest.raises(KeyReused):
        lab.add_feedback(notes("other"), "fb")
    with pytest.raises(KeyReused):
        lab.submit(two.experiment_id, submission(two), "sub")
    with pytest.raises(KeyReused):
        lab.submit(two.experiment_id, submission(two), "fb")
    with pytest.raises(KeyReused):
        lab.add_feedback(notes(), "sub")
    assert feedback_of(lab) == before
    assert not lab.experiment(two.experiment_id).is_done


def test_the_same_body_in_another_order_is_the_same_request(lab: Lab) -> None:
    """What is absent and what is null are the same, and so is the id in header or body."""
    first = lab.add_feedback(NewFeedback(notes="x", tags=("a",)), "req")
    body = {"tags": ["a"], "notes": "x", "topic": None, "requestId": "req"}
    assert lab.add_feedback(NewFeedback.model_validate(body)).body == first.body


def test_an_experiment_is_submitted_once_whatever_the_id(tmp_path: Path, lab: Lab) -> None:
    """The second decision is refused and carries the first one's answer."""
    experiment = make_experiment(lab, tmp_path)
    answer = lab.submit(experiment.experiment_id, submission(experiment), "req-1")
    for request_id in ("req-2", None):
        with pytest.raises(AlreadySubmitted) as refused:
            lab.submit(experiment.experiment_id, submission(experiment), request_id)
        assert refused.value.context["result"] == answer.body
    assert len(feedback_of(lab)) == 2


def test_requests_of_a_busy_other_session_are_caught_up(tmp_path: Path) -> None:
    """Two processes take turns in any order, and each recognises every id of the other."""
    labs = [make_lab(tmp_path) for _ in range(3)]
    for number in range(30):
        labs[number % 3].add_feedback(notes(), f"req-{number}")
        labs[number % 2].add_feedback(notes(), f"odd-{number}")
    for number in range(30):
        for lab in labs:
            assert lab.add_feedback(notes(), f"req-{number}").replayed
            assert lab.add_feedback(notes(), f"odd-{number}").replayed
    assert set(by_request(labs[0]).values()) == {1}


def test_a_replaced_file_of_request_ids_is_read_again(lab: Lab) -> None:
    """What is no longer in the file is forgotten, what is in it is known."""
    lab.add_feedback(notes(), "gone")
    lab.add_feedback(notes(), "kept")
    path = lab.paths.requests(lab.session.session_id)
    lines = path.read_bytes().splitlines(keepends=True)
    path.unlink()
    path.write_bytes(b"".join(line for line in lines if b"kept" in line))
    assert lab.add_feedback(notes(), "kept").replayed
    assert not lab.add_feedback(notes(), "gone").replayed


def test_a_mapping_of_another_tool_is_recognised(tmp_path: Path) -> None:
    """The smallest form of a mapping, without state or answer, still answers its id."""
    paths = make_lab(tmp_path, "lab_other").paths
    line = {"requestId": "theirs", "type": "feedback", "entityId": "fb_1", "createdAt": "now"}
    Journal(paths.requests("lab_other")).append(line)
    Journal(paths.feedback).append({"id": "fb_1", "createdAt": "now", "notes": "good"})
    assert make_lab(tmp_path).add_feedback(notes(), "theirs").body == {"feedbackId": "fb_1"}


@pytest.mark.parametrize("kind", ["feedback", "experiment_submit"])
def test_h05_a_mapping_without_a_fingerprint_answers_only_what_it_is_about(
    tmp_path: Path, lab: Lab, kind: str
) -> None:
    """Another kind of request, or another experiment, is never answered with its result."""
    experiment = make_experiment(lab, tmp_path)
    line = {"requestId": "theirs", "type": kind, "entityId": "exp_other", "createdAt": "now"}
    Journal(lab.paths.requests("lab_other")).append(line)
    fresh = make_lab(tmp_path)
    with pytest.raises(KeyReused):
        fresh.submit(experiment.experiment_id, submission(experiment), "theirs")
    assert not fresh.experiment(experiment.experiment_id).is_done


def test_half_a_line_that_comes_in_between_does_not_swallow_an_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another tool writes without our lock, in the middle of our append: ours is readable."""
    lab = make_lab(tmp_path)
    experiment = make_experiment(lab, tmp_path)
    lab.add_feedback(notes(), "before")
    glued = {lab.paths.feedback: 0, lab.paths.experiments: 0}
    write = Journal._write

    def between(journal: Journal, file: OpenFile, data: bytes) -> None:
        if glued.get(journal.path) == 0:
            glued[journal.path] = 1
            with journal.path.open("ab") as other:
                other.write(b'{"id":"theirs",')
        write(journal, file, data)

    monkeypatch.setattr(Journal, "_write", between)
    lab.submit(experiment.experiment_id, submission(experiment), "req")
    assert glued == dict.fromkeys(glued, 1)
    assert by_request(lab) == Counter({"before": 1, "req": 2})
    assert make_lab(tmp_path).experiment(experiment.experiment_id).is_done


def test_a_failed_catch_up_starts_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not read because of a passing error is not taken for read."""
    old = make_lab(tmp_path, "lab_a")
    old.add_feedback(notes(), "old")
    for number in range(9):
        make_lab(tmp_path, f"lab_z{number}").add_feedback(notes(), f"other-{number}")
    lab, broken = make_lab(tmp_path, "lab_new"), [True]
    read = Journal.read

    def failing(journal: Journal, *arguments: Any, **options: Any) -> RecordPage:
        if broken and "lab_a" in str(journal.path):
            broken.clear()
            raise StorageError
        return read(journal, *arguments, **options)

    monkeypatch.setattr(Journal, "read", failing)
    with pytest.raises(StorageError):
        lab.add_feedback(notes(), "old")
    assert lab.add_feedback(notes(), "old").replayed


def test_an_intent_is_completed_in_the_file_that_it_was_for(tmp_path: Path) -> None:
    """Another process on the same root keeps its feedback elsewhere, and finds the intent."""
    lab = make_lab(tmp_path)
    with dying_at("lab.request.after_intent"):
        lab.add_feedback(notes(), "req")
    elsewhere = LabPaths(root=lab.paths.root, feedback=tmp_path / "elsewhere.jsonl")
    Lab(paths=elsewhere, session=open_session(elsewhere)).recover()
    assert not elsewhere.feedback.exists()
    assert by_request(lab) == Counter({"req": 1})


def test_what_was_rolled_forward_counts_as_submitted(tmp_path: Path) -> None:
    """In the same session; and it is known whether its client has asked again."""
    lab = make_lab(tmp_path, "lab_one")
    with dying_at("lab.request.after_intent"):
        lab.add_feedback(notes(), "req")
    again = make_lab(tmp_path, "lab_one")
    again.recover()
    assert (again.submitted, again.completed_unacknowledged) == (1, 1)
    again.add_feedback(notes(), "req")
    assert (again.submitted, again.completed_unacknowledged) == (1, 0)


def test_a_file_among_the_sessions_is_ignored(tmp_path: Path) -> None:
    """A stray file between the sessions is left alone."""
    lab = make_lab(tmp_path)
    (lab.paths.sessions / "notes").write_text("hello")
    assert not make_lab(tmp_path).add_feedback(notes(), "req").replayed


def test_a_dangling_link_for_the_feedback_is_named(tmp_path: Path) -> None:
    """Its target is not there: reported at once, and mended by making the directory."""
    lab = make_lab(tmp_path)
    lab.paths.feedback.parent.mkdir()
    lab.paths.feedback.symlink_to(tmp_path / "disk" / "feedback.jsonl")
    with pytest.raises(StorageError, match="a symbolic link to a missing file"):
        lab.add_feedback(notes(), "req")
    (tmp_path / "disk").mkdir()
    assert lab.add_feedback(notes(), "req").replayed
    assert len(feedback_of(lab)) == 1


def test_lines_that_are_no_requests_are_passed_over(tmp_path: Path) -> None:
    """Junk, half intents and strange types in the file stop no request."""
    lab = make_lab(tmp_path, "lab_junk")
    journal = Journal(lab.paths.requests("lab_junk"))
    journal.append({"requestId": 5}, {"requestId": "a", "type": "feedback"}, {})
    half = {"requestId": "h", "type": "feedback", "entityId": "fb", "state": "intent"}
    journal.append(half, {**half, "redo": 7}, {**half, "redo": {"entries": [1]}})
    whole = {**half, "createdAt": "t", "fingerprint": "f", "response": {}}
    journal.append({**whole, "redo": {"entries": [], "experiment": "text"}})
    nested = '{"a":' * 600 + "1" + "}" * 600
    text = json.dumps({**whole, "redo": {"entries": [{"id": "x", "deep": "HERE"}]}})
    with journal.path.open("a") as file:
        file.write(text.replace('"HERE"', nested) + "\n")
    assert not lab.add_feedback(notes(), "h").replayed
    assert len(feedback_of(lab)) == 1


def test_a_full_disk_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """The announcement stands, the entries do not fit: the retry, with room, completes it."""
    files = CrashFiles()
    files.make_directories(tmp_path)
    lab = make_lab(tmp_path, files=files)
    lab.add_feedback(notes(), "before")
    # The lock is held by the same process as before, so the writes are: the intent, the entry.
    files.fail("write", nth=2, error=28)
    with pytest.raises((DiskFull, OutcomeUnknown)):
        lab.add_feedback(notes(), "req")
    answer = lab.add_feedback(notes(), "req")
    assert answer.replayed
    assert by_request(lab) == Counter({"before": 1, "req": 1})


def test_an_intent_that_cannot_be_completed_stops_only_what_it_is_about(tmp_path: Path) -> None:
    """A process with its feedback elsewhere died; that place is gone. Others go on, 503 for it."""
    other = LabPaths(root=tmp_path / "lab", feedback=tmp_path / "elsewhere" / "feedback.jsonl")
    theirs = Lab(paths=other, session=open_session(other), roots=[tmp_path])
    experiment = make_experiment(theirs, tmp_path)
    with dying_at("lab.request.after_intent"):
        theirs.submit(experiment.experiment_id, submission(experiment), "theirs")
    (tmp_path / "elsewhere").write_text("not a directory")
    lab = make_lab(tmp_path)
    lab.recover()
    assert not lab.add_feedback(notes(), "mine").replayed
    for request_id in ("theirs", "another"):
        with pytest.raises(OutcomeUnknown, match="not yet completed"):
            lab.submit(experiment.experiment_id, submission(experiment), request_id)
    (tmp_path / "elsewhere").unlink()
    assert lab.submit(experiment.experiment_id, submission(experiment), "theirs").replayed
    assert by_request(lab) == Counter({"mine": 1})
    assert by_request(theirs) == Counter({"theirs": 2})


def test_waiting_for_a_held_lock_times_out(tmp_path: Path) -> None:
    """A frozen process holds the lock: an error after a while, at once when the server stops."""
    clock = ManualClock()
    lab = make_lab(tmp_path, clock=clock)
    experiment = make_experiment(lab, tmp_path)
    holder, _ = open_locked(lab.paths.lock, SystemFiles())
    before = clock.monotonic()
    with pytest.raises(StorageError, match="is still locked"):
        lab.add_feedback(notes(), "req")
    assert 10 <= clock.monotonic() - before < 11
    assert lab.submission_of(experiment.experiment_id) is None
    lab.stop()
    with pytest.raises(StorageError):
        lab.add_feedback(notes(), "req")
    assert clock.monotonic() - before < 12
    unlock_and_close(holder)
    assert make_lab(tmp_path).add_feedback(notes(), "req").body
