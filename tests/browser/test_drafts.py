"""Drafts: what a person entered outlives other people, other tabs, and a browser that is full."""

from __future__ import annotations

import re

from playwright.sync_api import Page, Route, expect

from tests.support.browser.lab_page_actions import (
    expect_heading,
    open_comparison,
    open_review,
    until,
)
from tests.support.browser.page_monitor import LEAVING, PageMonitor
from tests.support.browser.request_faults import FEEDBACK, SUBMIT, RequestFaults
from tests.support.lab_material import QUESTIONS, decide, entries, imported, pair
from tests.support.lab_servers import LabServer
from tests.support.labs import make_run

#: Takes all the room that the browser gives to what outlives a tab.
FILL = """() => {
  for (let size = 1 << 20, at = 0; size >= 1; size >>= 1) {
    try {
      for (;;) localStorage.setItem(`filler${at++}`, "x".repeat(size));
    } catch {}
  }
}"""
ROOM = """() => {
  for (const key of Object.keys(localStorage))
    if (key.startsWith("filler")) localStorage.removeItem(key);
}"""


def test_what_came_too_late_can_be_copied(page: Page, lab: LabServer, watch: PageMonitor) -> None:
    """All that was entered stands on the page, also after a reload, until it is thrown away."""
    watch.expect(409)
    experiment_id = pair(lab, questions=QUESTIONS)
    open_comparison(page, lab, experiment_id)
    page.get_by_role("radio", name="A better").check()
    page.get_by_label("What would you change?").fill("the ending")
    page.get_by_text(re.compile("^Rate B")).click()
    page.get_by_label("Hook, side B, exact number").fill("35")
    page.get_by_label("Notes, side B").fill("half an hour of notes")
    page.get_by_label("Tags, side B").fill("slow, loud")
    decide(lab, experiment_id)
    page.locator("#submit").click()
    leftover = page.locator("#leftover")
    for _ in range(2):
        expect_heading(page, "Decided")
        for text in ("the ending", "hook 35", "half an hour of notes", "slow, loud"):
            expect(leftover).to_contain_text(text)
        page.reload()
    page.get_by_role("button", name="Throw it away").click()
    expect(leftover).to_have_count(0)
    page.reload()
    expect_heading(page, "Decided")
    expect(leftover).to_have_count(0)


def test_two_tabs_have_two_drafts(page: Page, lab: LabServer, watch: PageMonitor) -> None:
    """Submitting a review in one tab leaves alone what was written in the other."""
    run_id = imported(lab, make_run(lab.directory, "two-tabs"))
    other = page.context.new_page()
    watch.over(other)
    for each, text in ((page, "first tab"), (other, "second tab")):
        open_review(each, lab, run_id)
        each.get_by_label("Notes").fill(text)
        expect(each.locator("#draft-state")).to_have_text("Draft kept.")
    page.locator("#submit").click()
    expect_heading(page)
    other.reload()
    expect(other.get_by_label("Notes")).to_have_value("second tab")


def test_a_draft_that_another_tab_overwrote_comes_back(
    page: Page, lab: LabServer, watch: PageMonitor
) -> None:
    """When the tab that wrote last is done, the draft of the other one is kept again."""
    run_id = imported(lab, make_run(lab.directory, "overwritten-draft"))
    other = page.context.new_page()
    watch.over(other)
    for each, text in ((other, "written first"), (page, "written last")):
        open_review(each, lab, run_id)
        each.get_by_label("Notes").fill(text)
        expect(each.locator("#draft-state")).to_have_text("Draft kept.")
    page.locator("#submit").click()
    expect_heading(page)
    name = f"draft.review.{run_id}"
    until(page, f"localStorage.getItem('onceward.lab.{name}')?.includes('written first')")


def test_two_tabs_have_two_submissions(page: Page, lab: LabServer, watch: PageMonitor) -> None:
    """A tab that is done does not forget what another one has under way."""
    watch.expect_restart()
    run_id = imported(lab, make_run(lab.directory, "two-under-way"))
    other = page.context.new_page()
    watch.over(other)
    held: list[Route] = []

    def hang(route: Route) -> None:
        held.append(route)

    page.route(FEEDBACK, hang, times=1)
    for each, text in ((page, "first tab"), (other, "second tab")):
        open_review(each, lab, run_id)
        each.get_by_label("Notes").fill(text)
    with page.expect_request(FEEDBACK):
        page.locator("#submit").click()
    other.route(FEEDBACK, lambda route: route.abort())
    other.locator("#submit").click()
    expect(other.locator(".sending")).to_contain_text("No answer from the server yet")
    held[0].continue_()
    expect_heading(page)
    # Still refused, so that it is the reloaded page that sends it.
    other.reload()
    expect(other.locator(".sending")).to_contain_text("No answer from the server yet")
    other.unroute_all()
    expect_heading(other)
    assert sorted(each["notes"] for each in entries(lab, runId=run_id)) == [
        "first tab",
        "second tab",
    ]


def test_a_server_that_dies_after_its_refusal(
    page: Page, mortal: LabServer, watch: PageMonitor
) -> None:
    """The earlier submission is reported at once; the page stays locked until it can show it."""
    watch.expect_restart()
    watch.expect(409)
    experiment_id = pair(mortal)
    open_comparison(page, mortal, experiment_id)
    decide(mortal, experiment_id)

    def answer_and_die(route: Route) -> None:
        answer = route.fetch()
        mortal.kill()
        route.fulfill(response=answer)

    page.route(SUBMIT, answer_and_die)
    page.get_by_role("radio", name="Both bad").check()
    page.locator("#submit").click()
    expect(page.locator(".sending")).to_contain_text("had already submitted")
    expect(page.locator("#banner")).to_contain_text("No answer from the server")
    expect(page.locator("#submit")).to_be_disabled()
    mortal.start()
    expect_heading(page, "Decided")
    expect(page.locator("#outcome")).to_have_text("≈ A tie.")


def test_what_counts_cannot_be_loaded(page: Page, lab: LabServer, watch: PageMonitor) -> None:
    """The earlier submission is reported all the same, and so is the error of loading it."""
    watch.expect(409, 404)
    experiment_id = pair(lab)
    open_comparison(page, lab, experiment_id)
    decide(lab, experiment_id)
    page.get_by_role("radio", name="Both bad").check()
    failure = {"error": {"code": "NOT_FOUND", "message": "there is none", "context": {}}}
    page.route(
        f"**/api/experiments/{experiment_id}", lambda each: each.fulfill(status=404, json=failure)
    )
    page.locator("#submit").click()
    said = page.locator(".sending")
    expect(said).to_contain_text("had already submitted")
    expect(said).to_contain_text("There is none")
    expect(page.locator("#submit")).to_be_disabled()


def test_a_browser_that_is_full(page: Page, lab: LabServer, watch: PageMonitor) -> None:
    """What is under way is kept for the tab, asks before it is left, and goes on after a reload."""
    watch.expect_restart()
    watch.expect(LEAVING)
    run_id = imported(lab, make_run(lab.directory, "full"))
    open_review(page, lab, run_id)
    notes = page.get_by_label("Notes")
    notes.fill("old")
    expect(page.locator("#draft-state")).to_have_text("Draft kept.")
    page.evaluate(FILL)
    notes.fill("newer, and longer than what was there")
    expect(page.locator("#draft-state")).to_have_text("Draft kept until this tab closes.")
    page.reload()
    expect(notes).to_have_value("newer, and longer than what was there")
    assert watch.seen == []
    road = RequestFaults(page, FEEDBACK, "arrives", "lost")
    page.locator("#submit").click()
    expect(page.locator(".sending")).to_contain_text("No answer from the server yet")
    page.reload()
    assert LEAVING in watch.seen
    road.open()
    expect_heading(page)
    assert len(entries(lab, runId=run_id)) == 1
    page.evaluate(ROOM)


def test_a_field_that_no_page_has(page: Page, lab: LabServer, watch: PageMonitor) -> None:
    """A refusal that names a field in an unknown way is shown above the button."""
    watch.expect(400)
    experiment_id = pair(lab, questions=QUESTIONS)
    open_comparison(page, lab, experiment_id)
    RequestFaults(page, SUBMIT, 400, field="answers[constrained-str[idea]]")
    page.get_by_role("radio", name="Tie").check()
    page.locator("#submit").click()
    expect(page.locator(".problem-box")).to_contain_text("No such thing")
