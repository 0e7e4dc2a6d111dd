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
from onceward.lab.artifacts import RECOGNISED, RunDirectory
from onceward.lab.metrics import Metrics
from tests.unit.lab.run_places import SECRET, Opener, here, look, problems, put, root

__all__ = ["here", "look", "root"]


KNOWN = (
    *("script.json", "timestamps.json", "visuals.json", "score.json", "sync-report.json"),
    *("caption-report.json", "caption-quality.json", "caption-settings.json"),
)


# --- where a run may lie ----------------------------------------------------------------------


def test_only_runs_below_an_allowed_root_are_opened(root: Path, here: Path, tmp_path: Path) -> None:
    """Outside is refused alike, there or not; inside, what is missing is missing."""
    (tmp_path / "rooted").mkdir()
    (root / "door").symlink_to(tmp_path)
    for path in (tmp_path / "rooted", tmp_path / "none", tmp_path, root / "door", Path("/etc")):
        with pytest.raises(RequestRefused) as caught:
            RunDirectory.open(path, [root])
        assert str(path) not in str(caught.value.to_dict())
    with pytest.raises(RequestRefused):
        RunDirectory.open(here, [])
    with pytest.raises(FileMissing):
        RunDirectory.open(root / "none", [root])
    put(here / "script.json")
    with pytest.raises(WrongPath):
        RunDirectory.open(here / "script.json", [root])
    with pytest.raises(InvalidArgument):
        RunDirectory.open(Path("a\0"), [root])
    with RunDirectory.open(here, [tmp_path / "other", root]) as run:
        assert run.path == here


def test_a_run_is_known_by_its_real_path(root: Path, here: Path) -> None:
    """A link to a run inside the root opens the run itself."""
    (root / "latest").symlink_to("run")
    with RunDirectory.open(root / "latest", [root]) as run:
        assert run.path == here


# --- what is recognised -------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*KNOWN, "score-attempt3.json", "video.mp4", "a.webm", "b.MP4"])
def test_a_known_file_makes_a_run(here: Path, look: Opener, name: str) -> None:
    """Any one artifact or video is enough."""
    assert not look().is_recognisable()
    put(here / name, b"broken")
    assert look().is_recognisable()


def test_other_files_make_no_run(here: Path, look: Opener, tmp_path: Path) -> None:
    """Unknown names, links and directories are nothing to judge."""
    for name in ("notes.txt", "script.txt", "score-attempt0.json", "score-attempt.json"):
        put(here / name)
    (here / "script.json").symlink_to(tmp_path / "secret.json")
    (here / "video.mp4").symlink_to(tmp_path / "secret.json")
    (here / "score.json").mkdir()
    assert not look().is_recognisable()
    put(here / "lab.json", {"title": "only a title"})
    assert not look().is_recognisable()
    put(here / "lab.json", {"files": ["notes.txt"]})
    assert look().is_recognisable()


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
    here: Path, look: Opener, script: object, manifest: object, topic: str | None
) -> None:
    """The first that says something counts."""
    put(here / "script.json", script)
    if manifest is not None:
        put(here / "lab.json", manifest)
    assert look().topic() == topic


def test_metrics_are_read_from_the_reports(here: Path, look: Opener) -> None:
    """Sync, captions and score give their numbers."""
    put(here / "sync-report.json", {"rating": 80, "metrics": {"meanDriftMs": 4}})
    put(here / "score.json", {"overall": 0.5})
    put(here / "caption-quality.json", {"captionQuality": {"overall": {"score": 0.25}}})
    expected = Metrics(
        sync_rating=80, mean_drift_ms=4, proxy_score_overall=50.0, caption_overall=25.0
    )
    assert look().metrics() == expected
    put(here / "caption-report.json", {"captionQuality": {"overall": {"score": 0.75}}})
    assert look().metrics().caption_overall == 75.0
    assert look().reports() == {
        "syncReportPath": str(here / "sync-report.json"),
        "captionReportPath": str(here / "caption-report.json"),
        "scorePath": str(here / "score.json"),
    }


def test_the_highest_attempt_counts_when_there_is_no_final_one(here: Path, look: Opener) -> None:
    """Ten is more than nine; leading zeros are another file; the plain name wins."""
    for attempt, overall in (("1", 0.1), ("9", 0.9), ("10", 0.2), ("011", 0.3)):
        put(here / f"score-attempt{attempt}.json", {"overall": overall})
    put(here / "visuals-attempt99.json", {"overall": 1})
    assert look().metrics().proxy_score_overall == 20.0
    assert look().reports() == {"scorePath": str(here / "score-attempt10.json")}
    put(here / "score.json", {"overall": 0.7})
    assert look().metrics().proxy_score_overall == 70.0


def test_a_run_without_reports_has_none(look: Opener) -> None:
    """Absence is no error."""
    run = look()
    assert (run.metrics(), run.reports(), run.topic()) == (Metrics(), {}, None)
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
def test_a_broken_artifact_is_shown_as_such(here: Path, look: Opener, what: str) -> None:
    """It is null, its problem is a sentence, and all the rest is there."""
    data, problem = BROKEN[what]
    for name in ("score.json", "script.json", "sync-report.json"):
        put(here / name, data)
    put(here / "visuals.json", {"fine": [1]})
    run = look()
    content = run.content()
    assert content["score"] is content["script"] is None
    assert content["visuals"] == {"fine": [1]}
    assert set(problems(run)) == {"score.json", "script.json", "sync-report.json"}
    assert all(problem in each for each in problems(run).values())
    assert run.metrics() == Metrics()
    assert run.topic() is None
    assert run.reports()["scorePath"] == str(here / "score.json")


def test_an_artifact_of_the_largest_size_is_read(here: Path, look: Opener) -> None:
    """Eight mebibytes are still fine."""
    put(here / "score.json", b" " * (8 * 1024 * 1024 - 1) + b"1")
    assert look().content()["score"] == 1


def test_links_in_place_of_artifacts_are_refused(here: Path, look: Opener, tmp_path: Path) -> None:
    """Nothing comes through a link, and the page is told; an attempt does not take its place."""
    for name in (*KNOWN, "lab.json", "video.mp4"):
        (here / name).symlink_to(tmp_path / "secret.json")
    put(here / "score-attempt1.json", {"overall": 1})
    run = look()
    assert b"secret" not in json.dumps(run.content()).encode()
    assert "is a link" in problems(run)["script.json"]
    assert "is a link" in problems(run)["lab.json"]
    assert "is a link" in problems(run)["video.mp4"]
    assert (run.topic(), run.metrics(), run.reports()) == (None, Metrics(), {})
    for name in KNOWN:
        with pytest.raises(WrongPath):
            run.open_artifact(name)
    with pytest.raises(FileMissing):
        run.open_video()


# --- content ------------------------------------------------------------------------------------


def test_content_holds_what_the_pages_show(here: Path, look: Opener) -> None:
    """Artifacts parsed, files with their state, problems; all of it JSON."""
    put(here / "script.json", {"scenes": [1, 2]})
    put(here / "timestamps-attempt2.json", [0, 1.5])
    put(here / "sync-report.json", {"rating": 1})
    put(here / "caption-quality.json", {"captionQuality": {}})
    put(here / "answer.md", b"# Hello")
    put(here / "out" / "x.txt", b"text")
    (here / "dir.txt").mkdir()
    (here / "planted.txt").symlink_to("answer.md")
    files = ["answer.md", {"path": "out/x.txt", "label": "X"}, "none.txt", "dir.txt", "planted.txt"]
    put(here / "lab.json", {"files": [*files, "../x.txt"]})
    run = look()
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
    here: Path, look: Opener, name: str, kind: str
) -> None:
    """Known names and declared ones are opened, with how to show them."""
    put(here / name, b"content")
    put(here / "lab.json", {"files": ["answer.md", "out/x.txt", "out/x.png"]})
    file, found = look().open_artifact(name)
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
def test_no_other_file_is_served(here: Path, look: Opener, name: str) -> None:
    """What is neither known nor declared is not found, there or not."""
    for each in ("script.json", "private.txt", "video.mp4", "score-attempt01.json"):
        put(here / each)
    put(here / "lab.json", {"files": ["answer.md"]})
    with pytest.raises(NotFound):
        look().open_artifact(name)


def test_an_allowed_file_that_is_missing_is_missing(here: Path, look: Opener) -> None:
    """A known or declared name without a file says so."""
    put(here / "lab.json", {"files": ["answer.md"]})
    for name in ("score.json", "score-attempt7.json", "answer.md"):
        with pytest.raises(FileMissing):
            look().open_artifact(name)


# --- under attack -------------------------------------------------------------------------------


def test_h12_swapping_links_never_shows_what_lies_outside(
    root: Path, here: Path, tmp_path: Path, prove: bool
) -> None:
    """While files and the run itself turn into links and back, no read brings the secret."""
    put(tmp_path / "evil" / "script.json", SECRET)
    put(tmp_path / "evil" / "answer.md", SECRET)
    put(tmp_path / "evil" / "lab.json", {"title": "secret", "files": ["answer.md"]})
    put(here / "script.json", {"title": "ours"})
    put(here / "answer.md", b"ours")
    put(here / "lab.json", {"title": "ours", "files": ["answer.md"]})
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for place in (here / "script.json", here / "answer.md", here):
                evil = tmp_path / "evil"
                (tmp_path / "planted").symlink_to(evil if place == here else evil / place.name)
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
                RunDirectory.open(here, [root]) as run,
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
