"""The keyboard: a comparison without a mouse, and keys that stay out of the way."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.lab_page_actions import (
    expect_heading,
    open_comparison,
    open_review,
    tab_to,
    until,
)
from tests.support.lab_material import (
    QUESTIONS,
    comparison,
    counts_once,
    entries,
    imported,
    make_video,
    pair,
)
from tests.support.lab_servers import LabServer
from tests.support.labs import make_run

ALL = "[...document.querySelectorAll('video')]"


def videos(lab: LabServer) -> list[Path]:
    places = [make_run(lab.directory, f"video-{each}") for each in ("one", "two")]
    for place in places:
        if not (place / "video.mp4").exists():
            make_video(place)
    return places


def loaded(page: Page) -> None:
    until(page, f"{ALL}.length === 2 && {ALL}.every((each) => each.readyState > 1)")


def at(page: Page, seconds: float) -> None:
    """Wait until both videos stand at a position."""
    near = f"!each.seeking && Math.abs(each.currentTime - {seconds}) < 0.3"
    until(page, f"{ALL}.every((each) => {near})")


def test_a_comparison_with_the_keyboard_alone(page: Page, lab: LabServer) -> None:
    """Watching, answering, rating, writing and deciding need no mouse."""
    experiment_id = comparison(lab, *videos(lab), name="Hooks", questions=QUESTIONS)
    open_comparison(page, lab, experiment_id)
    loaded(page)
    page.keyboard.press("Space")
    until(page, f"{ALL}.every((each) => !each.paused && each.currentTime > 0.2)")
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    page.keyboard.press("k")
    until(page, f"{ALL}.every((each) => each.paused)")
    here = page.evaluate(f"{ALL}[0].currentTime")
    page.keyboard.press("l")
    at(page, here + 5)
    page.keyboard.press("j")
    at(page, here)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)

    tab_to(page, page.get_by_role("radio", name="Yes"))
    page.keyboard.press("Space")
    tab_to(page, page.get_by_label("What would you change?"))
    page.keyboard.type("2 words, less.")
    page.keyboard.press("Escape")
    tab_to(page, page.get_by_text(re.compile("^Rate A")))
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_role("slider", name="Hook, side A", exact=True))
    page.keyboard.press("ArrowRight")
    tab_to(page, page.get_by_label("Notes, side A"))
    page.keyboard.type("a slow start")
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    page.keyboard.type("it begins at once")
    page.keyboard.press("Escape")
    page.keyboard.press("2")
    expect(page.get_by_role("radio", name="B better")).to_be_checked()
    page.keyboard.press("Enter")
    expect_heading(page)

    counts_once(lab, experiment_id)
    experiment = lab.get(f"/api/experiments/{experiment_id}").json()
    assert experiment["answers"] == {"clear": "yes", "idea": "2 words, less."}
    assert experiment["reason"] == "it begins at once"
    judged = {each.get("notes"): each for each in entries(lab, experimentId=experiment_id)}
    assert judged["a slow start"]["ratings"] == {"hook": 51}
    assert judged["a slow start"]["variantId"] != experiment["winner"]["variantId"]


def test_unlinked_videos_play_apart(page: Page, lab: LabServer) -> None:
    """Unlinked, the keys act on the video touched last; linked again, both are together."""
    open_comparison(page, lab, comparison(lab, *videos(lab)))
    loaded(page)
    linked = page.get_by_role("button", name="Linked")
    linked.click()
    page.get_by_label("Video, side B").focus()
    page.keyboard.press("l")
    until(page, f"{ALL}[1].currentTime > 4 && {ALL}[0].currentTime === 0")
    expect(page.get_by_text("These controls act on B")).to_be_visible()
    linked.click()
    at(page, 0)
    page.get_by_label("Video, side A").evaluate("(video) => (video.currentTime = 3)")
    at(page, 3)


def test_enter_without_a_choice_asks_for_one(page: Page, lab: LabServer) -> None:
    """Nothing is sent, and the focus goes to where the choice is."""
    open_comparison(page, lab, experiment_id := pair(lab))
    page.keyboard.press("Enter")
    expect(page.locator("#verdict-error")).to_contain_text("choose one of these first")
    expect(page.get_by_role("radio", name="A better")).to_be_focused()
    assert entries(lab, experimentId=experiment_id) == []


def test_keys_in_fields_are_text(page: Page, lab: LabServer) -> None:
    """In a field a letter is a letter, and Enter begins a line."""
    open_comparison(page, lab, experiment_id := pair(lab, questions=QUESTIONS))
    page.keyboard.press("n")
    expect(page.locator("#reason")).to_be_focused()
    page.keyboard.type("1 jkl n?")
    page.keyboard.press("Enter")
    page.keyboard.type("second line")
    expect(page.locator("#reason")).to_have_value("1 jkl n?\nsecond line")
    page.get_by_label("What would you change?").press("Enter")
    page.get_by_text(re.compile("^Rate B")).click()
    page.get_by_label("Tags, side B").press("Enter")
    expect(page.locator("#verdict :checked")).to_have_count(0)
    expect(page.locator("#verdict-error")).to_be_hidden()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert entries(lab, experimentId=experiment_id) == []


def test_keys_with_modifiers_belong_to_the_browser(page: Page, lab: LabServer) -> None:
    """Ctrl, Alt and Shift with a key do nothing here."""
    open_comparison(page, lab, pair(lab))
    for chord in ("Control+1", "Alt+1", "Shift+N", "Control+Enter"):
        page.keyboard.press(chord)
    expect(page.locator("#verdict :checked")).to_have_count(0)
    expect(page.locator("#verdict-error")).to_be_hidden()
    expect(page.locator("#reason")).not_to_be_focused()


def test_keys_can_be_switched_off(page: Page, lab: LabServer) -> None:
    """Switched off they do nothing and are not printed, also after a reload."""
    open_comparison(page, lab, pair(lab))
    page.get_by_role("button", name="Keys", exact=True).click()
    for _ in range(2):
        page.locator("h1").click()
        for key in ("1", "n", "Enter", "?"):
            page.keyboard.press(key)
        expect(page.locator("#verdict :checked")).to_have_count(0)
        expect(page.locator("#verdict-error")).to_be_hidden()
        expect(page.locator("#verdict kbd:visible")).to_have_count(0)
        page.reload()
        expect(page.locator("#submit")).to_be_visible()
    page.get_by_role("button", name="Keys", exact=True).click()
    page.locator("h1").click()
    page.keyboard.press("1")
    expect(page.get_by_role("radio", name="A better")).to_be_checked()


@pytest.mark.parametrize("way", ["compare", "review"])
def test_a_draft_survives_a_reload(page: Page, lab: LabServer, way: str) -> None:
    """What was entered is there again, to the last letter, and is gone once it is submitted."""
    if way == "compare":
        open_comparison(page, lab, pair(lab, questions=QUESTIONS))
        page.keyboard.press("4")
        page.get_by_role("radio", name="Unsure").check()
        page.get_by_text(re.compile("^Rate A")).click()
        page.get_by_label("Pacing, side A, exact number").fill("7")
    else:
        open_review(page, lab, imported(lab, make_run(lab.directory, "drafted")))
        page.get_by_label("Tags").fill("quick, calm")
        page.get_by_label("Pacing, exact number").fill("7")
    text = page.locator("#reason" if way == "compare" else "textarea").last
    text.fill("half a sent")
    page.reload()
    expect(page.locator("#draft-state")).to_have_text("Draft restored.")
    expect(text).to_have_value("half a sent")
    if way == "compare":
        expect(page.get_by_role("radio", name="Both bad")).to_be_checked()
        expect(page.get_by_role("radio", name="Unsure")).to_be_checked()
        expect(page.get_by_label("Pacing, side A, exact number")).to_have_value("7")
    else:
        expect(page.get_by_label("Tags")).to_have_value("quick, calm")
        expect(page.get_by_label("Pacing, exact number")).to_have_value("7")
    page.locator("#submit").click()
    expect_heading(page)
    kept = page.evaluate("Object.keys(localStorage)")
    assert [each for each in kept if "draft" in each or "pending" in each] == []
