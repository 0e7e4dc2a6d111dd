"""Request ids: every POST accepts one, and a retry replays the first response."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from onceward.journal import Journal
from onceward.lab.request_models import ImportRun, NewExperiment
from onceward.system import crash_points
from onceward.system.crash_points import Crashed
from tests.support.lab_http_client import Site, error_of
from tests.support.labs import make_experiment, make_lab, make_run, submission

POSTS = ("import", "experiment", "submit", "feedback", "export")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def request_of(site: Site, name: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return the path of a POST, a body for it, and another one."""
    runs = [str(make_run(site.directory, each)) for each in ("one", "two")]
    if name == "import":
        return "/api/runs/import", {"path": runs[0]}, {"path": runs[1]}
    if name == "feedback":
        return "/api/feedback", {"notes": "good"}, {"notes": "bad"}
    if name == "export":
        return "/api/export", {}, {"path": "other.json"}
    ids = [site.lab.import_run(each).run_id for each in runs]
    if name == "experiment":
        body = {"baselineRunId": ids[0], "variants": [{"runId": ids[1]}]}
        return "/api/experiments", body, {**body, "name": "other"}
    experiment = make_experiment(site.lab, site.directory)
    body = submission(experiment).model_dump(mode="json", exclude_none=True)
    path = f"/api/experiments/{experiment.experiment_id}/submit"
    return path, body, {**body, "reason": "other"}


def lines(site: Site) -> list[int]:
    """Return how many lines the files have that requests append to, and how many exports."""
    paths = site.lab.paths
    files = (paths.runs, paths.experiments, paths.feedback)
    counts = [len(each.read_bytes().splitlines()) if each.exists() else 0 for each in files]
    return [*counts, len(list(paths.exports.glob("*")))]


@pytest.mark.parametrize("name", POSTS)
def test_a_retry_is_answered_as_before_and_changes_nothing(site: Site, name: str) -> None:
    """In the header or in the body, here or in a process that starts later."""
    path, body, _ = request_of(site, name)
    first = site.post(path, body, "same")
    assert first.status_code == 200, first.text
    before = lines(site)
    later = Site(site.directory)
    for again in (site.post(path, body, "same"), later.post(path, {**body, "requestId": "same"})):
        assert again.content == first.content
        assert again.headers["idempotent-replayed"] == "true"
    assert lines(site) == before


@pytest.mark.parametrize("name", POSTS)
def test_the_same_id_for_another_body_is_refused(site: Site, name: str) -> None:
    """Neither answered with the first one's result nor carried out."""
    path, body, other = request_of(site, name)
    site.post(path, body, "same")
    before = lines(site)
    assert error_of(site.post(path, other, "same"))[:2] == (422, "KEY_REUSED")
    assert lines(site) == before


@pytest.mark.parametrize("name", POSTS)
def test_two_ids_in_one_request_are_refused(site: Site, name: str) -> None:
    """Header and body disagree: nothing is done under either."""
    path, body, _ = request_of(site, name)
    before = lines(site)
    response = site.post(path, {**body, "requestId": "b"}, "a")
    assert error_of(response)[:2] == (400, "INVALID_ARGUMENT")
    assert lines(site) == before


def test_an_import_is_replayed_though_the_directory_was_overwritten(site: Site) -> None:
    """The retry asks what became of the first request; a new id imports what is there now."""
    path, body, _ = request_of(site, "import")
    first = site.post(path, body, "same").json()
    make_run(site.directory, "one", topic="dogs, many of them")
    assert site.post(path, body, "same").json() == first
    assert site.post(path, body, "other").json() != first


def test_creating_and_importing_are_no_submissions(site: Site) -> None:
    """A server that stops after a submission does not stop after these."""
    for name in ("import", "experiment", "export"):
        path, body, _ = request_of(site, name)
        assert site.post(path, body, name).status_code == 200
    assert site.lab.submitted == 0


@pytest.mark.parametrize(
    "point", [each for each in crash_points.POINTS if each.startswith("lab.request.after_")]
)
def test_a_crash_while_an_experiment_is_created_is_completed_by_the_retry(
    tmp_path: Path, point: str
) -> None:
    """Once announced it is made, once, and its retry gets its id."""
    lab = make_lab(tmp_path, "lab_one")
    runs = [lab.import_run(str(make_run(tmp_path, each))).run_id for each in "ab"]
    new = NewExperiment.model_validate({"baselineRunId": runs[0], "variants": [{"runId": runs[1]}]})
    crash_points.arm(f"{point}:1:raise")
    try:
        with pytest.raises(Crashed):
            lab.create_once(new, "req")
    finally:
        crash_points.arm(None)
    again = make_lab(tmp_path, "lab_one")
    answer = again.create_once(new, "req")
    assert answer.replayed
    (made,) = Journal(again.paths.experiments).read().items
    assert answer.body == {"experimentId": made["experimentId"]}
    assert (again.submitted, again.completed_unacknowledged) == (0, 0)


def test_a_crash_after_an_import_is_completed_by_the_retry(tmp_path: Path) -> None:
    """The run is in the file and the request id is not: the retry finds the run."""
    lab = make_lab(tmp_path)
    new = ImportRun(path=str(make_run(tmp_path)))
    crash_points.arm("lab.import.after_append:1:raise")
    try:
        with pytest.raises(Crashed):
            lab.import_once(new, "req")
    finally:
        crash_points.arm(None)
    answer = make_lab(tmp_path).import_once(new, "req")
    (made,) = Journal(lab.paths.runs).read().items
    assert (answer.body, answer.replayed) == ({"runId": made["runId"]}, False)
    assert make_lab(tmp_path).import_once(new, "req").replayed


def test_an_export_whose_answer_was_lost_is_one_file(site: Site) -> None:
    """Its name comes from the request id: written again, it replaces itself."""
    first = site.post("/api/export", {}, "same").json()
    requests = site.lab.paths.requests(site.lab.session.session_id)
    requests.unlink()  # As if the server had died before it wrote the id down.
    site.post("/api/feedback", {"notes": "later"})
    again = Site(site.directory).post("/api/export", {}, "same").json()
    assert again["path"] == first["path"]
    assert json.loads(Path(again["path"]).read_bytes())["feedback"]
    assert len(list(site.lab.paths.exports.iterdir())) == 1
