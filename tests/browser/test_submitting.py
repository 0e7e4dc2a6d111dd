"""Submitting in a browser: clicked twice, reloaded, killed, refused, late; it counts once."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.browser.lab_page_actions import expect_heading, open_comparison
from tests.support.browser.page_monitor import PageMonitor
from tests.support.lab_material import (
    comparison,
    counts_once,
    decide,
    entries,
    imported,
    pair,
    submissions,
)
from tests.support.lab_servers import LabServer
from tests.support.labs import make_run

SUBMIT = "**/submit"


def test_a_double_click_is_one_submission(page: Page, lab: LabServer) -> None:
    """The second click finds a button that is already at work."""
    experiment_id = pair(lab)
    open_comparison(page, lab, experiment_id)
    page.get_by_role("radio", name="A better").check()
    page.locator("#submit").dblclick()
    expect_heading(page)
    counts_once(lab, experiment_id)


def test_keys_pressed_again_and_again_are_one_submission(page: Page, lab: LabServer) -> None:
    """Enter that is held down or hammered submits once."""
    experiment_id = pair(lab)
    open_comparison(page, lab, experiment_id)
    page.keyboard.press("3")
    for _ in range(5):
        page.keyboard.press("Enter")
    expect_heading(page)
    counts_once(lab, experiment_id)


def test_two_tabs_are_one_submission(page: Page, lab: LabServer, watch: PageMonitor) -> None:
    """The same comparison in another tab learns that it is decided, by whom it was first."""
    watch.expect(409)
    experiment_id = pair(lab)
    open_comparison(page, lab, experiment_id)
    other = page.context.new_page()
    watch.over(other)
    open_comparison(other, lab, experiment_id)
    for each, key in ((page, "1"), (other, "3")):
        each.keyboard.press(key)
        each.keyboard.press("Enter")
        expect(each.locator("#outcome")).to_be_visible()
    counts_once(lab, experiment_id)
    expect(other.locator("#outcome")).to_have_text(re.compile("is better"))


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_a_reload_in_the_middle_is_one_submission(page: Page, lab: LabServer, lost: str) -> None:
    """The new page goes on by itself, and an old request that arrives late changes nothing."""
    experiment_id = pair(lab)
    open_comparison(page, lab, experiment_id)
    held: list[Route] = []

    def hang(route: Route) -> None:
        if lost == "answer":
            assert route.fetch().ok
        held.append(route)

    page.route(SUBMIT, hang, times=1)
    page.get_by_role("radio", name="Both bad").check()
    with page.expect_request(SUBMIT) as sent:
        page.locator("#submit").click()
    expect(page.locator(".sending")).to_have_text("Submitting…")
    page.reload()
    expect_heading(page)
    expect(page.locator("#outcome")).to_have_text("✕ Both are bad.")
    headers = {
        name: value
        for name, value in sent.value.headers.items()
        if name.startswith(("x-", "con", "auth"))
    }
    late = httpx.post(
        sent.value.url, content=sent.value.post_data, headers=headers, trust_env=False
    )
    assert late.status_code == 200
    assert late.headers["idempotent-replayed"] == "true"
    counts_once(lab, experiment_id)


@pytest.mark.parametrize("point", ["before_intent", "after_entries", "after_done"])
def test_a_server_killed_between_click_and_answer_is_one_submission(
    page: Page, mortal: LabServer, watch: PageMonitor, point: str
) -> None:
    """The page asks again until a server answers, and ends by itself."""
    watch.expect_restart()
    experiment_id = pair(mortal)
    mortal.kill()
    mortal.start(f"lab.request.{point}:1:kill")
    open_comparison(page, mortal, experiment_id)
    page.keyboard.press("2")
    page.keyboard.press("Enter")
    expect(page.locator(".sending")).to_contain_text("No answer from the server yet")
    assert mortal.process is not None
    mortal.process.wait(timeout=60)
    mortal.kill()
    mortal.start()
    expect_heading(page)
    counts_once(mortal, experiment_id)


def test_a_review_whose_server_is_killed_is_one_entry(
    page: Page, mortal: LabServer, watch: PageMonitor
) -> None:
    """Feedback about one run arrives as surely as a decision."""
    watch.expect_restart()
    run_id = imported(mortal, make_run(mortal.directory, "one"))
    mortal.kill()
    mortal.start("lab.request.after_entries:1:kill")
    page.goto(f"{mortal.url}/lab/review/{run_id}")
    page.get_by_label("Notes").fill("fine")
    page.locator("#submit").click()
    expect(page.locator(".sending")).to_contain_text("No answer from the server yet")
    assert mortal.process is not None
    mortal.process.wait(timeout=60)
    mortal.kill()
    mortal.start()
    expect_heading(page)
    assert [each["notes"] for each in entries(mortal)] == ["fine"]


def test_what_the_server_refuses_can_be_corrected(
    page: Page, lab: LabServer, watch: PageMonitor
) -> None:
    """The message stands at its field, which is open and has the focus; then it is accepted."""
    watch.expect(400)
    experiment_id = pair(lab)
    open_comparison(page, lab, experiment_id)
    page.get_by_role("radio", name="Tie").check()
    rate = page.get_by_text(re.compile("^Rate B"))
    rate.click()
    page.get_by_label("Hook, side B, exact number").fill("150")
    rate.click()
    page.locator("#submit").click()
    field = page.get_by_label("Hook, side B, exact number")
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-invalid", "true")
    said = page.locator(".field-error:visible")
    expect(said).to_contain_text("from 0 to 100")
    expect(said).not_to_contain_text("perRun")
    assert submissions(lab, experiment_id) == {}
    field.fill("50")
    page.locator("#submit").click()
    expect_heading(page)
    counts_once(lab, experiment_id)
    rated = [each.get("ratings") for each in entries(lab, experimentId=experiment_id)]
    assert {"hook": 50} in rated


def test_an_earlier_decision_of_another_person_is_shown(
    page: Page, lab: LabServer, watch: PageMonitor
) -> None:
    """The later submitter sees the decision that counts, and which of their own input does not."""
    watch.expect(409)
    experiment_id = pair(lab, name="Cats")
    open_comparison(page, lab, experiment_id)
    decide(lab, experiment_id, outcome="tie", reason="no difference at all")
    page.keyboard.press("1")
    page.locator("#reason").fill("A is quicker")
    page.locator("#submit").click()
    expect_heading(page, "Decided")
    expect(page.locator("#outcome")).to_have_text("≈ A tie.")
    expect(page.get_by_text("no difference at all")).to_be_visible()
    unused = page.locator(".notice.warn")
    expect(unused).to_contain_text("had already submitted this comparison.")
    expect(unused).to_contain_text("A is quicker")
    counts_once(lab, experiment_id)
    page.reload()
    expect_heading(page, "Decided")
    expect(page.locator("#outcome")).to_have_text("≈ A tie.")
    expect(page.locator("#submit")).to_have_count(0)


def test_editing_instead_of_waiting_keeps_what_was_entered(
    page: Page, mortal: LabServer, watch: PageMonitor
) -> None:
    """A user need not wait for the server: they go on editing, and submit when it is back."""
    watch.expect_restart()
    experiment_id = pair(mortal)
    open_comparison(page, mortal, experiment_id)
    mortal.kill()
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    with page.expect_event("requestfailed"):
        page.get_by_role("button", name="Try now").press("Enter")
    expect(page.get_by_role("button", name="Try now")).to_be_focused()
    page.get_by_role("button", name="Edit instead").click()
    expect(page.get_by_role("radio", name="A better")).to_be_checked()
    page.get_by_role("radio", name="Tie").check()
    mortal.start()
    page.locator("#submit").click()
    expect_heading(page)
    expect(page.locator("#outcome")).to_have_text("≈ A tie.")
    counts_once(mortal, experiment_id)


def test_three_sides_are_one_submission(page: Page, lab: LabServer) -> None:
    """With more than two sides the best of all is chosen, and each has its entry."""
    sides = [make_run(lab.directory, f"three-{each}", f"topic {each}") for each in range(3)]
    experiment_id = comparison(lab, *sides)
    open_comparison(page, lab, experiment_id)
    page.get_by_role("radio", name="C best").check()
    page.locator("#submit").click()
    expect_heading(page)
    expect(page.locator("#outcome")).to_have_text(re.compile(r"\(C\) is best"))
    counts_once(lab, experiment_id, sides=3)
