"""The Lab over HTTP: what each route takes and answers."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from pydantic import BaseModel
from tests.unit.lab.labs import (
    feedback_of,
    make_experiment,
    make_lab,
    make_run,
    paths_in,
    submission,
)

from onceward.console.app import build_app
from onceward.gate import Gate, GateSettings
from onceward.lab import schemas
from onceward.lab.lab import Lab
from onceward.lab.sessions import save_task

PORT = 3939
OURS = f"http://127.0.0.1:{PORT}"


class Site:
    """A Lab behind its gate, asked by somebody who has the token."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.directory = directory
        self.lab: Lab = make_lab(directory, **options)
        self.app: FastAPI = build_app(lab=self.lab)
        settings = GateSettings(port=PORT, token=self.lab.session.token)
        self.gate = Gate(self.app, settings=settings)

    def client(self) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self.gate, raise_app_exceptions=True)
        headers = {"x-cm-lab-token": self.lab.session.token}
        return httpx.AsyncClient(transport=transport, base_url=OURS, headers=headers)

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            async with self.client() as client:
                return await client.request(method, path, **options)

        return asyncio.run(send())

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.ask("GET", path, **options)

    def post(self, path: str, body: Any, request_id: str | None = None) -> httpx.Response:
        headers = {} if request_id is None else {"x-cm-lab-request-id": request_id}
        return self.ask("POST", path, json=body, headers=headers)

    def raw(self, path: str, body: bytes) -> httpx.Response:
        headers = {"content-type": "application/json"}
        return self.ask("POST", path, content=body, headers=headers)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def error_of(response: httpx.Response) -> tuple[int, str, dict[str, Any]]:
    """Return status, code and context, having checked the shape."""
    error = response.json()["error"]
    assert list(error) == ["code", "message", "context"]
    assert error["context"]["fix"]
    return response.status_code, error["code"], error["context"]


def body_of(response: httpx.Response, model: type[BaseModel]) -> Any:
    """Return the body of a success, having held it against what the document says of it."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    model.model_validate_json(response.content, strict=True)
    return response.json()


# --- config ---------------------------------------------------------------------------------------


def test_the_config_tells_a_page_what_it_needs(site: Site, tmp_path: Path) -> None:
    """Session, token, roots and the rest, under the names that pages know."""
    assert body_of(site.get("/api/config"), schemas.Config) == {
        "sessionId": site.lab.session.session_id,
        "token": site.lab.session.token,
        "version": site.app.version,
        "runnerEnabled": False,
        "runnerAllowNetwork": False,
        "runnerAllowWorkflowExec": False,
        "allowedRoots": [str(tmp_path)],
        "ui": {"blindMetricsDefault": True, "revealMetricsEnabled": True},
        "task": None,
        "exitAfterSubmit": None,
    }


def test_the_config_names_the_task(tmp_path: Path) -> None:
    """A page that was opened for a comparison learns which, and when the server means to stop."""
    site = Site(tmp_path, exit_after_submit=1)
    task = {"type": "compare", "experimentId": "exp_1"}
    site.lab.session = save_task(site.lab.paths, site.lab.session, task)
    config = body_of(site.get("/api/config"), schemas.Config)
    assert (config["task"], config["exitAfterSubmit"]) == (task, 1)


def test_the_token_is_not_handed_out_to_other_machines(tmp_path: Path) -> None:
    """Whoever asks from elsewhere must bring the token, and does not get it here."""
    lab = make_lab(tmp_path)
    gate = Gate(
        build_app(lab=lab, external=True),
        settings=GateSettings(port=PORT, token=lab.session.token, external=True),
    )

    async def ask() -> httpx.Response:
        headers = {"authorization": f"Bearer {lab.session.token}"}
        transport = httpx.ASGITransport(gate)
        async with httpx.AsyncClient(transport=transport, base_url=OURS) as client:
            return await client.get("/api/config", headers=headers)

    config = body_of(asyncio.run(ask()), schemas.Config)
    assert config["token"] is None
    assert lab.session.token not in json.dumps(config)


# --- runs -----------------------------------------------------------------------------------------


def test_an_import_answers_the_run(site: Site, tmp_path: Path) -> None:
    """A directory, and a file in it, are the same run as long as nothing in it changes."""
    place = make_run(tmp_path)
    first = body_of(site.post("/api/runs/import", {"path": str(place)}), schemas.Imported)
    again = body_of(
        site.post("/api/runs/import", {"path": str(place / "script.json")}), schemas.Imported
    )
    assert first == again


def test_an_import_from_elsewhere_tells_nothing(site: Site) -> None:
    """What lies outside the roots is refused alike, whether it exists or not."""
    real = site.post("/api/runs/import", {"path": "/etc"})
    unreal = site.post("/api/runs/import", {"path": "/no/such/place"})
    assert error_of(real)[:2] == (403, "FORBIDDEN")
    assert real.content == unreal.content


def test_an_import_of_nothing_recognisable_says_what_would_be(site: Site, tmp_path: Path) -> None:
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
        page = body_of(site.get("/api/runs", params=parameters), schemas.RunPage)
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
    (item,) = body_of(site.get("/api/runs"), schemas.RunPage)["items"]
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
    detail = body_of(site.get(f"/api/runs/{run.run_id}"), schemas.RunDetail)
    assert {name: detail[name] for name in item} == item
    assert detail["artifacts"]["script"] == {"meta": {"topic": "cats"}}
    assert detail["artifacts"]["score"] == {"overall": 0.5}
    assert detail["artifactsProblem"] is None


def test_a_run_whose_directory_is_gone_is_shown_as_such(site: Site, tmp_path: Path) -> None:
    """What was recorded stays readable, with a sentence about what is missing."""
    place = make_run(tmp_path)
    run = site.lab.import_run(str(place))
    shutil.rmtree(place)
    detail = body_of(site.get(f"/api/runs/{run.run_id}"), schemas.RunDetail)
    assert detail["topic"] == "cats"
    assert detail["artifacts"] is None
    assert detail["artifactsProblem"]


def test_a_run_outside_the_roots_of_this_server_is_shown_as_such(tmp_path: Path) -> None:
    """A root that is not allowed any more closes the content, not the record."""
    before = make_lab(tmp_path)
    run = before.import_run(str(make_run(tmp_path)))
    site = Site(tmp_path)
    site.lab.roots = ()
    detail = body_of(site.get(f"/api/runs/{run.run_id}"), schemas.RunDetail)
    assert detail["artifacts"] is None
    assert "outside" in detail["artifactsProblem"]
    response = site.get(f"/api/runs/{run.run_id}/artifact/script.json")
    assert error_of(response)[:2] == (403, "FORBIDDEN")


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
    made = body_of(site.post("/api/experiments", body), schemas.ExperimentCreated)
    shown = body_of(site.get(f"/api/experiments/{made['experimentId']}"), schemas.ExperimentDetail)
    (listed,) = body_of(site.get("/api/experiments"), schemas.ExperimentPage)["items"]
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
    """The same request id gets the same bytes and says so; another one is told of the first."""
    experiment = make_experiment(site.lab, tmp_path)
    path = f"/api/experiments/{experiment.experiment_id}"
    body = submission(experiment).model_dump(mode="json", exclude_none=True)
    first = site.post(f"{path}/submit", body, "one")
    again = site.post(f"{path}/submit", body, "one")
    submitted = body_of(first, schemas.Submitted)
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert again.content == first.content
    status, code, context = error_of(site.post(f"{path}/submit", body, "two"))
    assert (status, code, context["result"]) == (409, "CONFLICT", submitted)
    shown = body_of(site.get(path), schemas.ExperimentDetail)
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
    results = body_of(site.get("/api/experiments/results"), schemas.ResultsAnswer)
    assert results["experiments"] == 1
    by_label = {each["label"]: each for each in results["standings"]}
    assert by_label["variant 1"]["wins"] == 1
    assert by_label["baseline"]["losses"] == 1
    assert "winRate" in by_label["baseline"]


# --- request ids ----------------------------------------------------------------------------------


def test_a_double_submit_is_one_entry(site: Site) -> None:
    """The same request id, in the header or in the body, adds one entry and answers one id."""
    first = site.post("/api/feedback", {"notes": "good"}, "same")
    again = site.post("/api/feedback", {"notes": "good"}, "same")
    third = site.post("/api/feedback", {"notes": "good", "requestId": "same"})
    assert first.content == again.content == third.content
    assert len(feedback_of(site.lab)) == 1


def test_a_request_id_for_other_work_is_refused(site: Site) -> None:
    """Nobody is answered with the result of somebody else's request."""
    site.post("/api/feedback", {"notes": "good"}, "same")
    response = site.post("/api/feedback", {"notes": "bad"}, "same")
    assert error_of(response)[:2] == (422, "KEY_REUSED")


def test_two_different_request_ids_are_refused(site: Site) -> None:
    """Header and body, or two headers, that disagree leave it open which one counts."""
    response = site.post("/api/feedback", {"notes": "good", "requestId": "b"}, "a")
    assert error_of(response)[:2] == (400, "INVALID_ARGUMENT")
    twice = [("x-cm-lab-request-id", "a"), ("x-cm-lab-request-id", "b")]
    response = site.ask("POST", "/api/feedback", json={"notes": "good"}, headers=twice)
    assert error_of(response)[:2] == (400, "INVALID_ARGUMENT")
    assert feedback_of(site.lab) == []


@pytest.mark.parametrize("request_id", ["", "x" * 201, "tab\there", "ümlaut", "\x7f"], ids=repr)
def test_a_malformed_request_id_is_refused(site: Site, request_id: str) -> None:
    """1 to 200 printable ASCII characters, in the header as in the body."""
    headers = {"x-cm-lab-request-id": request_id.encode()}
    header = site.ask("POST", "/api/feedback", json={"notes": "good"}, headers=headers)
    body = site.post("/api/feedback", {"notes": "good", "requestId": request_id})
    for response in (header, body):
        status, code, context = error_of(response)
        assert (status, code, context["field"]) == (400, "INVALID_ARGUMENT", "requestId")
    assert feedback_of(site.lab) == []


# --- feedback -------------------------------------------------------------------------------------


def test_submitted_feedback_is_polled_once(site: Site) -> None:
    """What was submitted comes from "0", and not again from the cursor that came with it."""
    added = body_of(site.post("/api/feedback", {"notes": "good"}), schemas.FeedbackAdded)
    page = body_of(site.get("/api/feedback", params={"since": "0"}), schemas.FeedbackPage)
    assert [each["id"] for each in page["items"]] == [added["feedbackId"]]
    again = body_of(
        site.get("/api/feedback", params={"since": page["nextCursor"]}), schemas.FeedbackPage
    )
    assert again == {"items": [], "nextCursor": page["nextCursor"]}


def test_a_poll_of_a_missing_file_is_empty(site: Site) -> None:
    """Before the first entry there is nothing, and that is no error."""
    page = body_of(site.get("/api/feedback"), schemas.FeedbackPage)
    assert page == {"items": [], "nextCursor": "0"}


def test_a_filter_does_not_hold_the_cursor_back(site: Site) -> None:
    """Entries of other sessions are passed, so that they are not read again for ever."""
    site.post("/api/feedback", {"notes": "good"})
    everything = site.get("/api/feedback").json()
    filtered = site.get("/api/feedback", params={"sessionId": "other"}).json()
    assert filtered == {"items": [], "nextCursor": everything["nextCursor"]}


def test_a_limit_drops_nothing(site: Site) -> None:
    """Page by page, everything comes once and in order."""
    for number in range(5):
        site.post("/api/feedback", {"notes": str(number)})
    seen, since = [], "0"
    for _ in range(3):
        page = site.get("/api/feedback", params={"since": since, "limit": 2}).json()
        seen += [each["notes"] for each in page["items"]]
        since = page["nextCursor"]
    assert seen == ["0", "1", "2", "3", "4"]
    huge = site.get("/api/feedback", params={"limit": 10**30}).json()
    assert len(huge["items"]) == 5


@pytest.mark.parametrize(
    "since", ["", "-1", "1.5", "x", "00", "9" * 30, "1", "1000", " 0", "\u0661"]
)
def test_a_cursor_that_does_not_fit_is_refused(site: Site, since: str) -> None:
    """No number, not the start of a line, or beyond the end: the answer says how to go on."""
    site.post("/api/feedback", {"notes": "good"})
    status, code, context = error_of(site.get("/api/feedback", params={"since": since}))
    assert (status, code) == (400, "INVALID_CURSOR")
    assert '"0"' in context["fix"]


def test_h10_a_replaced_file_is_noticed_by_its_tag(site: Site, tmp_path: Path) -> None:
    """A client that sends the tag back is told that its cursor is for another file."""
    site.post("/api/feedback", {"notes": "good"})
    answer = site.get("/api/feedback")
    tag, since = answer.headers["x-cm-lab-cursor-tag"], answer.json()["nextCursor"]
    same = site.get("/api/feedback", params={"since": since}, headers={"x-cm-lab-cursor-tag": tag})
    assert same.status_code == 200
    file = paths_in(tmp_path).feedback
    other = file.with_name("other")
    other.write_bytes(file.read_bytes().replace(b"good", b"evil"))
    other.replace(file)
    response = site.get(
        "/api/feedback", params={"since": since}, headers={"x-cm-lab-cursor-tag": tag}
    )
    assert error_of(response)[:2] == (400, "INVALID_CURSOR")


def test_entries_of_other_tools_pass_through_however_deep(site: Site, tmp_path: Path) -> None:
    """A line nested more deeply than encoders go does not stand in the way of the next one."""
    deep: Any = "bottom"
    for level in range(1000):
        deep = {"d": deep} if level % 2 else [deep]
    lines = [
        {"id": "fb_1", "createdAt": "then", "theirs": {"ü": [1, 2.5, None, True]}},
        {"id": "fb_2", "createdAt": "then", "extra": deep},
        {"id": "fb_3", "createdAt": "then"},
    ]
    file = paths_in(tmp_path).feedback
    file.parent.mkdir(parents=True)
    text = "".join(f"{_flat(each)}\n" for each in lines)
    file.write_text(text)
    response = site.get("/api/feedback")
    assert response.status_code == 200
    assert response.text.startswith('{"items":[{"id":"fb_1"')
    assert response.text.count('"d":') == 500
    assert response.text.endswith(f'],"nextCursor":"{len(text.encode())}"}}')


def _flat(value: Any) -> str:
    """Encode without recursion: the standard encoder stops at a thousand levels."""
    if "extra" not in value:
        return json.dumps(value)
    inner, closing = value["extra"], []
    text = '{"id":"fb_2","createdAt":"then","extra":'
    while inner != "bottom":
        text += '{"d":' if isinstance(inner, dict) else "["
        closing.append("}" if isinstance(inner, dict) else "]")
        inner = inner["d"] if isinstance(inner, dict) else inner[0]
    return text + '"bottom"' + "".join(reversed(closing)) + "}"


# --- export ---------------------------------------------------------------------------------------


def test_an_export_says_where_it_lies_and_what_it_holds(site: Site, tmp_path: Path) -> None:
    """The file is there, with as many entries as the answer says."""
    site.post("/api/feedback", {"notes": "good"})
    written = body_of(site.post("/api/export", {}), schemas.ExportWritten)
    assert written["count"] == 1
    export = json.loads(Path(written["path"]).read_bytes())
    assert [each["notes"] for each in export["feedback"]] == ["good"]
    assert Path(written["path"]).is_relative_to(paths_in(tmp_path).exports)


# --- what the document says -----------------------------------------------------------------------


def test_the_document_knows_every_error(site: Site) -> None:
    """Each route lists the gate's answers; 422 stands only where a request id can be reused."""
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
        ("post", "/api/experiments/{experiment_id}/submit"),
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


def test_assets_are_scripts_and_styles_only(site: Site) -> None:
    """With `nosniff` a module needs its right type; what is no asset does not exist."""
    response = site.get("/lab/assets/api.js")
    assert response.headers["content-type"] == "text/javascript; charset=utf-8"
    for name in ("lab.html", "nope.js", "..%2fhttp.py", "__init__.py"):
        assert error_of(site.get(f"/lab/assets/{name}"))[:2] == (404, "NOT_FOUND")
