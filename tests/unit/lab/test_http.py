"""The Lab over HTTP: its config, experiments, results, export, pages and document."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from onceward.console.app import build_app
from onceward.http.guard import GuardSettings, RequestGuard
from onceward.lab import response_models
from onceward.lab.sessions import save_task
from tests.support.lab_http_client import OURS, PORT, TOKEN, Site, body_of, error_of
from tests.support.labs import (
    feedback_of,
    make_experiment,
    make_lab,
    make_run,
    paths_in,
    submission,
)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


# --- config ---------------------------------------------------------------------------------------


def test_the_config_has_what_a_page_needs(site: Site, tmp_path: Path) -> None:
    """Session, token, roots and the rest, under the names that pages know."""
    config = body_of(site.get("/api/config"), response_models.LabConfig)
    assert config["token"] not in (None, TOKEN)
    assert config == {
        "sessionId": site.lab.session.session_id,
        "token": config["token"],
        "version": site.app.version,
        "runnerEnabled": False,
        "runnerAllowNetwork": False,
        "runnerAllowWorkflowExec": False,
        "allowedRoots": [str(tmp_path)],
        "ui": {"blindMetricsDefault": True, "revealMetricsEnabled": True},
        "task": None,
        "exitAfterSubmit": 0,
    }


def test_the_config_names_the_task(tmp_path: Path) -> None:
    """A page that was opened for a comparison learns which, and when the server means to stop."""
    site = Site(tmp_path, exit_after_submit=1)
    task = {"type": "compare", "experimentId": "exp_1"}
    site.lab.session = save_task(site.lab.paths, site.lab.session, task)
    config = body_of(site.get("/api/config"), response_models.LabConfig)
    assert (config["task"], config["exitAfterSubmit"]) == (task, 1)


def test_the_token_is_not_handed_out_to_other_machines(tmp_path: Path) -> None:
    """A caller on another machine must bring the token, and does not get it here."""
    lab = make_lab(tmp_path)
    guard = RequestGuard(
        build_app(lab=lab),
        settings=GuardSettings(port=PORT, token=TOKEN, is_owner=lambda _: True, external=True),
    )

    async def ask() -> httpx.Response:
        headers = {"authorization": f"Bearer {TOKEN}"}
        transport = httpx.ASGITransport(guard)
        async with httpx.AsyncClient(transport=transport, base_url=OURS) as client:
            return await client.get("/api/config", headers=headers)

    config = body_of(asyncio.run(ask()), response_models.LabConfig)
    assert config["token"] is None
    assert TOKEN not in json.dumps(config)


# --- experiments ----------------------------------------------------------------------------------


def test_an_experiment_is_made_listed_and_shown(site: Site, tmp_path: Path) -> None:
    """What was asked for is what is shown, with null for what is not known yet."""
    runs = [site.lab.import_run(str(make_run(tmp_path, name))).run_id for name in "ab"]
    question = {"id": "q", "prompt": "Better?", "type": "yes_no_unsure"}
    body = {
        "name": "hooks",
        "baselineRunId": runs[0],
        "variants": [{"label": "new", "runId": runs[1]}],
        "questions": [question],
    }
    made = body_of(site.post("/api/experiments", body), response_models.ExperimentCreated)
    shown = body_of(
        site.get(f"/api/experiments/{made['experimentId']}"), response_models.ExperimentDetail
    )
    (listed,) = body_of(site.get("/api/experiments"), response_models.ExperimentPage)["items"]
    assert shown == {**listed, "submission": None}
    assert (shown["name"], shown["hypothesis"], shown["status"]) == ("hooks", None, "queued")
    assert (shown["winner"], shown["answers"]) == (None, {})
    assert shown["questions"] == [question]
    (variant,) = shown["variants"]
    assert (variant["label"], variant["runId"]) == ("new", runs[1])


def test_an_experiment_of_unknown_runs_is_404(site: Site) -> None:
    """The field that names no run is named."""
    response = site.post("/api/experiments", {"baselineRunId": "x", "variants": [{"runId": "y"}]})
    status, code, context = error_of(response)
    assert (status, code, context["field"]) == (404, "NOT_FOUND", "baselineRunId")


def test_a_submission_is_answered_once_and_replayed_byte_for_byte(
    site: Site, tmp_path: Path
) -> None:
    """The same request id gets the same bytes and says so; another id gets the first result."""
    experiment = make_experiment(site.lab, tmp_path)
    path = f"/api/experiments/{experiment.experiment_id}"
    body = submission(experiment).model_dump(mode="json", exclude_none=True)
    first = site.post(f"{path}/submit", body, "one")
    again = site.post(f"{path}/submit", body, "one")
    submitted = body_of(first, response_models.SubmissionRecorded)
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert again.content == first.content
    status, code, context = error_of(site.post(f"{path}/submit", body, "two"))
    assert (status, code, context["result"]) == (409, "ALREADY_SUBMITTED", submitted)
    shown = body_of(site.get(path), response_models.ExperimentDetail)
    assert shown["submission"] == submitted
    assert shown["status"] == "done"
    assert shown["winner"] == {
        "variantId": experiment.variants[0].variant_id,
        "reason": "clearer",
    }
    assert [each["id"] for each in feedback_of(site.lab)] == submitted["feedbackIds"]


def test_results_count_what_was_decided(site: Site, tmp_path: Path) -> None:
    """A decision shows up as a win of one side and a loss of the other."""
    experiment = make_experiment(site.lab, tmp_path)
    site.lab.submit(experiment.experiment_id, submission(experiment))
    results = body_of(site.get("/api/experiments/results"), response_models.ExperimentResultsBody)
    assert results["experiments"] == 1
    by_label = {each["label"]: each for each in results["standings"]}
    assert by_label["variant 1"]["wins"] == 1
    assert by_label["baseline"]["losses"] == 1
    assert "winRate" in by_label["baseline"]


# --- export ---------------------------------------------------------------------------------------


def test_an_export_returns_its_path_and_count(site: Site, tmp_path: Path) -> None:
    """The file is there, with as many entries as the answer says."""
    site.post("/api/feedback", {"notes": "good"})
    written = body_of(site.post("/api/export", {}), response_models.ExportWritten)
    assert written["count"] == 1
    export = json.loads(Path(written["path"]).read_bytes())
    assert [each["notes"] for each in export["feedback"]] == ["good"]
    assert Path(written["path"]).is_relative_to(paths_in(tmp_path).exports)


# --- what the document says -----------------------------------------------------------------------


def test_the_document_knows_every_error(site: Site) -> None:
    """Each route lists the guard's responses; 422 only where a request id can be reused."""
    document = site.get("/api/console/openapi.json").json()
    assert "HTTPValidationError" not in json.dumps(document)
    reused = set()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            answers = set(operation["responses"])
            assert {"400", "401", "403", "413", "421", "500"} <= answers, path
            reused |= {(method, path)} if "422" in answers else set()
    assert reused == {
        ("post", "/api/feedback"),
        ("post", "/api/experiments"),
        ("post", "/api/experiments/{experiment_id}/submit"),
        ("post", "/api/runs/import"),
        ("post", "/api/export"),
    }


# --- pages ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/lab", "/lab/review/run_1", "/lab/compare/exp_1", "/lab/results"]
)
def test_every_page_is_the_same_shell(site: Site, path: str) -> None:
    """The script on the page looks at the address; the server does not."""
    response = site.get(path)
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.content == site.get("/lab").content
