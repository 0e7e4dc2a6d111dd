"""Ambiguous submissions: an attempt without an answer may have arrived; it counts once."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.browser.lab_page_actions import expect_heading, open_comparison, open_review
from tests.support.browser.page_monitor import PageMonitor
from tests.support.browser.request_faults import FEEDBACK, SUBMIT, RequestFaults
from tests.support.lab_material import counts_once, decide, entries, imported, pair
from tests.support.lab_servers import LabServer
from tests.support.labs import make_run

ARRIVED = "Your first version had arrived"


@pytest.fixture
def run_id(lab: LabServer, request: pytest.FixtureRequest) -> str:
    """A run that no other test has reviewed."""
    name = request.node.name.translate({ord("["): "-", ord("]"): "-"})
    return imported(lab, make_run(lab.directory, name))


def notes_of(lab: LabServer, run_id: str) -> list[str]:
    return [each["notes"] for each in entries(lab, runId=run_id)]


def edit_instead(page: Page, road: RequestFaults, control: Locator, text: str) -> None:
    """Stop waiting, change something, and submit it on a road that is open."""
    page.get_by_role("button", name="Edit instead").click()
    expect(page.locator(".sending")).to_contain_text("Not sent again.")
    road.open()
    control.fill(text)
    page.locator("#submit").click()


def test_a_refusal_after_an_ambiguous_attempt(
    page: Page, lab: LabServer, watch: PageMonitor, run_id: str
) -> None:
    """It is not called refused, and the same judgement sent again is the same entry."""
    watch.expect_restart()
    watch.expect(404)
    open_review(page, lab, run_id)
    road = RequestFaults(page, FEEDBACK, "arrives", 404)
    page.get_by_label("Notes").fill("once please")
    page.locator("#submit").click()
    said = page.locator(".problem-box")
    expect(said).to_contain_text("may have arrived")
    expect(said).not_to_contain_text("Not submitted")
    road.open()
    page.reload()
    page.locator("#submit").click()
    expect_heading(page)
    assert notes_of(lab, run_id) == ["once please"]
    assert len(set(road.ids)) == 1


def test_a_field_that_is_refused_after_an_ambiguous_attempt(
    page: Page, lab: LabServer, watch: PageMonitor, run_id: str
) -> None:
    """The message stands at its field, and beside the button that an attempt may have arrived."""
    watch.expect_restart()
    watch.expect(400)
    open_review(page, lab, run_id)
    road = RequestFaults(page, FEEDBACK, "lost")
    page.get_by_label("Hook, exact number").fill("150")
    page.locator("#submit").click()
    expect(page.locator(".sending")).to_contain_text("No answer from the server yet")
    road.open()
    expect(page.locator(".field-error")).to_contain_text("from 0 to 100")
    expect(page.locator(".sending")).to_contain_text("may have arrived")
    page.get_by_label("Hook, exact number").fill("50")
    page.locator("#submit").click()
    expect_heading(page)
    assert [each["ratings"] for each in entries(lab, runId=run_id)] == [{"hook": 50}]


@pytest.mark.parametrize("fate", ["arrives", "lost"])
def test_a_review_that_was_edited_while_ambiguous(
    page: Page, lab: LabServer, watch: PageMonitor, run_id: str, fate: str
) -> None:
    """If the first version had arrived it is said and asked, else the edited one counts."""
    watch.expect_restart()
    watch.expect(422)
    open_review(page, lab, run_id)
    road = RequestFaults(page, FEEDBACK, fate, "lost")
    notes = page.get_by_label("Notes")
    notes.fill("first")
    page.locator("#submit").click()
    edit_instead(page, road, notes, "second")
    if fate == "arrives":
        expect(page.locator(".sender")).to_contain_text(ARRIVED)
        expect(page.locator("#submit")).to_be_disabled()
        page.get_by_role("button", name="Keep only the first").click()
    expect_heading(page)
    counted = "first" if fate == "arrives" else "second"
    expect(page.locator("blockquote")).to_have_text(counted)
    assert notes_of(lab, run_id) == [counted]


def test_a_second_review_is_added_only_when_that_is_meant(
    page: Page, lab: LabServer, watch: PageMonitor, run_id: str
) -> None:
    """The question survives a reload, and what is added then is not called the only one."""
    watch.expect_restart()
    watch.expect(422)
    open_review(page, lab, run_id)
    road = RequestFaults(page, FEEDBACK, "arrives", "lost")
    notes = page.get_by_label("Notes")
    notes.fill("first")
    page.locator("#submit").click()
    edit_instead(page, road, notes, "second")
    expect(page.locator(".sender")).to_contain_text(ARRIVED)
    page.reload()
    expect(notes).to_have_value("second")
    page.locator("#submit").click()
    expect(page.locator(".sender")).to_contain_text(ARRIVED)
    assert notes_of(lab, run_id) == ["first"]
    page.get_by_role("button", name="Add this as a second judgement").click()
    expect_heading(page)
    expect(page.locator("#ending-title")).to_contain_text("second judgement")
    assert notes_of(lab, run_id) == ["first", "second"]


def test_several_versions_of_an_ambiguous_review(
    page: Page, lab: LabServer, watch: PageMonitor, run_id: str
) -> None:
    """Whichever version had arrived is the one that is shown."""
    watch.expect_restart()
    watch.expect(422)
    open_review(page, lab, run_id)
    road = RequestFaults(page, FEEDBACK, "lost")
    notes = page.get_by_label("Notes")
    notes.fill("one")
    page.locator("#submit").click()
    page.get_by_role("button", name="Edit instead").click()
    expect(page.locator(".sending")).to_contain_text("Not sent again.")
    road.open("arrives", "lost")
    notes.fill("two")
    page.locator("#submit").click()
    edit_instead(page, road, notes, "three")
    page.get_by_role("button", name="Keep only the first").click()
    expect_heading(page)
    expect(page.locator("blockquote")).to_have_text("two")
    assert notes_of(lab, run_id) == ["two"]


def test_a_decision_that_was_edited_while_ambiguous(
    page: Page, lab: LabServer, watch: PageMonitor
) -> None:
    """When the first version had decided, that is the end, and the changes stay readable."""
    watch.expect_restart()
    watch.expect(422)
    experiment_id = pair(lab)
    open_comparison(page, lab, experiment_id)
    road = RequestFaults(page, SUBMIT, "arrives", "lost")
    page.get_by_role("radio", name="Tie").check()
    page.locator("#submit").click()
    page.get_by_role("button", name="Edit instead").click()
    page.get_by_role("radio", name="Both bad").check()
    road.open()
    page.locator("#reason").fill("on second thought")
    page.locator("#submit").click()
    expect_heading(page)
    expect(page.locator("#outcome")).to_have_text("≈ A tie.")
    expect(page.locator(".notice.warn")).to_contain_text(ARRIVED)
    expect(page.locator("#leftover")).to_contain_text("on second thought")
    counts_once(lab, experiment_id)


def test_an_ambiguous_decision_that_another_person_preceded(
    page: Page, lab: LabServer, watch: PageMonitor
) -> None:
    """The decision of another person is not taken for one's own."""
    watch.expect_restart()
    watch.expect(409)
    experiment_id = pair(lab)
    open_comparison(page, lab, experiment_id)
    road = RequestFaults(page, SUBMIT, "lost")
    page.get_by_role("radio", name="Both bad").check()
    page.locator("#submit").click()
    decide(lab, experiment_id)
    edit_instead(page, road, page.locator("#reason"), "too late")
    expect_heading(page, "Decided")
    expect(page.locator("#outcome")).to_have_text("≈ A tie.")
    expect(page.locator(".notice.warn")).to_contain_text("had already submitted")
    expect(page.locator("#leftover")).to_contain_text("too late")
    counts_once(lab, experiment_id)
