"""Malformed requests to the Lab: every one gets an error response with a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.lab_http_client import Site, error_of
from tests.support.labs import feedback_of, make_run


@pytest.fixture(scope="module")
def one_site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Return a Lab with one run that many requests in a row cannot change."""
    site = Site(tmp_path_factory.mktemp("lab"))
    site.lab.import_run(str(make_run(site.directory)))
    return site


@pytest.mark.parametrize(
    ("name", "value"),
    [("wait", each) for each in ("-1", "60.1", "61", "x", "nan", "inf", "1e9")],
)
def test_a_parameter_out_of_range_is_named(one_site: Site, name: str, value: str) -> None:
    """The caller learns which parameter is wrong."""
    status, code, context = error_of(one_site.get("/api/feedback", params={name: value}))
    assert (status, code, context["field"]) == (400, "INVALID_ARGUMENT", name)


POSTS = [
    "/api/runs/import",
    "/api/experiments",
    "/api/experiments/nope/submit",
    "/api/feedback",
    "/api/export",
]
ODD_BODIES = [
    b"",
    b"null",
    b"[]",
    b'"text"',
    b"NaN",
    b'{"notes":NaN}',
    b'{"notes":"\\ud800"}',
    b'{"\\ud800":1}',
    b'{"path":"\\ud800"}',
    b'{"path":"\\u0000"}',
    b'{"sessionId":"\\ud800"}',
    b'{"topic":"\\udc00","notes":"x"}',
    b'{"tags":["\\udfff"]}',
    b'{"answers":{"\\ud800":"x"}}',
    b'{"answers":{"a":"\\ud800"}}',
    b'{"answers":{"a":1e400}}',
    b'{"answers":{"a":' + b"9" * 400 + b"}}",
    b'{"ratings":{"overall":' + b"9" * 5000 + b"}}",
    b'{"ratings":{"overall":-1e999}}',
    b'{"ratings":{"overall":101}}',
    b'{"ratings":{"overall":100.1}}',
    b'{"ratings":{"overall":"1e1"}}',
    b'{"ratings":{"overall":true}}',
    b'{"ratings":{"style":5}}',
    b'{"ratings":{}}',
    b'{"notes":"","notes":""}',
    b'{"notes":' + b"[" * 900 + b"]" * 900 + b"}",
    b'{"notes":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b"{" + b'"' + b"k" * 100_000 + b'":1}',
    b'{"requestId":"\\ud800","notes":"x"}',
    b'{"runId":"\\u0000","notes":"x"}',
    b'{"runId":"nope","notes":"x"}',
    b'{"path":"' + b"a/" * 50_000 + b'"}',
    b'{"path":""}',
    b'{"baselineRunId":"a","variants":[]}',
    b'{"baselineRunId":"a","variants":[{"runId":"a"}]}',
    b'{"perRun":[]}',
    b"\xff\xfe",
    b'{"notes":"\xff"}',
]


def test_no_body_makes_it_fail(one_site: Site) -> None:
    """Whatever is sent, the answer is a short refusal, and nothing is kept."""
    for path in POSTS:
        for body in ODD_BODIES:
            response = one_site.raw(path, body)
            status, code, _ = error_of(response)
            assert (status, code) in [
                (400, "INVALID_ARGUMENT"),
                (400, "INVALID_JSON"),
                (403, "FORBIDDEN"),
                (404, "NOT_FOUND"),
            ]
            assert len(response.content) < 2000
            assert feedback_of(one_site.lab) == []


def test_the_last_of_equal_keys_counts(tmp_path: Path) -> None:
    """Equal keys are read as every reader of JSON reads them."""
    site = Site(tmp_path)
    assert site.raw("/api/feedback", b'{"notes":"a","notes":"b"}').status_code == 200
    assert [each["notes"] for each in feedback_of(site.lab)] == ["b"]


def test_no_id_or_name_makes_it_fail(one_site: Site) -> None:
    """Odd characters in an address lead to nothing, and to nothing worse."""
    (run,) = one_site.lab.runs().items
    odds: list[Any] = [
        "%00",
        "%ff",
        "%2e%2e",
        "..%2f..%2fetc",
        "a%0ab",
        "%F0%9F%98%80",
        "x" * 5000,
        "%ED%A0%80",
        "import%00",
        "%20",
        "~",
        "*",
    ]
    paths: list[Any] = [
        "/api/runs/{}",
        "/api/runs/{}/video",
        "/api/runs/{}/artifact/script.json",
        "/api/runs/RUN/artifact/{}",
        "/api/runs/RUN/artifact/a/{}",
        "/api/runs/RUN/artifact/{}/script.json",
        "/api/experiments/{}",
    ]
    for odd in odds:
        for path in paths:
            response = one_site.get(path.replace("RUN", run.run.run_id).format(odd))
            assert error_of(response)[:2] in [(404, "NOT_FOUND"), (404, "FILE_NOT_FOUND")]


@pytest.mark.parametrize(
    "path", ["/api/runs/", "/api/feedback/", "/api/config/", "/api/experiments/", "/lab/"]
)
def test_a_trailing_slash_is_another_address(one_site: Site, path: str) -> None:
    """There is nothing there, and no redirect either."""
    assert error_of(one_site.get(path))[:2] == (404, "NOT_FOUND")


@pytest.mark.parametrize("cursor", ["x", "-1", "", "9" * 100, "run_1"])
@pytest.mark.parametrize("path", ["/api/runs", "/api/experiments"])
def test_a_list_cursor_that_is_none_is_refused(one_site: Site, path: str, cursor: str) -> None:
    """A made-up cursor is distinguished from the end of the list."""
    assert error_of(one_site.get(path, params={"cursor": cursor}))[0] == 400
