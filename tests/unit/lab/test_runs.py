"""Runs: a directory is the same run as long as its content is the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from onceward.errors import (
    Conflict,
    FileMissing,
    InvalidArgument,
    InvalidCursor,
    NotFound,
    RequestRefused,
    WrongPath,
)
from onceward.journal import Journal
from onceward.lab.lab import Lab
from onceward.lab.request_models import NewFeedback, Ratings
from tests.support.labs import make_lab, make_run


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return make_lab(tmp_path)


def test_import_of_an_unchanged_directory_gives_the_same_run(tmp_path: Path, lab: Lab) -> None:
    """By the directory, a file in it, a link to it or another process: one run id."""
    place = make_run(tmp_path)
    run = lab.import_run(str(place))
    (tmp_path / "link").symlink_to(place)
    names = [str(place), f"{place}/", str(place / "script.json"), str(tmp_path / "link")]
    assert {lab.import_run(name).run_id for name in names} == {run.run_id}
    assert make_lab(tmp_path).import_run(str(place)).run_id == run.run_id
    assert len(Journal(lab.paths.runs).read().items) == 1


def test_a_changed_directory_is_a_new_run_that_supersedes_the_old(tmp_path: Path, lab: Lab) -> None:
    """Overwritten output is not taken for the same run, and its history stays visible."""
    place = make_run(tmp_path)
    old = lab.import_run(str(place))
    make_run(tmp_path, topic="dogs, many of them")
    new = lab.import_run(str(place))
    assert new.run_id != old.run_id
    assert (new.supersedes_run_id, old.supersedes_run_id) == (old.run_id, None)
    assert (old.topic, new.topic) == ("cats", "dogs, many of them")
    assert lab.import_run(str(place)).run_id == new.run_id


def test_the_line_of_a_run_has_its_keys_in_order_and_no_empty_ones(
    tmp_path: Path, lab: Lab
) -> None:
    """Other tools read the file: names, order and forms are fixed."""
    place = make_run(tmp_path, sync_report={"rating": 8, "metrics": {"meanDriftMs": 12.5}})
    (place / "video.mp4").write_bytes(b"not a film")
    run = lab.import_run(str(place / "video.mp4"))
    (line,) = Journal(lab.paths.runs).read().items
    assert list(line) == [
        *("schemaVersion", "runId", "sessionId", "createdAt", "topic", "artifactsDir"),
        *("artifactsDirRealpath", "fingerprint", "videoPath", "reports", "autoMetricsSummary"),
    ]
    assert line["runId"].startswith("run_")
    assert line["videoPath"] == str(place / "video.mp4")
    assert list(line["fingerprint"]) == ["video", "script"]
    assert list(line["fingerprint"]["video"]) == ["path", "sizeBytes", "mtimeMs"]
    assert line["reports"] == {"syncReportPath": str(place / "sync-report.json")}
    assert line["autoMetricsSummary"]["syncRating"] == 8
    assert line["createdAt"][10] == "T"
    assert line["createdAt"].endswith("Z")
    assert run.session_id == lab.session.session_id


def test_h12_a_path_outside_the_roots_is_refused_and_reveals_nothing(
    tmp_path: Path, lab: Lab
) -> None:
    """Whether the path exists, is a link, or has dots in it, the answer is the same."""
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (outside / "script.json").write_text("{}")
    (tmp_path / "out").symlink_to(outside)
    (tmp_path / "dangling").symlink_to(outside / "none")
    answers = set()
    for path in (
        *(outside, outside / "script.json", outside / "none", tmp_path / "out"),
        *(tmp_path / "dangling", f"{tmp_path}/../{outside.name}", "/", "/etc/shadow", "~root"),
    ):
        with pytest.raises(RequestRefused) as refused:
            lab.import_run(str(path))
        answers.add((type(refused.value), refused.value.message, refused.value.fix))
    assert len(answers) == 1


def test_what_cannot_be_imported_is_explained(tmp_path: Path, lab: Lab) -> None:
    """Missing, empty and unreadable names get an answer that says what to do."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidArgument, match="has no file that the Lab can show") as refused:
        lab.import_run(str(tmp_path / "empty"))
    assert "script.json" in refused.value.fix
    assert "lab.json" in refused.value.fix
    with pytest.raises(FileMissing):
        lab.import_run(str(tmp_path / "none"))
    with pytest.raises(WrongPath):
        lab.import_run(str(tmp_path / ("x" * 300)))
    for path in ("", "a\0b", "\ud800"):
        with pytest.raises((InvalidArgument, RequestRefused)):
            lab.import_run(path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidArgument.__mro__[1]):
        lab.import_run(str(tmp_path / "pipe"))
    assert not lab.paths.runs.exists()


def test_runs_come_newest_first_in_pages(tmp_path: Path, lab: Lab) -> None:
    """Pages neither repeat nor skip, also when runs arrive in between."""
    made = [lab.import_run(str(make_run(tmp_path, f"r{each}"))).run_id for each in range(7)]
    first = lab.runs(limit=3)
    lab.import_run(str(make_run(tmp_path, "later")))
    seen, cursor = [each.run.run_id for each in first.items], first.next_cursor
    while cursor:
        page = lab.runs(limit=3, cursor=cursor)
        seen += [each.run.run_id for each in page.items]
        cursor = page.next_cursor
    assert seen == made[::-1]
    with pytest.raises(InvalidCursor):
        lab.runs(cursor="x")
    with pytest.raises(InvalidArgument):
        lab.runs(limit=0)


def test_the_latest_overall_rating_is_shown(tmp_path: Path, lab: Lab) -> None:
    """From any person and any session, also when another tool wrote it."""
    run = lab.import_run(str(make_run(tmp_path)))
    assert lab.run(run.run_id).last_overall is None
    make_lab(tmp_path).add_feedback(NewFeedback(runId=run.run_id, ratings=Ratings(overall=40)))
    assert lab.run(run.run_id).last_overall == 40
    theirs = {"id": "x", "createdAt": "t", "runId": run.run_id, "ratings": {"overall": 90}}
    Journal(lab.paths.feedback).append(theirs, {**theirs, "ratings": {"overall": "best"}})
    assert lab.runs().items[0].last_overall == 90


def test_metrics_are_those_of_now_and_else_those_of_the_import(tmp_path: Path, lab: Lab) -> None:
    """The report changed after the import, then the directory went away."""
    place = make_run(tmp_path, score={"overall": 0.5})
    run = lab.import_run(str(place))
    make_run(tmp_path, score={"overall": 0.75})
    assert lab.run(run.run_id).metrics.proxy_score_overall == 75
    place.rename(tmp_path / "gone")
    assert lab.run(run.run_id).metrics.proxy_score_overall == 50
    with pytest.raises(FileMissing):
        lab.directory(run)


def test_an_overwritten_run_is_not_judged_by_its_successor(tmp_path: Path, lab: Lab) -> None:
    """What is there now is another run: the old one keeps the metrics of its import."""
    old = lab.import_run(str(make_run(tmp_path, topic="old", score={"overall": 0.1})))
    make_run(tmp_path, topic="the new one", score={"overall": 0.9})
    assert lab.run(old.run_id).metrics.proxy_score_overall == 10
    with pytest.raises(Conflict, match="overwritten"):
        lab.directory(old)
    lab.add_feedback(NewFeedback(runId=old.run_id, notes="x"))
    assert lab.poll().items[0]["autoMetricsSnapshot"] == {"proxyScoreOverall": 10}


def test_a_run_outside_the_roots_of_this_server_is_listed_and_not_read(tmp_path: Path) -> None:
    """It was imported when the roots were others."""
    run = make_lab(tmp_path).import_run(str(make_run(tmp_path)))
    other = Lab(paths=make_lab(tmp_path).paths, session=make_lab(tmp_path).session)
    assert other.runs().items[0].run.run_id == run.run_id
    with pytest.raises(RequestRefused):
        other.directory(run)


def test_a_video_in_a_subdirectory_is_found_again(tmp_path: Path, lab: Lab) -> None:
    """What `lab.json` names at the import is what is played later."""
    place = make_run(tmp_path, lab={"video": "out/film.mp4"})
    (place / "out").mkdir()
    (place / "out" / "film.mp4").write_bytes(b"film")
    run = lab.import_run(str(place))
    assert run.video_path == str(place / "out" / "film.mp4")
    with lab.directory(run) as directory, directory.open_video() as file:
        assert file.read(0, 10) == b"film"


def test_unknown_and_broken_runs_are_not_there(tmp_path: Path, lab: Lab) -> None:
    """Lines that are no runs are passed over; a replaced file is read again."""
    Journal(lab.paths.runs).append({"runId": 5}, {"x": 1})
    with pytest.raises(NotFound):
        lab.run("run_none")
    run = lab.import_run(str(make_run(tmp_path)))
    lab.paths.runs.unlink()
    assert lab.runs().items == []
    assert lab.import_run(str(make_run(tmp_path))).run_id != run.run_id
