"""Runs over HTTP: import, list, and show, also when their directory has changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from onceward.lab import response_models
from tests.support.lab_http_client import Site, body_of, error_of
from tests.support.labs import make_lab, make_run


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_an_import_answers_the_run(site: Site, tmp_path: Path) -> None:
    """A directory, and a file in it, are the same run as long as nothing in it changes."""
    place = make_run(tmp_path)
    first = body_of(
        site.post("/api/runs/import", {"path": str(place)}), response_models.ImportedRun
    )
    again = body_of(
        site.post("/api/runs/import", {"path": str(place / "script.json")}),
        response_models.ImportedRun,
    )
    assert first == again


def test_an_import_from_outside_the_roots_reveals_nothing(site: Site) -> None:
    """What lies outside the roots is refused alike, whether it exists or not."""
    real = site.post("/api/runs/import", {"path": "/etc"})
    unreal = site.post("/api/runs/import", {"path": "/no/such/place"})
    assert error_of(real)[:2] == (403, "FORBIDDEN")
    assert real.content == unreal.content


def test_an_import_without_known_files_lists_the_known_names(site: Site, tmp_path: Path) -> None:
    """The caller learns which files to put there."""
    (tmp_path / "empty").mkdir()
    status, code, context = error_of(
        site.post("/api/runs/import", {"path": str(tmp_path / "empty")})
    )
    assert (status, code) == (400, "INVALID_ARGUMENT")
    assert "script.json" in context["fix"]


def test_an_import_of_a_missing_directory_is_404(site: Site, tmp_path: Path) -> None:
    """Inside the roots it is safe to say that something is missing."""
    response = site.post("/api/runs/import", {"path": str(tmp_path / "nope")})
    assert error_of(response)[:2] == (404, "FILE_NOT_FOUND")


def test_runs_are_listed_newest_first_and_paged(site: Site, tmp_path: Path) -> None:
    """Following `nextCursor` gives every run once, the last import first."""
    ids = [site.lab.import_run(str(make_run(tmp_path, f"r{n}"))).run_id for n in range(5)]
    seen, cursor = [], None
    for _ in range(3):
        parameters = {"limit": 2, **({"cursor": cursor} if cursor else {})}
        page = body_of(site.get("/api/runs", params=parameters), response_models.LabRunPage)
        seen += [each["runId"] for each in page["items"]]
        cursor = page["nextCursor"]
    assert seen == ids[::-1]
    assert cursor is None


def test_a_run_shows_what_it_is_and_how_it_was_rated(site: Site, tmp_path: Path) -> None:
    """All fields are there, null where nothing is known, and the last overall rating."""
    place = make_run(tmp_path, score={"overall": 0.5})
    run = site.lab.import_run(str(place))
    site.post("/api/feedback", {"runId": run.run_id, "ratings": {"overall": 40}})
    site.post("/api/feedback", {"runId": run.run_id, "ratings": {"overall": 70}})
    (item,) = body_of(site.get("/api/runs"), response_models.LabRunPage)["items"]
    assert item == {
        "runId": run.run_id,
        "sessionId": site.lab.session.session_id,
        "createdAt": run.created_at,
        "topic": "cats",
        "artifactsDir": str(place),
        "videoPath": None,
        "supersedesRunId": None,
        "autoMetricsSummary": {
            "syncRating": None,
            "syncLabel": None,
            "meanDriftMs": None,
            "maxDriftMs": None,
            "captionOverall": None,
            "captionCoverageRatio": None,
            "ocrConfidenceMean": None,
            "proxyScoreOverall": 50.0,
        },
        "lastOverall": 70,
    }
    detail = body_of(site.get(f"/api/runs/{run.run_id}"), response_models.RunDetail)
    assert {name: detail[name] for name in item} == item
    assert detail["artifacts"]["script"] == {"meta": {"topic": "cats"}}
    assert detail["artifacts"]["score"] == {"overall": 0.5}
    assert detail["artifactsProblem"] is None


def test_a_run_whose_directory_is_gone_is_shown_as_such(site: Site, tmp_path: Path) -> None:
    """What was recorded stays readable, with a sentence about what is missing."""
    place = make_run(tmp_path)
    run = site.lab.import_run(str(place))
    shutil.rmtree(place)
    detail = body_of(site.get(f"/api/runs/{run.run_id}"), response_models.RunDetail)
    assert detail["topic"] == "cats"
    assert detail["artifacts"] is None
    assert detail["artifactsProblem"]


def test_a_run_outside_the_roots_of_this_server_is_shown_as_such(tmp_path: Path) -> None:
    """A root that is not allowed any more closes the content, not the record."""
    before = make_lab(tmp_path)
    run = before.import_run(str(make_run(tmp_path)))
    site = Site(tmp_path)
    site.lab.roots = ()
    detail = body_of(site.get(f"/api/runs/{run.run_id}"), response_models.RunDetail)
    assert detail["artifacts"] is None
    assert "outside" in detail["artifactsProblem"]
    response = site.get(f"/api/runs/{run.run_id}/artifact/script.json")
    assert error_of(response)[:2] == (403, "FORBIDDEN")
