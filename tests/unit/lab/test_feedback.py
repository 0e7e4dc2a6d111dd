"""Feedback: appends by any process, and polls that miss and repeat no entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from onceward.errors import InvalidArgument, InvalidCursor, NotFound
from onceward.journal import Journal
from onceward.lab.lab import Lab
from onceward.lab.request_models import NewFeedback, build_request, check_request_id
from tests.support.labs import feedback_of, make_experiment, make_lab, make_run


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return make_lab(tmp_path)


@pytest.mark.parametrize("since", ["", "-1", "1.5", "x", "01", "1e3", " 1", "٣", "9" * 30])
def test_plan_cursor_parsing_invalid_negative_non_integer(lab: Lab, since: str) -> None:
    """What is not a plain whole number is no cursor."""
    lab.add_feedback(NewFeedback(notes="x"))
    with pytest.raises(InvalidCursor):
        lab.poll(since)


def test_plan_partial_trailing_line_does_not_advance_the_cursor(lab: Lab) -> None:
    """A line without its newline is not consumed until it is whole, then once."""
    lab.add_feedback(NewFeedback(notes="x"))
    before = lab.poll()
    line = b'{"id":"fb_theirs","createdAt":"t"'
    with lab.paths.feedback.open("ab") as file:
        file.write(line)
    assert lab.poll().next_cursor == before.next_cursor
    with lab.paths.feedback.open("ab") as file:
        file.write(b"}\n")
    page = lab.poll(before.next_cursor)
    assert [each["id"] for each in page.items] == ["fb_theirs"]
    assert lab.poll(page.next_cursor).items == []


def test_plan_session_filter_does_not_change_the_next_cursor(tmp_path: Path, lab: Lab) -> None:
    """Entries of others, and those without a session, are passed and not returned."""
    other = make_lab(tmp_path)
    for each in (lab, other, lab, other):
        each.add_feedback(NewFeedback(notes="x"))
    Journal(lab.paths.feedback).append({"id": "none", "createdAt": "t"})
    page = lab.poll(session_id=lab.session.session_id)
    assert len(page.items) == 2
    assert page.next_cursor == lab.poll().next_cursor
    assert lab.poll(session_id="lab_unknown").next_cursor == page.next_cursor
    assert lab.poll(session_id="lab_unknown").items == []


def test_plan_cursor_ahead_of_the_file_is_invalid(lab: Lab) -> None:
    """Also when there is no file yet; the fix is to start again from "0"."""
    with pytest.raises(InvalidCursor) as refused:
        lab.poll("1")
    assert '"0"' in refused.value.fix
    lab.add_feedback(NewFeedback(notes="x"))
    size = lab.paths.feedback.stat().st_size
    assert lab.poll(str(size)).items == []
    with pytest.raises(InvalidCursor):
        lab.poll(str(size + 1))


def test_plan_missing_store_file_is_empty(lab: Lab) -> None:
    """No file means nothing yet, not a failure."""
    page = lab.poll()
    assert (page.items, page.next_cursor) == ([], "0")


def test_plan_limit_drops_nothing(lab: Lab) -> None:
    """Page by page, every entry comes once."""
    build_request = [lab.add_feedback(NewFeedback(notes="x")).body["feedbackId"] for _ in range(7)]
    seen, page = [], lab.poll(limit=2)
    while page.items:
        seen += [each["id"] for each in page.items]
        page = lab.poll(page.next_cursor, limit=2)
    assert seen == build_request


def test_plan_malformed_lines_are_passed_once(lab: Lab) -> None:
    """Complete but unreadable lines move the cursor and are not returned."""
    lab.add_feedback(NewFeedback(notes="x"))
    before = lab.poll().next_cursor
    with lab.paths.feedback.open("ab") as file:
        file.write(b'nonsense\n{"id":5}\n\xff\n')
    page = lab.poll(before)
    assert page.items == []
    assert int(page.next_cursor) == lab.paths.feedback.stat().st_size


def test_h06_an_entry_after_a_torn_line_is_whole(lab: Lab) -> None:
    """A writer died in the middle of a line: the next entry is readable, the torn line skipped."""
    lab.add_feedback(NewFeedback(notes="before"))
    with lab.paths.feedback.open("ab") as file:
        file.write(b'{"id":"torn","createdAt":"t","no')
    lab.add_feedback(NewFeedback(notes="after"))
    assert [each["notes"] for each in feedback_of(lab)] == ["before", "after"]


def test_h10_a_replaced_file_is_noticed(lab: Lab) -> None:
    """Another file of the same length under the same name: the tag tells."""
    lab.add_feedback(NewFeedback(notes="aaaa"))
    page = lab.poll()
    content = lab.paths.feedback.read_bytes()
    lab.paths.feedback.unlink()
    lab.paths.feedback.write_bytes(content.replace(b"aaaa", b"bbbb"))
    with pytest.raises(InvalidCursor):
        lab.poll(page.next_cursor, tag=page.tag)
    lab.paths.feedback.write_bytes(b"")
    with pytest.raises(InvalidCursor):
        lab.poll(page.next_cursor)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"runId": "run_x"},
        {"topic": "cats"},
        {"notes": "  \n"},
        {"ratings": {}, "tags": [], "answers": {}},
        {"runId": "run_x", "answers": {"q": None}},
    ],
)
def test_an_entry_with_nothing_in_it_is_refused(body: dict[str, Any]) -> None:
    """Ids and topics alone are no judgement."""
    with pytest.raises(ValidationError, match="the feedback is empty"):
        NewFeedback.model_validate(body)


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"notes": "\ud800"}, "notes"),
        ({"notes": "x" * 20_001}, "notes"),
        ({"tags": ["x"] * 51}, "tags"),
        ({"answers": {"q": float("nan")}}, "answers"),
        ({"answers": {"q": {"deep": 1}}}, "answers"),
        ({"notes": "x", "extra": {}}, "extra"),
        ({"notes": "x", "requestId": "\n"}, "requestId"),
    ],
)
def test_what_a_file_could_not_hold_is_refused_by_name(body: dict[str, Any], name: str) -> None:
    """Half surrogates, endless texts, numbers that JSON cannot carry, unknown names."""
    with pytest.raises(ValidationError, match=name):
        NewFeedback.model_validate(body)


def test_an_answer_that_is_refused_is_named_as_it_was_sent() -> None:
    """Not by the kinds of values that were tried in vain."""
    for value in ("x" * 20_001, {"deep": 1}, ["deep"], "\ud800"):
        body = {"answers": {"q1": value}}
        with pytest.raises(InvalidArgument) as refused:
            build_request(lambda: NewFeedback.model_validate(body))  # noqa: B023 - called at once
        assert refused.value.context["field"] == "answers.q1"


def test_feedback_about_a_side_must_fit_the_experiment(tmp_path: Path, lab: Lab) -> None:
    """The run is found from the variant; contradictions and strangers are refused."""
    experiment = make_experiment(lab, tmp_path)
    side = experiment.variants[0]
    entry = {"experimentId": experiment.experiment_id, "notes": "x"}
    lab.add_feedback(NewFeedback.model_validate({**entry, "variantId": side.variant_id}))
    assert feedback_of(lab)[0]["runId"] == side.run_id
    other = lab.import_run(str(make_run(tmp_path, "other"))).run_id
    for fields, name in [
        ({"variantId": "var_x"}, "variantId"),
        ({"variantId": "baseline", "runId": side.run_id}, "runId"),
        ({"runId": other}, "runId"),
    ]:
        with pytest.raises(InvalidArgument, match=name):
            lab.add_feedback(NewFeedback.model_validate({**entry, **fields}))
    for fields in ({"runId": "run_x"}, {"experimentId": "exp_x"}):
        with pytest.raises(NotFound):
            lab.add_feedback(NewFeedback.model_validate({"notes": "x", **fields}))
    assert len(feedback_of(lab)) == 1


def test_request_ids_are_printable_and_say_one_thing(lab: Lab) -> None:
    """1 to 200 printable characters; header and body may not disagree."""
    for request_id in ("", "x" * 201, "a\nb", "é", 5, None):
        with pytest.raises(InvalidArgument, match="requestId"):
            check_request_id(request_id)
    assert check_request_id("~ 1") == "~ 1"
    with pytest.raises(InvalidArgument, match="different request ids"):
        lab.add_feedback(NewFeedback(notes="x", requestId="a"), "b")
    assert not lab.paths.feedback.exists()


def test_a_change_notifies_waiting_requests(lab: Lab) -> None:
    """Once for each new entry, not for replays."""
    rung: list[int] = []
    lab.on_change(lambda: rung.append(1))
    lab.add_feedback(NewFeedback(notes="x"), "a")
    lab.add_feedback(NewFeedback(notes="x"), "a")
    assert len(rung) == 1
    assert lab.submitted == 1
