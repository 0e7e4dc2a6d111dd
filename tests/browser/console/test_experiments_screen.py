"""Experiments: judge in a page inside the console, by keyboard, once; and read who wins."""

from __future__ import annotations

import json
import re
from collections import Counter
from urllib.parse import parse_qs, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import FrameLocator, Page, expect

from tests.support.browser.accessibility_checks import assert_accessible
from tests.support.browser.keyboard import press_keys
from tests.support.browser.lab_page_actions import tab_to, until
from tests.support.browser.page_monitor import PageMonitor
from tests.support.console_servers import Console, Visit

TABS_MAX = 80


def inside(page: Page) -> FrameLocator:
    return page.frame_locator("iframe.framed-page")


def framed_page(page: Page) -> str:
    """Return the page of the Lab that the address names."""
    return parse_qs(urlsplit(page.url).query).get("page", [""])[0]


def submissions(console: Console) -> Counter[str]:
    """Return how many lines of the feedback file each request has, but for what was seeded."""
    lines = (console.home.path / "feedback" / "feedback.jsonl").read_text().splitlines()
    found = [json.loads(line)["extra"]["requestId"] for line in lines]
    return Counter(each for each in found if each != "seeded")


def step_inside(page: Page) -> None:
    """Walk with Tab until the focus is in the frame."""
    for _ in range(TABS_MAX):
        press_keys(page, "Tab")
        if page.evaluate("document.activeElement.tagName") == "IFRAME":
            return
    message = "the frame cannot be reached with Tab"
    raise AssertionError(message)


def test_a_comparison_is_judged_by_keyboard_and_counts_once(
    page: Page, mortal: Console, visit: Visit
) -> None:
    """The next one to judge is there at once; Enter, pressed again and again, submits it once."""
    visit(mortal, "/experiments?tab=compare", "Lab")
    expect(inside(page).get_by_role("heading", level=1, name="Endings")).to_be_visible()
    assert framed_page(page).startswith("/lab/compare/exp_")
    expect(inside(page).locator("header.top")).to_be_hidden()
    step_inside(page)
    press_keys(page, "2")
    expect(inside(page).get_by_role("radio", name="B better")).to_be_checked()
    tab_to(page, inside(page).locator("#submit"))
    for _ in range(3):
        press_keys(page, "Enter")
    expect(inside(page).get_by_role("heading", level=1, name="Submitted")).to_be_visible()
    assert list(submissions(mortal).values()) == [2]  # one entry for each side
    expect(page.get_by_text("Nothing left to judge, 2 decided")).to_be_visible()
    page.get_by_role("link", name="Comparisons", exact=True).click()
    rows = page.get_by_role("table", name="Comparisons").get_by_role("row")
    expect(rows.filter(has_text="Endings")).to_contain_text("decided")


def test_keys_inside_are_not_heard_outside(page: Page, console: Console, visit: Visit) -> None:
    """What is pressed in the frame moves no screen, and Tab leads in and out again."""
    visit(console, "/experiments?tab=compare", "Lab")
    expect(inside(page).locator("#submit")).to_be_visible()
    address = page.url
    step_inside(page)
    for key in ("g", "c", "t", "p"):
        press_keys(page, key)
    assert page.url == address
    assert page.evaluate("document.documentElement.dataset.theme") is None
    inside(page).get_by_role("button", name="Keys", exact=True).focus()
    press_keys(page, "Shift+Tab")
    until(page, "document.activeElement.tagName !== 'IFRAME'")
    expect(page.get_by_role("link", name="Open in a new tab")).to_be_focused()
    press_keys(page, "Tab")
    inside(page).locator("#submit").focus()
    press_keys(page, "Tab")
    until(page, "document.activeElement.tagName !== 'IFRAME'")


def test_the_address_follows_the_page_inside(page: Page, console: Console, visit: Visit) -> None:
    """A link in the frame stays there; the console names it, finds it again, and goes back."""
    visit(console, "/experiments?tab=new", "Lab")
    inside(page).get_by_role("link", name="Review Ships one").click()
    expect(inside(page).get_by_role("heading", level=1, name="Ships one")).to_be_visible()
    expect(page).to_have_url(re.compile(r"tab=review&page=%2Flab%2Freview%2F"))
    expect(page.get_by_role("link", name="Review", exact=True)).to_have_attribute(
        "aria-current", "page"
    )
    page.reload()
    expect(inside(page).get_by_role("heading", level=1, name="Ships one")).to_be_visible()
    press_keys(page, "]")
    expect(inside(page).get_by_role("heading", level=1, name="Ships two")).to_be_visible()
    page.go_back()
    expect(inside(page).get_by_role("heading", level=1, name="Ships one")).to_be_visible()


@pytest.mark.parametrize(
    "asked", ["https://example.test/", "/memory", "//example.test/lab", "/lab/assets/api.js"]
)
def test_only_pages_of_the_lab_are_framed(
    page: Page, console: Console, visit: Visit, asked: str
) -> None:
    """Whatever an address asks for, the frame holds what belongs there."""
    visit(console, f"/experiments?tab=compare&page={asked}", "Lab")
    expect(inside(page).get_by_role("heading", level=1, name="Endings")).to_be_visible()
    assert framed_page(page).startswith("/lab/compare/")


def test_a_page_that_cannot_be_loaded_is_reported(
    page: Page, console: Console, visit: Visit, watch: PageMonitor
) -> None:
    """Instead of the browser's own words there is a sentence, and a way to try again."""
    watch.expect_restart()
    page.route("**/lab/compare/*", lambda route: route.abort(), times=1)
    visit(console, "/experiments?tab=compare", "Lab")
    expect(page.get_by_text("This page could not be loaded")).to_be_visible()
    page.get_by_role("button", name="Try again").click()
    expect(inside(page).get_by_role("heading", level=1, name="Endings")).to_be_visible()
    expect(page.get_by_text("This page could not be loaded")).to_have_count(0)


def test_the_frame_wears_the_colours_of_the_console(
    page: Page, console: Console, visit: Visit
) -> None:
    """A theme that was chosen outside holds inside, at once and after a change."""
    visit(console, "/experiments?tab=compare", "Lab")
    expect(inside(page).locator("#submit")).to_be_visible()
    ground = "getComputedStyle(document.body).backgroundColor"
    before = page.frames[1].evaluate(ground)
    page.locator("h1").click()
    while page.evaluate("document.documentElement.dataset.theme") != "dark":
        press_keys(page, "t")
    expect(inside(page).locator("html")).to_have_attribute("data-theme", "dark")
    assert page.frames[1].evaluate(ground) != before
    assert page.frames[1].evaluate(ground) == page.evaluate(ground)


def test_too_few_decisions_have_no_winner(page: Page, console: Console, visit: Visit) -> None:
    """One decision is shown with its interval, and called not enough."""
    visit(console, "/experiments?tab=results", "Lab")
    table = page.get_by_role("table", name="Standings of Hooks")
    expect(table.get_by_role("row").filter(has_text="two")).to_contain_text("not enough data")
    expect(table.get_by_role("row").filter(has_text="two")).to_contain_text("100 % (21 % to 100 %)")
    expect(page.get_by_role("table", name=re.compile("^Metrics of Hooks"))).to_contain_text(
        "better"
    )
    page.get_by_text("The 1 comparison behind these numbers").click()
    page.get_by_role("link", name=re.compile("^exp_")).click()
    expect(inside(page).get_by_role("heading", level=1, name="Decided")).to_be_visible()


def test_lists_say_what_waits(page: Page, console: Console, visit: Visit) -> None:
    """Comparisons and runs show their state, and nothing that would bias the judging person."""
    visit(console, "/experiments?state=open", "Lab")
    rows = page.get_by_role("table", name="Comparisons").locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("hidden until decided")
    page.get_by_role("link", name="Runs", exact=True).nth(-1).click()
    expect(page.get_by_role("table", name="Runs of the Lab")).to_contain_text("Ships one")
    press_keys(page, "j", "Enter")
    expect(inside(page).locator("#submit")).to_be_visible()


@pytest.mark.parametrize("tab", ["comparisons", "results", "compare"])
def test_everybody_can_use_it(page: Page, console: Console, visit: Visit, tab: str) -> None:
    """No violation and no sideways scroll, at three widths and in both schemes."""
    visit(console, f"/experiments?tab={tab}", "Lab")
    if tab == "compare":
        expect(inside(page).locator("#submit")).to_be_visible()
        assert Axe().run(page.frames[1]).violations_count == 0  # and from now on with the rest
    else:
        expect(page.get_by_role("table").first).to_be_visible()
    assert_accessible(page)


@pytest.mark.parametrize(
    ("tab", "title"),
    [
        ("comparisons", "Nothing has been compared yet"),
        ("review", "Nothing waits to be reviewed"),
    ],
)
def test_everybody_can_use_it_when_empty(
    page: Page, empty: Console, visit: Visit, tab: str, title: str
) -> None:
    """The same where there is nothing yet, with a command to begin with."""
    visit(empty, f"/experiments?tab={tab}", "Lab")
    expect(page.get_by_role("heading", name=title)).to_be_visible()
    assert_accessible(page)
