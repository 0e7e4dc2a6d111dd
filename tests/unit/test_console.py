"""The console with its request guard: every route, present and future, keeps every rule."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from onceward.client import Onceward
from onceward.console.app import build_app
from onceward.dispatch.conversations import Chats
from onceward.dispatch.dispatcher import Dispatcher
from onceward.dispatch.models import Group, NewMessage
from onceward.http.guard import CSP, RESPONSE_HEADERS
from onceward.lab.lab import Lab
from onceward.lab.lab_paths import LabPaths
from onceward.lab.run_content import CONTENT_POLICY
from onceward.lab.sessions import LabSession
from onceward.stores import migrate, open_store
from onceward.version import __version__
from tests.support.guarded_requests import PORT, TOKEN, ask, error_of
from tests.support.labs import make_experiment, make_lab, submission

METHODS = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"]
SAFE = {"GET", "HEAD", "OPTIONS"}


#: What stands in braces in an address, and so has to be filled in.
BLANKS = ("{run_id:run}", "{run_id}", "{experiment_id}", "{name:path}", "{name}", "{group}")


@dataclass(frozen=True, kw_only=True)
class Site:
    """The console with a Lab and a conversation in it, and what to ask it for."""

    app: FastAPI
    blanks: dict[str, str]
    bodies: dict[str, str]

    def ask(
        self, method: str, path: str, headers: dict[str, str] | None = None, **settings: Any
    ) -> httpx.Response:
        """Ask for an address as `addresses` names it, with the body it needs."""
        body = self.bodies.get(path) if method == "POST" else None
        sent = {**(headers or {}), **({"content-type": "application/json"} if body else {})}
        content = body.encode() if body else None
        return ask(self.app, method, self.filled(path), sent, content, **settings)

    def filled(self, path: str) -> str:
        for blank, value in self.blanks.items():
            path = path.replace(blank, value)
        return path.replace("{name}", "base.css" if path.startswith("/assets/") else "api.js")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Return a console whose Lab has a run with a video, and an experiment, and with a group."""
    directory = tmp_path_factory.mktemp("site")
    lab = make_lab(directory)
    experiment = make_experiment(lab, directory)
    place = directory / "runs" / "side0"
    (place / "video.mp4").write_bytes(b"not really")
    run_id = lab.import_run(str(place)).run_id
    compared = {"baselineRunId": run_id, "variants": [{"runId": experiment.variants[0].run_id}]}
    decision = submission(experiment, requestId="one").model_dump_json(exclude_none=True)
    chats = chats_at(directory)
    migrate(chats.store)
    chats.dispatcher.groups.add(Group(name="team", channel="chat", command=("true",)))
    chats.receive(NewMessage(group="team", id="1", sender="ann", text="hi"))
    return Site(
        app=build_app(lab=lab, dispatch=chats),
        blanks={
            "{run_id:run}": run_id,
            "{run_id}": run_id,
            "{experiment_id}": experiment.experiment_id,
            "/manual/{name:path}": "/manual/docs/index.md",
            "{name:path}": "script.json",
            "{group}": "team",
        },
        bodies={
            "/api/runs/import": json.dumps({"path": str(place)}),
            "/api/experiments": json.dumps(compared),
            "/api/experiments/{experiment_id}/submit": decision,
            "/api/feedback": json.dumps({"notes": "good"}),
            "/api/export": "{}",
            "/api/chat/{group}/messages": json.dumps({"id": "1", "sender": "ann", "text": "hi"}),
        },
    )


def chats_at(directory: Path) -> Chats:
    """Return conversations whose store is not opened yet."""
    ow = Onceward(open_store(f"sqlite:///{directory / 'chat.db'}"))
    return Chats(ow, Dispatcher(ow, home=directory))


def whole_app() -> FastAPI:
    """Return the console with all its parts, to look at; there is no data."""
    nowhere = LabPaths(root=Path("/nowhere"), feedback=Path("/nowhere/feedback.jsonl"))
    session = LabSession(session_id="lab_1", created_at="")
    return build_app(lab=Lab(paths=nowhere, session=session), dispatch=chats_at(nowhere.root))


def addresses(app: FastAPI) -> dict[str, set[str]]:
    """Return every address of the application, with its methods."""
    found: dict[str, set[str]] = {}
    for route in iter_route_contexts(app.routes):
        assert route.path is not None, f"{route}: a mounted application needs a walk of its own"
        assert route.methods is not None, f"{route}: a websocket needs a walk of its own"
        rest = route.path
        for blank in BLANKS:
            rest = rest.replace(blank, "")
        assert "{" not in rest, f"{route.path}: say in `site` what to fill in"
        found.setdefault(route.path, set()).update(route.methods)
    return found


#: Addresses that another address also matches; it has nothing there.
ALIKE = {
    "/api/runs/nope": "/api/runs/{run_id:run}",
    "/assets/nope": "/assets/{name}",
}
MISSING = [*ALIKE, "/nope", "/api/nope", "/api/runs/", "/assets/..%2fapp.py", "/lab/"]


#: Every address, and some that do not exist; each test tries every method on it.
WALK = list(dict.fromkeys([*addresses(whole_app()), *MISSING]))


def test_every_answer_carries_the_headers(site: Site) -> None:
    """Page, asset, API, content, 404 and 405 alike, to every method."""
    methods = addresses(site.app)
    for path in WALK:
        own, alike = methods.get(path, set()), methods.get(ALIKE.get(path, ""), set())
        for method in METHODS:
            response = site.ask(method, path, {"x-cm-lab-token": TOKEN})
            missing = not own | alike or method in alike - own
            found = 307 if path == "/manual" else 200
            status = 404 if missing else found if method in own | alike else 405
            assert (path, method, response.status_code) == (path, method, status)
            is_dressed(method, path, response)
            if status == 405:
                assert response.headers["allow"] == ", ".join(
                    m for m in METHODS if m in own | alike
                )


def is_dressed(method: str, path: str, response: httpx.Response) -> None:
    """Say that an answer has the headers and the form that it should."""
    for name, value in RESPONSE_HEADERS.items():
        assert response.headers.get_list(name.decode()) == [value.decode()]
    is_ours = path.startswith("/manual")
    is_content = path.endswith(("/video", "/{name:path}")) and response.status_code == 200
    is_content = is_content and not is_ours
    policy = CONTENT_POLICY if is_content else CSP.decode()
    assert response.headers.get_list("content-security-policy") == [policy]
    assert not [name for name in response.headers if name.startswith("access-control-")]
    if path.startswith("/api/") or response.status_code >= 400:
        assert response.headers["cache-control"] == "no-store"
    if method == "HEAD":
        assert response.content == b""
    elif response.status_code >= 400:
        error_of(response)


STRANGERS = [
    ({"host": "evil.test"}, 421),
    ({"host": f"127.0.0.1.evil.test:{PORT}"}, 421),
    ({"host": f"127.0.0.1:{PORT + 1}"}, 421),
    ({"origin": "null"}, 403),
    ({"origin": f"http://127.0.0.1:{PORT + 1}"}, 403),
    ({"sec-fetch-site": "cross-site"}, 403),
    ({"sec-fetch-site": "same-site"}, 403),
]


def test_every_route_refuses_strangers(site: Site) -> None:
    """A foreign name and a foreign page get nothing from any address, token or not."""
    for path in WALK:
        for method, (headers, status) in itertools.product(METHODS, STRANGERS):
            response = site.ask(method, path, {"x-cm-lab-token": TOKEN, **headers})
            assert response.status_code == status, (path, method, headers)
            assert response.headers["content-security-policy"] == CSP.decode(), (
                path,
                method,
                headers,
            )


def test_every_route_needs_the_token_where_it_should(site: Site) -> None:
    """Changes always, and everything of a peer that is not the owner."""
    for path in WALK:
        for method in METHODS:
            assert (site.ask(method, path).status_code == 401) == (method not in SAFE), (
                path,
                method,
            )
            assert site.ask(method, path, external=True).status_code == 401, (path, method)
            assert site.ask(method, path, is_owner=None).status_code == 401, (path, method)


def test_every_route_checks_type_and_size_of_a_body(site: Site) -> None:
    """No address reads a form, and none reads without an end."""
    for path in WALK:
        form = {"x-cm-lab-token": TOKEN, "content-type": "text/plain"}
        large = {"x-cm-lab-token": TOKEN, "content-type": "application/json"}
        address = site.filled(path)
        for method in METHODS:
            if method not in SAFE:
                assert ask(site.app, method, address, form, b"{}").status_code == 415, (
                    path,
                    method,
                )
            response = ask(site.app, method, address, large, b"12", body_bytes_max=1)
            assert response.status_code == 413, (path, method)


def test_every_get_answers_head_too() -> None:
    """An address that can be read can be asked about."""
    for path, methods in addresses(whole_app()).items():
        assert ("GET" in methods) == ("HEAD" in methods), path


def test_no_page_needs_the_internet() -> None:
    """The framework's own documentation pages load scripts from elsewhere, so they are off."""
    assert not {"/docs", "/redoc", "/openapi.json"} & set(addresses(whole_app()))


def test_health_names_the_version() -> None:
    """A probe learns that the server answers, and as which version."""
    response = ask(build_app(), "GET", "/healthz")
    assert response.json() == {"status": "ok", "version": __version__}


def test_the_openapi_document_describes_health_and_its_errors() -> None:
    """What a client can meet on a documented route is documented, in our shape."""
    document = ask(build_app(), "GET", "/api/console/openapi.json").json()
    assert list(document["paths"]) == ["/healthz"]
    answers = document["paths"]["/healthz"]["get"]["responses"]
    assert set(answers) == {"200", "400", "401", "403", "413", "421", "500"}
    assert "ErrorResponse" in json.dumps(answers["421"])


def test_the_page_says_what_this_is() -> None:
    """A visitor reads the promise, the version, and the commands that lead on."""
    response = ask(build_app(), "GET", "/")
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    page = response.text
    assert f"Onceward {__version__}" in page
    assert "Every effect happens once, every cursor moves onward, nothing is lost." in page
    for command in ("onceward up", "onceward doctor", "onceward --help"):
        assert command in page


def test_the_page_leads_to_what_is_served(site: Site) -> None:
    """A link to the Lab and to conversations is there where they are, and nowhere else."""
    links = ('href="/lab"', 'href="/chat"')
    assert all(link in ask(site.app, "GET", "/").text for link in links)
    alone = ask(build_app(), "GET", "/").text
    assert not any(link in alone for link in links)
    assert "{{" not in alone


def test_the_page_obeys_its_own_policy(site: Site) -> None:
    """Nothing on the page is inline or from elsewhere, and everything it refers to exists."""
    app = site.app
    page = ask(app, "GET", "/").text
    assert "<script" not in page
    assert "<style" not in page
    assert " style=" not in page
    assert "//" not in page.replace("<!doctype html>", "")
    for part in page.split('"')[1::2]:
        if part.startswith("/"):
            assert ask(app, "GET", part).status_code == 200, part


def test_the_version_cannot_break_out_of_the_page() -> None:
    """Whatever the version is, it is text."""
    page = ask(build_app(version='<script>"1"</script>'), "GET", "/").text
    assert "<script" not in page
    assert "&lt;script&gt;&quot;1&quot;&lt;/script&gt;" in page


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("/assets/base.css", "text/css; charset=utf-8"),
        ("/assets/icon.svg", "image/svg+xml"),
        ("/favicon.ico", "image/svg+xml"),
    ],
)
def test_assets_say_what_they_are(path: str, media_type: str) -> None:
    """With `nosniff`, a browser uses an asset only under its right type."""
    response = ask(build_app(), "GET", path)
    assert response.headers["content-type"] == media_type
    assert response.content


@pytest.mark.parametrize(
    "name",
    ["app.py", "..%2f..%2fapp.py", "%2e%2e/app.py", "index.html", "icon.svg%00", "x/y"],
)
def test_only_listed_assets_exist(name: str) -> None:
    """No spelling of a path leads to another file."""
    response = ask(build_app(), "GET", f"/assets/{name}")
    assert error_of(response)["code"] == "NOT_FOUND"
