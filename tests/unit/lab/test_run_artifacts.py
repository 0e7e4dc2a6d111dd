"""Run directories: what is found, what is shown, and what is refused."""

import json
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from onceward.errors import (
    FileMissing,
    InvalidArgument,
    NotFound,
    RequestRefused,
    StorageError,
    WrongPath,
)
from onceward.lab.run_artifacts import RECOGNISED, RunDirectory
from onceward.lab.run_metrics import RunMetrics
from tests.support.lab_run_directories import (
    SECRET,
    Opener,
    open_run,
    problems,
    root,
    run_path,
    write_file,
)

__all__ = ["open_run", "root", "run_path"]


KNOWN = (
    *("script.json", "timestamps.json", "visuals.json", "score.json", "sync-report.json"),
    *("caption-report.json", "caption-quality.json", "caption-settings.json"),
)


# --- where a run may lie ----------------------------------------------------------------------


def test_only_runs_below_an_allowed_root_are_opened(
    root: Path, run_path: Path, tmp_path: Path
) -> None:
    """Outside is refused alike, there or not; inside, what is missing is missing."""
    (tmp_path / "rooted").mkdir()
    (root / "door").symlink_to(tmp_path)
    for path in (tmp_path / "rooted", tmp_path / "none", tmp_path, root / "door", Path("/etc")):
        with pytest.raises(RequestRefused) as caught:
            RunDirectory.open(path, [root])
        assert str(path) not in str(caught.value.to_dict())
    with pytest.raises(RequestRefused):
        RunDirectory.open(run_path, [])
    with pytest.raises(FileMissing):
        RunDirectory.open(root / "none", [root])
    write_file(run_path / "script.json")
    with pytest.raises(WrongPath):
        RunDirectory.open(run_path / "script.json", [root])
    with pytest.raises(InvalidArgument):
        RunDirectory.open(Path("a\0"), [root])
    with RunDirectory.open(run_path, [tmp_path / "other", root]) as run:
        assert run.path == run_path


def test_a_run_is_known_by_its_real_path(root: Path, run_path: Path) -> None:
    """A link to a run inside the root opens the run itself."""
    (root / "latest").symlink_to("run")
    with RunDirectory.open(root / "latest", [root]) as run:
        assert run.path == run_path


# --- what is recognised -------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*KNOWN, "score-attempt3.json", "video.mp4", "a.webm", "b.MP4"])
def test_a_known_file_makes_a_run(run_path: Path, open_run: Opener, name: str) -> None:
    """Any one artifact or video is enough."""
    assert not open_run().is_recognisable()
    write_file(run_path / name, b"broken")
    assert open_run().is_recognisable()


def test_other_files_make_no_run(run_path: Path, open_run: Opener, tmp_path: Path) -> None:
    """Unknown names, links and directories are nothing to judge."""
    for name in ("notes.txt", "script.txt", "score-attempt0.json", "score-attempt.json"):
        write_file(run_path / name)
    (run_path / "script.json").symlink_to(tmp_path / "secret.json")
    (run_path / "video.mp4").symlink_to(tmp_path / "secret.json")
    (run_path / "score.json").mkdir()
    assert not open_run().is_recognisable()
    write_file(run_path / "lab.json", {"title": "only a title"})
    assert not open_run().is_recognisable()
    write_file(run_path / "lab.json", {"files": ["notes.txt"]})
    assert open_run().is_recognisable()


def test_what_would_be_recognised_can_be_listed() -> None:
    """The list for people names the artifacts, the video and the manifest."""
    assert (*KNOWN, "video.mp4", "lab.json") == RECOGNISED


# --- topic and metrics --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "manifest", "topic"),
    [
        ({"meta": {"topic": "A"}, "metadata": {"topic": "B"}, "title": "C"}, None, "A"),
        ({"meta": {"topic": ""}, "metadata": {"topic": "B"}, "title": "C"}, None, "B"),
        ({"meta": {"topic": 7}, "metadata": "B", "title": " C "}, None, "C"),
        ({"meta": None}, None, None),
        ([], None, None),
        ("text", None, None),
        ({"title": "C"}, {"topic": "D", "title": "E"}, "C"),
        ({}, {"topic": "D", "title": "E"}, "D"),
        (None, {"title": "E"}, "E"),
        (None, None, None),
        ({"title": "x" * 9000}, None, "x" * 500),
    ],
)
def test_the_topic_comes_from_the_script_else_the_manifest(
    run_path: Path, open_run: Opener, script: object, manifest: object, topic: str | None
) -> None:
    """The first that says something counts."""
    write_file(run_path / "script.json", script)
    if manifest is not None:
        write_file(run_path / "lab.json", manifest)
    assert open_run().topic() == topic


def test_metrics_are_read_from_the_reports(run_path: Path, open_run: Opener) -> None:
    """Sync, captions and score give their numbers."""
    write_file(run_path / "sync-report.json", {"rating": 80, "metrics": {"meanDriftMs": 4}})
    write_file(run_path / "score.json", {"overall": 0.5})
    write_file(run_path / "caption-quality.json", {"captionQuality": {"overall": {"score": 0.25}}})
    expected = RunMetrics(
        sync_rating=80, mean_drift_ms=4, proxy_score_overall=50.0, caption_overall=25.0
    )
    assert open_run().metrics() == expected
    write_file(run_path / "caption-report.json", {"captionQuality": {"overall": {"score": 0.75}}})
    assert open_run().metrics().caption_overall == 75.0
    assert open_run().reports() == {
        "syncReportPath": str(run_path / "sync-report.json"),
        "captionReportPath": str(run_path / "caption-report.json"),
        "scorePath": str(run_path / "score.json"),
    }


def test_the_highest_attempt_counts_when_there_is_no_final_one(
    run_path: Path, open_run: Opener
) -> None:
    """Ten is more than nine; leading zeros are another file; the plain name wins."""
    for attempt, overall in (("1", 0.1), ("9", 0.9), ("10", 0.2), ("011", 0.3)):
        write_file(run_path / f"score-attempt{attempt}.json", {"overall": overall})
    write_file(run_path / "visuals-attempt99.json", {"overall": 1})
    assert open_run().metrics().proxy_score_overall == 20.0
    assert open_run().reports() == {"scorePath": str(run_path / "score-attempt10.json")}
    write_file(run_path / "score.json", {"overall": 0.7})
    assert open_run().metrics().proxy_score_overall == 70.0


def test_a_run_without_reports_has_none(open_run: Opener) -> None:
    """Absence is no error."""
    run = open_run()
    assert (run.metrics(), run.reports(), run.topic()) == (RunMetrics(), {}, None)
    assert run.content() == {
        "script": None,
        "timestamps": None,
        "visuals": None,
        "score": None,
        "reports": {"sync": None, "caption": None},
        "prompt": None,
        "files": [],
        "problems": [],
    }


BROKEN = {
    "cut off": (b'{"overall": ', "is not valid JSON"),
    "empty": (b"", "is not valid JSON"),
    "not utf-8": (b'{"overall": "\xff"}', "is not valid JSON"),
    "nan": (b'{"overall": NaN}', "is not valid JSON"),
    "infinite": (b'{"overall": 1e999}', "is not valid JSON"),
    "a bomb": (b"[" * 1_000_000, "is not valid JSON"),
    "deep": (b"[" * 900 + b"]" * 900, "is nested more than 100 levels deep"),
    "large": (b" " * (8 * 1024 * 1024) + b"1", "is larger than 8 MiB"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_artifact_is_shown_as_such(run_path: Path, open_run: Opener, what: str) -> None:
    """It is null, its problem is a sentence, and all the rest is there."""
    data, problem = BROKEN[what]
    for name in ("score.json", "script.json", "sync-report.json"):
        write_file(run_path / name, data)
    write_file(run_path / "visuals.json", {"fine": [1]})
    run = open_run()
    content = run.content()
    assert content["score"] is content["script"] is None
    assert content["visuals"] == {"fine": [1]}
    assert set(problems(run)) == {"score.json", "script.json", "sync-report.json"}
    assert all(problem in each for each in problems(run).values())
    assert run.metrics() == RunMetrics()
    assert run.topic() is None
    assert run.reports()["scorePath"] == str(run_path / "score.json")


def test_an_artifact_of_the_largest_size_is_read(run_path: Path, open_run: Opener) -> None:
    """Eight mebibytes are still fine."""
    write_file(run_path / "score.json", b" " * (8 * 1024 * 1024 - 1) + b"1")
    assert open_run().content()["score"] == 1


def test_links_in_place_of_artifacts_are_refused(
    run_path: Path, open_run: Opener, tmp_path: Path
) -> None:
    """Nothing is read through a link, and the page shows the problem; no attempt replaces it."""
    for name in (*KNOWN, "lab.json", "video.mp4"):
        (run_path / name).symlink_to(tmp_path / "secret.json")
    write_file(run_path / "score-attempt1.json", {"overall": 1})
    run = open_run()
    assert b"secret" not in json.dumps(run.content()).encode()
    assert "is a link" in problems(run)["script.json"]
    assert "is a link" in problems(run)["lab.json"]
    assert "is a link" in problems(run)["video.mp4"]
    assert (run.topic(), run.metrics(), run.reports()) == (None, RunMetrics(), {})
    for name in KNOWN:
        with pytest.raises(WrongPath):
            run.open_artifact(name)
    with pytest.raises(FileMissing):
        run.open_video()


# --- content ------------------------------------------------------------------------------------


def test_content_holds_what_the_pages_show(run_path: Path, open_run: Opener) -> None:
    """Artifacts parsed, files with their state, problems; all of it JSON."""
    write_file(run_path / "script.json", {"scenes": [1, 2]})
    write_file(run_path / "timestamps-attempt2.json", [0, 1.5])
    write_file(run_path / "sync-report.json", {"rating": 1})
    write_file(run_path / "caption-quality.json", {"captionQuality": {}})
    write_file(run_path / "answer.md", b"# Hello")
    write_file(run_path / "out" / "x.txt", b"text")
    (run_path / "dir.txt").mkdir()
    (run_path / "planted.txt").symlink_to("answer.md")
    files = ["answer.md", {"path": "out/x.txt", "label": "X"}, "none.txt", "dir.txt", "planted.txt"]
    write_file(run_path / "lab.json", {"files": [*files, "../x.txt"]})
    run = open_run()
    content: Any = json.loads(json.dumps(run.content(), allow_nan=False))
    assert content["script"] == {"scenes": [1, 2]}
    assert content["timestamps"] == [0, 1.5]
    assert content["visuals"] is None
    assert content["reports"] == {"sync": {"rating": 1}, "caption": {"captionQuality": {}}}
    names = ("name", "label", "kind", "sizeBytes", "state")
    assert [tuple(each[name] for name in names) for each in content["files"]] == [
        ("answer.md", "answer.md", "markdown", 7, "ok"),
        ("out/x.txt", "X", "text", 4, "ok"),
        ("none.txt", "none.txt", "text", None, "missing"),
        ("dir.txt", "dir.txt", "text", None, "refused"),
        ("planted.txt", "planted.txt", "text", None, "refused"),
    ]
    assert set(problems(run)) == {"lab.json", "dir.txt", "planted.txt"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("script.json", "json"),
        ("caption-settings.json", "json"),
        ("score-attempt1.json", "json"),
        ("answer.md", "markdown"),
        ("out/x.txt", "text"),
        ("out/x.png", "image"),
    ],
)
def test_allowed_and_declared_files_are_served(
    run_path: Path, open_run: Opener, name: str, kind: str
) -> None:
    """Known names and declared ones are opened, with how to show them."""
    write_file(run_path / name, b"content")
    write_file(run_path / "lab.json", {"files": ["answer.md", "out/x.txt", "out/x.png"]})
    file, found = open_run().open_artifact(name)
    with file:
        assert (file.read(0, 100), found) == (b"content", kind)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            ".",
            "..",
            "lab.json",
            "private.txt",
            "../secret.json",
            "/etc/passwd",
            "script.json/",
        ),
        *("./script.json", "out/../script.json", "script.json\0", "SCRIPT.json", "script.json\n"),
        *(
            "score-attempt0.json",
            "score-attempt01.json",
            "score-attempt-1.json",
            "score-attempt.json",
        ),
        *("score-attempt٣.json", "score-attempt1.json.bak", "xscore.json", "video.mp4", "a\ud800"),
        *("score-attempt" + "9" * 5000 + ".json", "..%2fsecret.json", "..\\secret.json"),
    ],
)
def test_no_other_file_is_served(run_path: Path, open_run: Opener, name: str) -> None:
    """What is neither known nor declared is not found, there or not."""
    for each in ("script.json", "private.txt", "video.mp4", "score-attempt01.json"):
        write_file(run_path / each)
    write_file(run_path / "lab.json", {"files": ["answer.md"]})
    with pytest.raises(NotFound):
        open_run().open_artifact(name)


def test_an_allowed_file_that_is_missing_is_missing(run_path: Path, open_run: Opener) -> None:
    """A known or declared name without a file says so."""
    write_file(run_path / "lab.json", {"files": ["answer.md"]})
    for name in ("score.json", "score-attempt7.json", "answer.md"):
        with pytest.raises(FileMissing):
            open_run().open_artifact(name)


# --- under attack -------------------------------------------------------------------------------


def test_h12_swapping_links_never_shows_what_lies_outside(
    root: Path, run_path: Path, tmp_path: Path, prove: bool
) -> None:
    """While files and the run itself turn into links and back, no read brings the secret."""
    write_file(tmp_path / "evil" / "script.json", SECRET)
    write_file(tmp_path / "evil" / "answer.md", SECRET)
    write_file(tmp_path / "evil" / "lab.json", {"title": "secret", "files": ["answer.md"]})
    write_file(run_path / "script.json", {"title": "ours"})
    write_file(run_path / "answer.md", b"ours")
    write_file(run_path / "lab.json", {"title": "ours", "files": ["answer.md"]})
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for place in (run_path / "script.json", run_path / "answer.md", run_path):
                evil = tmp_path / "evil"
                (tmp_path / "planted").symlink_to(evil if place == run_path else evil / place.name)
                place.rename(tmp_path / "aside")
                (tmp_path / "planted").rename(place)
                place.unlink()
                (tmp_path / "aside").rename(place)

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen = 0
    try:
        for _ in range(20_000 if prove else 1500):
            with (
                suppress(StorageError, RequestRefused),
                RunDirectory.open(run_path, [root]) as run,
            ):
                assert run.topic() in ("ours", None)
                assert "secret" not in json.dumps([run.content(), run.fingerprint()])
                file, _kind = run.open_artifact("answer.md")
                with file:
                    assert file.read(0, 100) == b"ours"
                    seen += 1
    finally:
        stop.set()
        swapper.join()
    assert seen > 0
