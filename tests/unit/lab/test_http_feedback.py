"""Feedback over HTTP: sent once, polled once, by cursor, tag and filter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from onceward.lab import response_models
from onceward.lab.request_models import NewFeedback
from tests.support.lab_http_client import Site, body_of, error_of
from tests.support.labs import feedback_of, make_experiment, paths_in


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


# --- request ids ----------------------------------------------------------------------------------


def test_a_double_submit_is_one_entry(site: Site) -> None:
    """The same request id, in the header or in the body, adds one entry and answers one id."""
    first = site.post("/api/feedback", {"notes": "good"}, "same")
    again = site.post("/api/feedback", {"notes": "good"}, "same")
    third = site.post("/api/feedback", {"notes": "good", "requestId": "same"})
    assert first.content == again.content == third.content
    assert len(feedback_of(site.lab)) == 1


def test_a_request_id_for_other_work_is_refused(site: Site) -> None:
    """A request never gets the result of another request."""
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
    added = body_of(site.post("/api/feedback", {"notes": "good"}), response_models.FeedbackAdded)
    page = body_of(site.get("/api/feedback", params={"since": "0"}), response_models.FeedbackPage)
    assert [each["id"] for each in page["items"]] == [added["feedbackId"]]
    again = body_of(
        site.get("/api/feedback", params={"since": page["nextCursor"]}),
        response_models.FeedbackPage,
    )
    assert again == {"items": [], "nextCursor": page["nextCursor"]}


def test_a_poll_of_a_missing_file_is_empty(site: Site) -> None:
    """Before the first entry there is nothing, and that is no error."""
    page = body_of(site.get("/api/feedback"), response_models.FeedbackPage)
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


@pytest.mark.parametrize("path", ["/api/feedback", "/api/runs", "/api/experiments"])
def test_a_limit_is_read_as_the_original_reads_it(site: Site, path: str) -> None:
    """Leading digits count; what is no positive number is as if it were not there."""
    for number in range(4):
        site.lab.add_feedback(NewFeedback(notes=str(number)))
        make_experiment(site.lab, site.directory, sides=2 + number)
    total = len(site.get(path).json()["items"])
    for limit in ("2", "2abc", " 2", "+2", "2.9", "002"):
        assert len(site.get(path, params={"limit": limit}).json()["items"]) == 2, limit
    for limit in ("", "0", "000", "-1", "abc", "٢", "0x2", "501", "9" * 5000):
        assert len(site.get(path, params={"limit": limit}).json()["items"]) == total, limit


def test_an_empty_cursor_is_the_start(site: Site) -> None:
    """A client that keeps its cursor in an empty file begins at the beginning."""
    site.post("/api/feedback", {"notes": "good"})
    empty = site.get("/api/feedback", params={"since": ""})
    assert empty.json() == site.get("/api/feedback", params={"since": "0"}).json()


def test_a_cursor_that_does_not_fit_is_refused(site: Site) -> None:
    """No number, not the start of a line, or beyond the end: the answer says how to go on."""
    site.post("/api/feedback", {"notes": "good"})
    for since in ["-1", "1.5", "x", "00", "9" * 30, "1", "1000", " 0", "\u0661"]:
        status, code, context = error_of(site.get("/api/feedback", params={"since": since}))
        assert (status, code) == (400, "INVALID_CURSOR")
        assert '"0"' in context["fix"]


def test_h10_a_replaced_file_is_noticed_by_its_tag(site: Site, tmp_path: Path) -> None:
    """A client that sends the tag back learns that its cursor is for another file."""
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
