"""`onceward lab`: its words, the directories it may read, and the tasks it remembers."""

from pathlib import Path
from typing import Any

import pytest

from onceward.cli.lab_server import allowed_roots
from onceward.cli.lab_tasks import ComparisonDetails, compare_task, review_task
from onceward.errors import FileMissing, InvalidArgument
from onceward.journal import Journal, RecordPage
from onceward.lab import Lab, NewFeedback
from onceward.lab.sessions import open_session, save_task
from tests.support.command_runner import Run
from tests.support.labs import make_lab, make_run, submission


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return make_lab(tmp_path, "lab_mine")


def experiment_of(lab: Lab) -> str:
    assert lab.session.task is not None
    return lab.session.task["experimentId"]


def test_help_names_the_commands(run: Run) -> None:
    """The group's help is the group's, although the group alone serves."""
    ran = run("lab", "--help")
    assert ran.code == 0
    for name in ("serve", "review", "compare"):
        assert name in ran.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("lab", "bogus"), "No such command 'bogus'"),
        (("lab", "--bogus"), "No such option"),
        (("lab", "--port", "many"), "port"),
        (("lab", "--port", "70000"), "is not a port"),
        (("lab", "--host", "0.0.0.0"), "would accept other machines"),
        (("lab", "review"), "Missing argument"),
        (("lab", "review", "x", "--timeout", "-1"), "timeout"),
        (("lab", "review", "a" * 300), "does not exist"),
        (("lab", "compare", "a" * 300, "b"), "does not exist"),
        (("lab", "--allow-root", "a" * 300), "is not a directory"),
        (("lab", "--allow-root", "~no-user-of-this-name"), "is not a directory"),
    ],
)
def test_bad_words_are_exit_2(run: Run, words: tuple[str, ...], says: str) -> None:
    """Options without a command are those of `serve`, and are checked before anything starts."""
    ran = run(*words)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err


def test_roots_are_those_given_and_those_of_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The working directory counts when none is given; a file stands for its directory."""
    monkeypatch.chdir(tmp_path)
    place = make_run(tmp_path)
    assert allowed_roots(None) == [tmp_path]
    assert allowed_roots([place]) == [place]
    assert allowed_roots(None, place, place / "script.json") == [tmp_path, place, place]
    with pytest.raises(InvalidArgument, match="not a directory"):
        allowed_roots([place / "script.json"])
    with pytest.raises(FileMissing, match="does not exist"):
        allowed_roots(None, tmp_path / "nowhere")


def test_a_comparison_names_its_sides_after_their_directories(lab: Lab, tmp_path: Path) -> None:
    """By the last name, or by the whole path where two have the same."""
    places = [make_run(tmp_path, name) for name in ("x/out", "y/out", "z")]
    compare_task(lab, [places[0], places[2]], ComparisonDetails())
    assert [each.label for each in lab.experiment(experiment_of(lab)).variants] == ["z"]
    compare_task(lab, places, ComparisonDetails())
    labels = [each.label for each in lab.experiment(experiment_of(lab)).variants]
    assert labels == [str(each) for each in places[1:]]


def test_a_task_is_on_disk_before_the_page_is_shown(lab: Lab, tmp_path: Path) -> None:
    """So a killed command can go on with it; the task is forgotten once its result was printed."""
    places = [make_run(tmp_path, name) for name in ("a", "b")]
    task = compare_task(lab, places, ComparisonDetails(questions=["Better?", "text: Why? "]))
    stored = open_session(lab.paths, "lab_mine").task
    assert stored == {"type": "compare", "experimentId": experiment_of(lab)}
    experiment = lab.experiment(experiment_of(lab))
    assert [(each["prompt"], each["type"]) for each in experiment.questions] == [
        ("Better?", "yes_no_unsure"),
        ("Why?", "text"),
    ]
    assert task.result() is None
    again = compare_task(make_lab(tmp_path, "lab_mine"), places, ComparisonDetails())
    assert again.page == task.page
    lab.submit(experiment.experiment_id, submission(experiment))
    result = again.result()
    assert result == task.result()
    assert result is not None
    assert result["winner"]["path"] == str(places[1])
    again.forget()
    assert open_session(lab.paths, "lab_mine").task is None


def test_a_stored_task_that_leads_nowhere_is_no_obstacle(lab: Lab, tmp_path: Path) -> None:
    """When the experiments were removed a new one is made."""
    places = [make_run(tmp_path, name) for name in ("a", "b")]
    first = compare_task(lab, places, ComparisonDetails())
    lab.paths.experiments.unlink()
    second = compare_task(make_lab(tmp_path, "lab_mine"), places, ComparisonDetails())
    assert first.page != second.page


def test_a_review_of_a_replaced_file_still_ends(lab: Lab, tmp_path: Path) -> None:
    """The place where it began is gone, so all of the new file is looked at."""
    lab.add_feedback(NewFeedback(notes="before"))
    task = review_task(lab, make_run(tmp_path))
    assert lab.session.task is not None
    lab.paths.feedback.unlink()
    assert task.result() is None
    lab.add_feedback(NewFeedback(runId=lab.session.task["runId"], notes="after"))
    result = task.result()
    assert result is not None
    assert [each["notes"] for each in result["feedback"]] == ["after"]


def test_a_review_of_a_rewritten_file_does_not_give_old_words(lab: Lab, tmp_path: Path) -> None:
    """What was there before it was asked for is not its answer, wherever it stands now."""
    place = make_run(tmp_path)
    run_id = lab.import_run(str(place)).run_id
    lab.add_feedback(NewFeedback(runId=run_id, notes="last week"))
    task = review_task(lab, place)
    again = review_task(make_lab(tmp_path, "lab_mine"), place)
    rewrite(lab.paths.feedback)
    assert (task.result(), again.result()) == (None, None)
    lab.add_feedback(NewFeedback(runId=run_id, notes="now"))
    for each in (task, again):
        result = each.result()
        assert result is not None
        assert [entry["notes"] for entry in result["feedback"]] == ["now"]


def test_a_file_rewritten_while_it_is_read_gives_each_entry_once(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading begins again, and so does what was found."""
    place = make_run(tmp_path)
    run_id = lab.import_run(str(place)).run_id
    lab.add_feedback(NewFeedback(notes="before"))
    task = review_task(lab, place)
    lab.add_feedback(NewFeedback(runId=run_id, notes="now"))
    read, looks = Journal.read, iter([False, True])

    def rewritten(self: Journal, *given: Any, **options: Any) -> RecordPage:
        if next(looks, False):
            rewrite(lab.paths.feedback)
        return read(self, *given, **options)

    monkeypatch.setattr(Journal, "read", rewritten)
    result = task.result()
    assert result is not None
    assert [entry["notes"] for entry in result["feedback"]] == ["now"]


def rewrite(path: Path) -> None:
    """Do as editors do: the same content in another file, under the same name."""
    other = path.with_suffix(".new")
    other.write_bytes(path.read_bytes())
    other.replace(path)


@pytest.mark.parametrize(
    ("odd", "says"),
    [
        ({"ratings": 5}, "no details"),
        ({"ratings": [1]}, "no details"),
        ({"tags": 7, "notes": "fine"}, "fine"),
        ({"notes": 3, "tags": ["a", 7]}, "#a #7"),
        ({"ratings": {"overall": {"a": 1}}}, "overall {'a': 1}"),
    ],
)
def test_odd_entries_of_other_tools_are_shown_as_far_as_they_go(
    lab: Lab, tmp_path: Path, odd: dict[str, Any], says: str
) -> None:
    """Another tool writes other types: the review ends all the same."""
    task = review_task(lab, make_run(tmp_path))
    assert lab.session.task is not None
    about = {"runId": lab.session.task["runId"], "sessionId": "lab_mine"}
    Journal(lab.paths.feedback).append({"id": "fb_x", "createdAt": "x", **about, **odd})
    result = task.result()
    assert result is not None
    assert next(iter(task.lines(result))) == says


@pytest.mark.parametrize(
    "asked",
    [
        ComparisonDetails(questions=["Faster?"]),
        ComparisonDetails(questions=["text:Better?"]),
        ComparisonDetails(questions=["Better?", "Faster?"]),
        ComparisonDetails(name="other"),
        ComparisonDetails(hypothesis="other"),
        ComparisonDetails(topic="other"),
    ],
)
def test_other_words_are_another_comparison(
    lab: Lab, tmp_path: Path, asked: ComparisonDetails, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other questions about the same runs make a new comparison, and a message says so."""
    places = [make_run(tmp_path, name) for name in ("a", "b")]
    words = ComparisonDetails(name="n", hypothesis="h", topic="t", questions=["Better?"])
    first = compare_task(lab, places, words)
    assert compare_task(make_lab(tmp_path, "lab_mine"), places, words).page == first.page
    assert (
        compare_task(make_lab(tmp_path, "lab_mine"), places, ComparisonDetails()).page == first.page
    )
    assert capsys.readouterr().err == ""
    left = experiment_of(lab)
    lab = make_lab(tmp_path, "lab_mine")
    assert compare_task(lab, places, asked).page != first.page
    assert f"{left} has other questions" in capsys.readouterr().err
    made = lab.experiment(experiment_of(lab))
    assert [each["prompt"] for each in made.questions] == [
        each.removeprefix("text:") for each in asked.questions
    ]


@pytest.mark.parametrize("kind", ["compare", "review"])
def test_a_finished_task_leaves_the_task_of_another_command(
    lab: Lab, tmp_path: Path, kind: str
) -> None:
    """Two commands share a session: the first to end forgets its own task and no other."""
    places = [make_run(tmp_path, name) for name in ("a", "b", "c")]
    first = (
        compare_task(lab, places[:2], ComparisonDetails())
        if kind == "compare"
        else review_task(lab, places[0])
    )
    other = make_lab(tmp_path, "lab_mine")
    second = compare_task(other, places, ComparisonDetails())
    first.forget()
    assert open_session(lab.paths, "lab_mine").task == other.session.task
    second.forget()
    assert open_session(lab.paths, "lab_mine").task is None


def test_a_task_of_an_earlier_version_goes_on(lab: Lab, tmp_path: Path) -> None:
    """It did not note what was there before; an entry after its position is its answer."""
    place = make_run(tmp_path)
    run_id = lab.import_run(str(place)).run_id
    lab.add_feedback(NewFeedback(runId=run_id, notes="before"))
    since, tag = Journal(lab.paths.feedback).end()
    stored = {"type": "review", "runId": run_id, "since": since, "tag": tag}
    lab.session = save_task(lab.paths, lab.session, stored)
    lab.add_feedback(NewFeedback(runId=run_id, notes="now"))
    result = review_task(lab, place).result()
    assert result is not None
    assert [entry["notes"] for entry in result["feedback"]] == ["now"]
